//! Arbitrary bytes described as `component-request`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(component_request);
