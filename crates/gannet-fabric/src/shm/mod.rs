//! Endpoints of one host over memory that both map.
//!
//! A PUT is a copy into memory of the other process, and an event of it a word in a ring that the other one
//! reads; no system call takes part. Windows, and the memory behind them, are told over a socket
//! ([`gannet_wire::exchange`]), which also tells when a process ends, however it does.
//!
//! What a process is given, it maps: another process of the same user that does not keep to its windows
//! could write anywhere in a region of which it has one. Windows of one region are a matter of order, not of
//! defence; memory that a process must not see has a region of its own.

mod endpoint;
mod event;
mod peer;

pub use crate::own::{Counters, Limits};
pub use endpoint::Shm;
