//! Arbitrary bytes described as `daq-ethernet`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::daq_ethernet(bytes));
