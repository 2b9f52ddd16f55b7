//! Arbitrary bytes described as what they look like.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(any_format);
