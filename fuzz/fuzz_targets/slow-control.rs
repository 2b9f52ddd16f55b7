//! Arbitrary bytes described as `slow-control`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(slow_control);
