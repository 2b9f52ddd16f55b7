//! Arbitrary bytes read as a configuration.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::configuration(bytes));
