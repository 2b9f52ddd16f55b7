//! What KM3NeT sends and describes: formats of its optical modules, and where these are.
//!
//! Every time is UTC, in seconds and ticks of 16 ns. It is cut into *slices* of 100 ms; a hit has
//! its time within the slice, in nanoseconds, and its time over threshold.
//!
//! Source: KM3NeT/km3pipe, KM3NeT/KM3io.jl.

pub mod clb;
pub mod daq;
pub mod detector_file;
mod hit;
mod status;
pub mod tdm;

use gannet_measure::ticks::TickRate;

pub use detector_file::DetectorFile;
pub use hit::{CHANNELS, Hit};
pub use status::Status;

/// Clock whose ticks count the nanoseconds since 1970.
pub const CLOCK: TickRate = TickRate::hz(1_000_000_000);
/// Length of a slice in nanoseconds, unless a detector is set otherwise.
pub const SLICE_NS: u64 = 100_000_000;
/// Nanoseconds of a tick of the headers.
pub const TICK_NS: u64 = 16;
/// Ticks of a second.
pub const TICKS_PER_S: u32 = 62_500_000;
