//! Arbitrary bytes printed as a message between hosts of a torus.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(neighbour);
