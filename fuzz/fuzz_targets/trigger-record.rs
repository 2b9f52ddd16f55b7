//! Arbitrary bytes described as `trigger-record`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::trigger_record(bytes));
