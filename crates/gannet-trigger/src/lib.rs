//! What any detector's trigger is made of: items found in frames, one order of time for all
//! streams, candidates and decisions.
//!
//! Everything here is a state machine: items and times go in, what follows from them comes out.
//! Nothing reads a clock, a socket or a file, and every buffer has a named maximum.
//!
//! * [`item`] says what is found in frames, and what finds it;
//! * [`merge`] brings the items of many streams into one order of time;
//! * [`source`] makes candidates at random or at fixed intervals;
//! * [`module_level`] merges candidates into decisions, and knows when it cannot issue any.
#![forbid(unsafe_code)]

pub mod candidate;
pub mod error;
pub mod item;
pub mod merge;
pub mod module_level;
pub mod prescale;
pub mod source;

pub use error::{Error, Result};
pub use item::{Finder, Item};

#[cfg(test)]
mod fixture;
