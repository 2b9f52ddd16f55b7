//! Arbitrary bytes printed as a frame of an APElink.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(apelink_frame);
