//! Arbitrary bytes read as the credit of an APElink.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::apelink_credit(bytes));
