//! Arbitrary bytes read as the header of an APElink.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(apelink_header);
