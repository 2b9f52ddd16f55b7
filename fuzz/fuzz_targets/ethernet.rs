//! Arbitrary bytes described as `ethernet`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(ethernet);
