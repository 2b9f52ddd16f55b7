//! Arbitrary bytes described as `trigger-record`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(trigger_record);
