//! Arbitrary bytes described as `component-request`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::component_request(bytes));
