//! Arbitrary operations at both ends of the queue of primitives.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(primitive_queue);
