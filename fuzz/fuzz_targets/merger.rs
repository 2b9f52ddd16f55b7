//! Arbitrary streams with arbitrary clocks brought into one order of time.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(merger);
