//! Arbitrary bytes described as `mgp`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(mgp);
