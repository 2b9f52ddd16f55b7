//! Arbitrary bytes described as `trigger-primitive`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(trigger_primitive);
