//! Arbitrary bytes described as `torus_user`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(torus_user);
