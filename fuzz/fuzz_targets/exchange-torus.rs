//! Arbitrary bytes read as the address of an endpoint over a torus.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(exchange_torus);
