//! Arbitrary bytes described as what they look like.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::any_format(bytes));
