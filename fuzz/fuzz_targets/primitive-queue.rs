//! Arbitrary operations at both ends of the queue of primitives.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::primitive_queue(bytes));
