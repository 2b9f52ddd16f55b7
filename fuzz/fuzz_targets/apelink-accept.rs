//! Arbitrary frames received by an end of an APElink.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(apelink_accept);
