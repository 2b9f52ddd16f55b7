//! Arbitrary bytes described as `daq-ethernet`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(daq_ethernet);
