//! Arbitrary bytes described as `tdeeth`.
#![no_main]

use gannet_wire::inspect::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::describe_tpc_frame(Format::TdeEth, bytes));
