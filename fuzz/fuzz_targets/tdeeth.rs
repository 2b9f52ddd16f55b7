//! Arbitrary bytes described as `tdeeth`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::tdeeth(bytes));
