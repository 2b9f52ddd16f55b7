//! Front ends of the NA62 RICH: rings of light as hits of 1952 photomultipliers.

pub mod config;
pub mod event;
mod front_end;
mod generator;
mod optics;
mod pool;

pub use config::{Config, Content, Packets};
pub use event::{Event, Hit, Ring};
pub use front_end::{KINDS, RichFrontEnd};
pub use generator::Generator;
pub(crate) use optics::poisson;
