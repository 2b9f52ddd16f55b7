//! Arbitrary bytes described as `tdm`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(tdm);
