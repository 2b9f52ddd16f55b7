//! Arbitrary bytes described as `ipv4`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::ipv4(bytes));
