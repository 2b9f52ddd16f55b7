//! Arbitrary bytes described as `rdma`.
#![no_main]

use gannet_wire::inspect::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::describe_as(Format::Rdma, bytes));
