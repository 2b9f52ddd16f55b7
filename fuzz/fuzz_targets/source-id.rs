//! Arbitrary bytes described as `source-id`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(source_id);
