//! Arbitrary bytes described as `wibeth`.
#![no_main]

use gannet_wire::inspect::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::describe_tpc_frame(Format::WibEth, bytes));
