//! Trigger primitives, activities, candidates and decisions: state and time limits around the
//! kernels.
//!
//! Everything here is a state machine: primitives and times go in, what follows from them comes
//! out. Nothing reads a clock, a socket or a file, and every buffer has a named maximum.
//!
//! * [`merge`] brings the primitives of many streams into one order of time;
//! * [`activity`] groups them into activities.
#![forbid(unsafe_code)]

pub mod activity;
pub mod candidate;
pub mod error;
pub mod merge;
pub mod module_level;
pub mod prescale;
pub mod sampling;
pub mod source;

pub use error::{Error, Result};

#[cfg(test)]
mod fixture;
