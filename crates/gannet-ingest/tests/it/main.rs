//! The integration tests of this crate, one module a subject.

mod config;
mod conformance;
mod loss;
mod pcap;
mod roce;
mod wire;
mod xdp;
