//! Arbitrary bytes read as the credit of an APElink.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(apelink_credit);
