//! Arbitrary operations of the producer and a reader of a clop.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::clop(bytes));
