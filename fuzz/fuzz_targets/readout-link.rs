//! Arbitrary bytes described as `readout-link`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(readout_link);
