//! Arbitrary bytes described as `rdma`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::rdma(bytes));
