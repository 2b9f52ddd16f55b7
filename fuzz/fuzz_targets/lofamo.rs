//! Arbitrary bytes as the registers and diagnostics of LO|FA|MO.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::lofamo(bytes));
