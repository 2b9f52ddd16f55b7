//! A deterministic simulator of many nodes, accurate to the flit and the cycle.
//!
//! Every node is a router with input queues and virtual channels, joined to its neighbours by links
//! with delay and credits. The same seed gives the same result, bit for bit, on any number of
//! threads.
//!
//! ```
//! use gannet_torus::simulator::{Pattern, Setup, Simulation, Windows};
//!
//! let setup = Setup::new("4x4x4".parse()?);
//! let mut simulation = Simulation::new(&setup, Pattern::Uniform, 0.3)?;
//! let report = simulation.measure(&Windows::default());
//! assert!(report.latency.mean > 18.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fault;
mod measure;
mod packet;
mod partition;
mod partitions;
mod router;
mod rules;
mod script;
mod setup;
mod simulation;
mod source;
mod tally;
mod trace;
mod traffic;

pub use crate::router::{Arbitration, channels_of_class};
pub use fault::Totals;
pub use measure::{LinkLoad, Report, WarmUp, Windows};
pub use packet::PACKET_FLITS_MAX;
pub use script::{Event, Happening, Script, Switched, What};
pub use setup::{FlowControl, Setup, SetupError};
pub use simulation::{Arrivals, Simulation, Slice};
pub use trace::{LineError, Trace, TracedPacket};
pub use traffic::{Generator, Made, Pattern, Traffic};
