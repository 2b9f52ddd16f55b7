//! Arbitrary bytes taken as an Ethernet frame with a UDP payload.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::packet(bytes));
