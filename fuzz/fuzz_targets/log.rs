//! Arbitrary bytes verified as a file of the run log.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(log);
