//! Arbitrary bytes read as a channel map.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::channel_map(bytes));
