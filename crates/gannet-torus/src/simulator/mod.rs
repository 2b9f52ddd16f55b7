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

mod agenda;
mod arbiter;
mod crew;
mod engine;
mod fault;
mod follow;
mod measure;
mod packet;
mod pattern;
mod router;
mod rules;
mod script;
mod setup;
mod slab;
mod slice;
mod source;
mod tally;
mod traffic;

pub use agenda::{Happening, What};
pub use engine::Simulation;
pub use fault::{Event, Switched, Totals};
pub use follow::Arrivals;
pub use measure::{LinkLoad, Report, WarmUp, Windows};
pub use pattern::Pattern;
pub use rules::channels_of_class;
pub use script::{Script, ScriptError};
pub use setup::{Arbitration, FlowControl, PACKET_FLITS_MAX, Setup, SetupError};
pub use slice::Slice;
pub use traffic::{Trace, TraceError, TracedPacket};
