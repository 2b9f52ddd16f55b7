//! Arbitrary bytes described as `apelink`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::apelink(bytes));
