//! Arbitrary bytes described as `pcapng`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(pcapng);
