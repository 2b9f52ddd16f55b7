//! Integration tests of the fabric.
#![cfg(not(loom))]

mod clop;
mod conformance;
mod meeting;
mod messenger;
mod ofi;
mod processes;
mod relay;
mod shm;
mod sim;
mod sim_clop;
mod stuck;
mod tcp;
mod udp;
