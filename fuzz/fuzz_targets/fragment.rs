//! Arbitrary bytes described as `fragment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::fragment(bytes));
