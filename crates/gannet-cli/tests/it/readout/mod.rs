//! The readout end to end: the real binary, real sockets, real files.

mod again;
mod apart;
mod browser;
mod clocks;
mod edges;
mod equality;
mod fabric;
mod hostile;
mod http;
mod interruption;
mod ledger;
mod namespaces;
mod pages;
pub mod process;
mod raw_streams;
mod recording;
mod roce;
mod station;
mod trigger_fragments;
mod unprivileged;
mod xdp;
