//! Arbitrary bytes verified as a file of the run log.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::log(bytes));
