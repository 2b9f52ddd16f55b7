//! Arbitrary bytes described as `fragment`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(fragment);
