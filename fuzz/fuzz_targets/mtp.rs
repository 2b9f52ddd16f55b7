//! Arbitrary bytes described as `mtp`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(mtp);
