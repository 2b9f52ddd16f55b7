//! Arbitrary bytes described as `apelink`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(apelink);
