//! Packets in and out: UDP sockets, RoCEv2, AF_XDP, capture files and memory behind [`Source`] and [`Sink`].
//!
//! A [`Source`] lands datagrams, of one length or of any in a range, each in a cell of a
//! [clop](mod@gannet_memory::clop), where they stay until they are overwritten. It hands out
//! [`Arrival`]s, never bytes that were copied for the purpose, and keeps an account in which
//! every datagram is delivered or dropped for a named reason, drops of the kernel included.
//! What the datagrams hold is not its business; [`continuity`] is the checker for streams of
//! frames that carry a time and a sequence number.
//!
//! Start with [`udp::open`] and [`MemorySource`]:
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//! use gannet_ingest::{Landing, MemorySource, Source};
//! use gannet_measure::clock::SystemClock;
//!
//! let frames = vec![vec![1u8; 64], vec![2; 64]];
//! let landing = Landing { lengths: 64..=64, cells: 1024 };
//! let mut source = MemorySource::of_frames(landing, Arc::new(SystemClock::start()), frames)?;
//! source.start()?;
//! while !source.is_exhausted() {
//!     source.poll(Duration::from_millis(10))?;
//!     let landed = source.landed();
//!     for arrival in landed.arrivals() {
//!         let frame = landed.producer().bytes(arrival.cell, arrival.len as usize);
//!         assert!(frame[0] == 1 || frame[0] == 2);
//!     }
//! }
//! assert!(source.landed().account().statement("memory").closes());
//! # Ok::<(), gannet_ingest::Error>(())
//! ```
//!
//! The operating system is called only in `sys`; everything else is safe code.

pub mod continuity;
mod error;
mod landed;
mod memory;
mod pcap;
pub mod roce;
mod sink;
mod source;
mod sys;
pub mod udp;
pub mod xdp;

pub use error::Error;
pub use landed::{BATCH_FRAMES, Landed};
pub use memory::{DATAGRAMS_AT_ONCE, Datagrams, MemorySource, Next};
pub use pcap::{PcapConfig, PcapSource};
pub use sink::{Datagram, Sent, Sink};
pub use source::{Arrival, Counters, DropSizes, Facts, KernelBuffer, Landing, Source, SourceDrop};
pub use sys::interfaces::{InterfaceState, interface_addresses, interface_state};
