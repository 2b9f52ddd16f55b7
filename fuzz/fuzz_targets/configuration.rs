//! Arbitrary bytes read as a configuration.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(configuration);
