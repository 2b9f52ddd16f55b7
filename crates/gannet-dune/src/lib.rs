//! DUNE's time projection chambers: everything between their frames and the files that DUNE's tools
//! read.
//!
//! The trigger is made of state machines: primitives and times go in, what follows from them comes
//! out. Start with [`StreamTpg`](tpg::StreamTpg), which finds the primitives of one stream, and
//! [`TriggerChain`], which makes decisions of the primitives of all:
//!
//! * [`tpg`] runs the kernels on the frames of a stream, looks for gaps and counts;
//! * [`channels`] tells of the channels one by one, and which of them are noisy;
//! * [`activity`] groups primitives into activities, [`candidate`] takes those that ask for a readout;
//! * [`chain`] joins these to the merger and the module-level trigger;
//! * [`recent`] remembers primitives and activities for a while, [`trigger_fragments`] cuts windows
//!   out of them, and [`time_slice`] cuts primitives into slices for the log;
//! * [`trigger`] is what the deciding thread runs;
//! * [`detector`] joins all this to a run, and [`run_start`] is what its log says at its start;
//! * [`record`] is a trigger record as DUNE stores it;
//! * [`raw_file`] is the file of other people's tools, [`export`] makes it
//!   of a finished log, and [`inspect`] lists what is in them.
//!
//! # Examples
//!
//! A hit on each of 20 neighbouring channels is a track, and the default trigger reads it out:
//!
//! ```
//! use gannet_dune::sampling::Sampling;
//! use gannet_dune::{TriggerChain, TriggerConfig, TriggerOutput};
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
pub mod channels;
pub mod detector;
pub mod export;
pub mod inspect;
pub mod raw_file;
pub mod recent;
pub mod record;
pub mod run_start;
pub mod sampling;
pub mod time_slice;
pub mod tpg;
pub mod trigger;
pub mod trigger_fragments;

pub use chain::{DataTime, TriggerChain, TriggerConfig, TriggerCounters, TriggerOutput};

#[cfg(test)]
mod fixture;
