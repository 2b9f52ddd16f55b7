//! Arbitrary bytes described as `wibeth`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(wibeth);
