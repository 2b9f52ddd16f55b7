//! Arbitrary bytes read as the address of an endpoint over UDP.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(exchange_udp);
