//! Trigger primitives, activities, candidates and decisions: state and time limits around the
//! kernels.
//!
//! Everything here is a state machine: primitives and times go in, what follows from them comes
//! out. Nothing reads a clock, a socket or a file, and every buffer has a named maximum.
//!
//! Start with [`StreamTpg`](tpg::StreamTpg), which finds the primitives of one stream, and
//! [`TriggerChain`], which makes decisions of the primitives of all:
//!
//! * [`tpg`] runs the kernels on the frames of a stream, minds gaps and counts;
//! * [`merge`] brings the primitives of many streams into one order of time;
//! * [`activity`] groups them into activities, [`candidate`] takes those that ask for a readout;
//! * [`source`] adds candidates at random or at fixed intervals;
//! * [`module_level`] merges candidates into decisions, and knows when it cannot issue any;
//! * [`recent`] remembers primitives and activities for a while, to cut windows out of.
//!
//! # Examples
//!
//! A hit on each of 20 neighbouring channels is a track, and the default trigger reads it out:
//!
//! ```
//! use gannet_trigger::sampling::Sampling;
//! use gannet_trigger::{TriggerChain, TriggerConfig, TriggerOutput};
//! use gannet_wire::TriggerPrimitive;
//! use gannet_wire::trigger_primitive::Repr;
//!
//! let track = (100..120).map(|channel| {
//!     TriggerPrimitive::new(Repr {
//!         channel,
//!         detid: 3,
//!         flag: 0,
//!         time_start: 1_000_000 + 10 * u64::from(channel),
//!         samples_over_threshold: 10,
//!         samples_to_peak: 4,
//!         adc_integral: 500,
//!         adc_peak: 100,
//!     })
//! });
//! let mut chain = TriggerChain::new(&TriggerConfig::default(), 1, 42, Sampling::default())?;
//! let mut out = TriggerOutput::default();
//! chain.push(0, &Vec::from_iter(track), 1_002_048, 0, &mut out);
//! chain.drain(0, &mut out);
//!
//! let decision = &out.decided.decisions[0];
//! assert_eq!((decision.run, decision.trigger_number), (42, 1));
//! assert_eq!(decision.timestamp, 1_001_000);
//! assert_eq!(decision.window_begin, decision.timestamp - 1000);
//! # Ok::<(), gannet_trigger::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod activity;
pub mod candidate;
pub mod chain;
pub mod error;
pub mod item;
pub mod merge;
pub mod module_level;
pub mod prescale;
pub mod recent;
pub mod sampling;
pub mod source;
pub mod tpg;

pub use chain::{DataTime, TriggerChain, TriggerConfig, TriggerCounters, TriggerOutput};
pub use error::{Error, Result};
pub use item::{Finder, Item};

#[cfg(test)]
mod fixture;
