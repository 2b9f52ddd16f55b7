//! Arbitrary bytes described as `ethernet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::ethernet(bytes));
