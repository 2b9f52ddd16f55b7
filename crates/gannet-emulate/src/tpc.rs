//! Front ends of time projection chambers: frames of 64 channels, with pedestals, noise, tracks,
//! deposits, pulses and patterns, as a function of configuration, seed, stream and frame number
//! alone.

mod block;
pub mod config;
pub mod event;
mod events;
mod front_end;
mod noise;
pub mod pattern;
mod pulse;
mod pulser;
mod signals;
mod wires;

pub use config::Config;
pub use event::{Event, EventKind, Hit};
pub use front_end::TpcFrontEnd;
pub use pattern::Pattern;
