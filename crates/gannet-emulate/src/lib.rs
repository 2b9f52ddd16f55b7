//! Front ends as generators of true formats, seeded and paced, for any detector.
//!
//! The crate opens no socket, starts no thread and reads no clock. A [`FrontEnd`] makes the frames
//! of one detector; those of the TPCs, with pedestals, noise, tracks and deposits in them, are in
//! [`tpc`]. [`Emulator`] adds faults, if asked, and keeps the [`Truth`] about them; [`Pacer`] says
//! when frames are due; [`Replay`] does the same for recorded packets. A sender puts the
//! [`Burst`]s on the wire.
//!
//! ```
//! use gannet_emulate::{FrontEnd, Pacer, tpc};
//! use gannet_wire::ChannelMap;
//!
//! let config = tpc::Config::default();
//! let map = ChannelMap::synthetic(&config.streams.geo_ids())?;
//! let mut emulator = config.emulator(&map, 107_544_625_968_523_275)?;
//! let frames_per_s = emulator.front_end().frames_per_s();
//! let mut pacer = Pacer::new(&config.pace, frames_per_s, emulator.streams(), 0);
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
mod datagram;
mod emulator;
mod faults;
mod front_end;
mod held;
pub mod km3;
mod live;
mod made;
pub mod pacer;
pub mod replay;
pub mod rich;
mod seeds;
pub mod tpc;
pub mod truth;

pub use config::{ConfigError, Settings};
pub use datagram::{BURST_DATAGRAMS_MAX, BURST_FRAMES_MAX, Burst, Datagram};
pub use emulator::Emulator;
pub use front_end::{Body, FrontEnd, InjectedEvent, Traffic};
pub use live::{FaultOrder, FaultSwitch, LiveFault};
pub use made::{Made, Make};
pub use pacer::{Due, PaceReport, Pacer};
pub use replay::Replay;
pub use truth::{FaultCounts, StreamTruth, Truth};
