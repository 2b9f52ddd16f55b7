//! Arbitrary bytes described as `pcap`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::pcap(bytes));
