//! Arbitrary bytes described as `clb-capture`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(clb_capture);
