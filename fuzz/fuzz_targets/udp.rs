//! Arbitrary bytes described as `udp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::udp(bytes));
