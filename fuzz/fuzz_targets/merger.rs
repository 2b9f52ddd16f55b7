//! Arbitrary streams with arbitrary clocks brought into one order of time.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::merger(bytes));
