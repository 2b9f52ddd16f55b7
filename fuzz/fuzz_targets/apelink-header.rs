//! Arbitrary bytes read as the header of an APElink.
#![no_main]

use gannet_wire::apelink::Header;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::record::<Header>(bytes));
