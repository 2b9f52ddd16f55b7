//! Arbitrary bytes described as `clb`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(clb);
