//! Trigger primitives, activities, candidates and decisions: state and time limits around the
//! kernels.
//!
//! Everything here is a state machine: primitives and times go in, what follows from them comes
//! out. Nothing reads a clock, a socket or a file, and every buffer has a named maximum.
//!
//! Start with [`TriggerChain`], which composes all of it:
//!
//! * [`merge`] brings the primitives of many streams into one order of time;
//! * [`activity`] groups them into activities, [`candidate`] takes those that ask for a readout;
//! * [`source`] adds candidates at random or at fixed intervals;
//! * [`module_level`] merges candidates into decisions, and knows when it cannot issue any.
#![forbid(unsafe_code)]

pub mod activity;
pub mod candidate;
pub mod chain;
pub mod error;
pub mod merge;
pub mod module_level;
pub mod prescale;
pub mod sampling;
pub mod source;

pub use chain::{TriggerChain, TriggerConfig, TriggerCounters, TriggerOutput};
pub use error::{Error, Result};

#[cfg(test)]
mod fixture;
