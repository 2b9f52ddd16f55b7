//! What the frames hold, as a function of configuration, seed, stream and frame number alone.

pub(crate) mod block;
pub mod event;
mod events;
pub(crate) mod noise;
pub mod pattern;
pub(crate) mod pulse;
pub(crate) mod pulser;
pub(crate) mod signals;
mod wires;
