//! Trigger primitive generation (TPG) on the frames of a stream.
//!
//! [`TpgConfig`] says what the chain of kernels does, by plane; [`StreamTpg`] runs it on the
//! frames of one stream, minds the gaps between them, and counts.

mod channel_index;
mod config;
mod counters;
mod noise;
mod pedestal;
mod stream;

pub use config::{Chain, IsaChoice, TpgConfig};
pub use counters::{StreamCounters, TpgFrameDrop};
pub use pedestal::{InitialPedestal, PEDESTAL_RESTART_TICKS};
pub use stream::StreamTpg;

#[cfg(test)]
mod tests;
