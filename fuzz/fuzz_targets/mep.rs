//! Arbitrary bytes described as `mep`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(mep);
