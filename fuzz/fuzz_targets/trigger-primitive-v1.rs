//! Arbitrary bytes described as `trigger-primitive-v1`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(trigger_primitive_v1);
