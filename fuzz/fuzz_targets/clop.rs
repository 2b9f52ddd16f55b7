//! Arbitrary operations of the producer and a reader of a clop.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(clop);
