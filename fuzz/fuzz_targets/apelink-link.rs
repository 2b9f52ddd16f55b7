//! Arbitrary words received by an end of an APElink.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::apelink_link(bytes));
