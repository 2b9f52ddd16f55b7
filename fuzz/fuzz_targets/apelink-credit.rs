//! Arbitrary bytes read as the credit of an APElink.
#![no_main]

use gannet_wire::apelink::Credit;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::record::<Credit>(bytes));
