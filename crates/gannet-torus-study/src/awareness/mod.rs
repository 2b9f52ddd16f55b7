//! How soon does a master know of a fault? A deterministic simulation of [`lofamo`](gannet_lofamo).
//!
//! Every node has a [`Host`](gannet_lofamo::Host) and a [`Nic`](gannet_lofamo::Nic), and one
//! [`Master`](gannet_lofamo::Master) sits on the service network: the same machines as on live
//! links. Each beat, check, reading, message and report is an event. [`Surroundings`] says how
//! late they may be, [`Fault`] what breaks. [`run_trial`] runs one trial of random faults,
//! a [`Campaign`] many, and counts what was not noticed or wrongly reported.
//!
//! One thing is not simulated event by event: the credit words of links that work, of which there
//! are a million a second. NICs are told of them all at once, just before it matters. A test drives
//! NICs word by word and finds the same.

mod campaign;
mod distribution;
mod events;
mod fault;
mod quiet;
mod simulation;
mod surroundings;
mod trial;
mod truth;
mod verdict;

pub use campaign::{Campaign, CampaignReport, KindReport, Tally};
pub use distribution::{Distribution, Limits};
pub use fault::{FAULTS_MAX, Fault, FaultKind, random_faults};
pub use quiet::{Quiet, QuietReport, QuietTally};
pub use surroundings::{Jitter, NODES_MAX, Surroundings};
pub use trial::{Trial, TrialResult, run_trial, tell_trial};
