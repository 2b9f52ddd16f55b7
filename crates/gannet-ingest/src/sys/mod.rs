//! The only place of this crate where the operating system is called.

pub(crate) mod address;
pub(crate) mod arrival_counter;
pub(crate) mod bpf;
pub(crate) mod coalesced;
pub(crate) mod control;
pub(crate) mod interfaces;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod socket;
pub(crate) mod xdp;
