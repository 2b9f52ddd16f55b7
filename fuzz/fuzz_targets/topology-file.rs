//! Arbitrary text as a topology file, and the paths in it predicted.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(topology_file);
