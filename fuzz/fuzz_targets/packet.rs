//! Arbitrary bytes taken as an Ethernet frame with a UDP payload.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(packet);
