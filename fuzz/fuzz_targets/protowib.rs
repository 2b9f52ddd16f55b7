//! Arbitrary bytes described as `protowib`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::protowib(bytes));
