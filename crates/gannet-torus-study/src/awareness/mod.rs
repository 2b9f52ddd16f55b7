//! How soon does a master know of a fault? A deterministic simulation of [`lofamo`](gannet_lofamo).
//!
//! Every node has a [`Host`](gannet_lofamo::Host) and a [`Nic`](gannet_lofamo::Nic), and one
//! [`Master`](gannet_lofamo::Master) sits on the service network: the same machines as on live
//! links. Each beat, check, reading, message and report is an event. [`Surroundings`] says how
//! late they may be, [`Fault`] what breaks. A [`Campaign`] runs trials of random faults and counts
//! what was not noticed or wrongly reported, [`Quiet`] is a machine without faults.
//!
//! Faults stay, spare the master, and cables that work lose no credit word: so the published
//! figures are made. [`Hardship`] and [`Surroundings`] make trials harder.
//!
//! One thing is not simulated event by event: the credit words of links that work, of which there
//! are a million a second. NICs are told of them all at once, just before it matters. A test drives
//! NICs word by word and finds the same.

mod campaign;
mod distribution;
mod events;
mod fault;
mod hardship;
mod machine;
mod quiet;
mod simulation;
mod truth;

pub use campaign::{Campaign, CampaignReport, KindReport, TrialResult};
pub use distribution::{Distribution, Limits, PUBLISHED_PERIODS};
pub use fault::{Errors, FAULTS_MAX, Fault, FaultKind, random_faults};
pub use hardship::Hardship;
pub use machine::{Jitter, NODES_MAX, Surroundings, Watched};
pub use quiet::{Quiet, QuietReport};
