//! Arbitrary bytes described as `source-id`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::source_id(bytes));
