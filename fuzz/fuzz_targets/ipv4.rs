//! Arbitrary bytes described as `ipv4`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(ipv4);
