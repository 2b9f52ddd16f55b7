//! Arbitrary bytes described as `m2egp`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(m2egp);
