//! Arbitrary bytes described as `pcap`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(pcap);
