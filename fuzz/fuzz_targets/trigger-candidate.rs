//! Arbitrary bytes described as `trigger-candidate`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(trigger_candidate);
