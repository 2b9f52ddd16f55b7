//! Arbitrary bytes described as `component-request`.
#![no_main]

use gannet_wire::inspect::Format;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::describe_as(
    Format::ComponentRequest,
    bytes
));
