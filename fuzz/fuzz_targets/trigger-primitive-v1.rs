//! Arbitrary bytes described as `trigger-primitive-v1`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::trigger_primitive_v1(bytes));
