//! Front ends of the NA62 RICH: rings of light as hits of 1952 photomultipliers.

pub mod config;
pub mod event;
mod generator;
mod optics;

pub use event::{Event, Hit, Ring};
pub use generator::Generator;
