//! Arbitrary bytes read as the footer of an APElink.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::apelink_footer(bytes));
