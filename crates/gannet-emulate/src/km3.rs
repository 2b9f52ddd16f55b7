//! Optical modules of KM3NeT in the sea: noise, decays of potassium 40, muons and showers.

pub mod config;
pub mod event;
mod front_end;
mod light;
mod light_slices;
mod modules;
mod noise;

pub use config::Config;
pub use event::{Event, EventKind, Hit, Slice};
pub use front_end::Km3FrontEnd;
