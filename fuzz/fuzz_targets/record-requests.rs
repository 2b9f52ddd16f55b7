//! Arbitrary decisions, frames and times shown to the builder of records.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::record_requests(bytes));
