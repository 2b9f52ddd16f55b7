//! Arbitrary bytes read as what hosts of a torus tell each other.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(neighbour_items);
