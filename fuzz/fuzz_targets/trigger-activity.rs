//! Arbitrary bytes described as `trigger-activity`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(trigger_activity);
