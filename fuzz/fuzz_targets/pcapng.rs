//! Arbitrary bytes described as `pcapng`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::pcapng(bytes));
