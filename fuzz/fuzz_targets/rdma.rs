//! Arbitrary bytes described as `rdma`.
#![cfg_attr(fuzzing, no_main)]

gannet_fuzz::program!(rdma);
