//! Arbitrary bytes described as `wibeth`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::wibeth(bytes));
