//! The readout end to end: the real binary, real sockets, real files.

mod again;
mod apart;
mod api;
mod browser;
mod clocks;
mod disk_trouble;
mod edges;
mod equality;
mod event_display;
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
mod several;
mod station;
mod trigger_fragments;
mod unprivileged;
mod viewers;
mod watched;
mod xdp;
