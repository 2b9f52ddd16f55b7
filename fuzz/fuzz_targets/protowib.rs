//! Arbitrary bytes described as `protowib`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(protowib);
