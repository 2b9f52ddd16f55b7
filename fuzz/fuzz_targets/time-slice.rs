//! Arbitrary bytes described as `time-slice`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(time_slice);
