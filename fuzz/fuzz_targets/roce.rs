//! Arbitrary bytes read as a packet of RoCEv2.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(roce);
