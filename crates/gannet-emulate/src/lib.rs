//! Front ends as generators of true formats with physics-like content, seeded and paced.
//!
//! The crate opens no socket, starts no thread and reads no clock. [`Emulator`] makes frames with
//! pedestals, noise, tracks, deposits and, if asked, faults, and keeps the [`Truth`] about them;
//! [`Pacer`] says when they are due; [`Replay`] does the same for recorded packets. A sender puts
//! the [`Burst`]s on the wire. [`FrontEnd`] makes any single frame again, for checks.
//!
//! ```
//! use gannet_emulate::{Config, Emulator, Pacer};
//! use gannet_wire::ChannelMap;
//!
//! let config = Config::default();
//! let map = ChannelMap::synthetic(&config.streams.geo_ids())?;
//! let mut emulator = Emulator::new(&config, &map, 107_544_625_968_523_275)?;
//! let mut pacer = Pacer::new(&config.pace, config.streams.format, emulator.streams(), 0);
//! let mut sent = 0;
//! while let Some(due) = pacer.next(1_000_000) {
//!     let burst = emulator.next_burst(due.stream, due.count);
//!     sent += burst.datagrams().len();
//! }
//! assert_eq!(sent as u64, emulator.truth().total().datagrams_sent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

pub mod config;
mod content;
mod datagram;
mod emulator;
mod faults;
mod front_end;
mod held;
pub mod pacer;
pub mod replay;
mod seeds;
pub mod truth;

pub use config::{Config, ConfigError};
pub use content::event::{Event, EventKind, Hit};
pub use content::pattern::Pattern;
pub use datagram::{BURST_DATAGRAMS_MAX, BURST_FRAMES_MAX, Burst, Datagram};
pub use emulator::Emulator;
pub use front_end::FrontEnd;
pub use pacer::{Due, PaceReport, Pacer};
pub use replay::Replay;
pub use truth::{FaultCounts, StreamTruth, Truth};
