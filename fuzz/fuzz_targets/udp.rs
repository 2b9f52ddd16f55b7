//! Arbitrary bytes described as `udp`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(udp);
