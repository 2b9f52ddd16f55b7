//! Arbitrary bytes read as the footer of an APElink.
#![no_main]

use gannet_wire::apelink::Footer;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| gannet_fuzz::record::<Footer>(bytes));
