//! Arbitrary bytes described as `exchange`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(exchange);
