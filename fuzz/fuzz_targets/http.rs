//! Arbitrary bytes sent to the HTTP server on one connection.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::http(bytes));
