//! Arbitrary bytes described as `km3net-daq`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(km3net_daq);
