//! Arbitrary bytes described as `tdeeth`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(tdeeth);
