//! Arbitrary bytes described as `time-slice`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::time_slice(bytes));
