//! Receiving RoCEv2 without an RDMA card: RDMA WRITEs of unreliable connections, by a UDP socket.
//!
//! A [`RoceSource`] lets a UDP source take the packets, judges each, and lands every message that came
//! whole in a cell of its ring. Nothing of a packet reaches the ring before its check sum, queue pair,
//! key and place are known to be right.
//!
//! A sender sees a window: as many cells as the ring has, each as long as the longest frame, from
//! [`RoceConfig::start`] on. A message begins a cell and holds one frame. It lands in the next cell of
//! the ring, so a frame that was lost leaves no hole.
//!
//! A queue pair belongs to the first sender who writes to it with the key, by address and port, until that has been silent
//! for a second. So a sender that begins anew from another port waits for so long; in a new run every queue pair is free.
//!
//! Packets are numbered. What lacks between two is counted as missing, but for what the kernel dropped; a message that
//! lacks a packet is not delivered. The account counts a message as one when it is delivered or refused, and one by one the
//! packets that lack and those of messages that are not whole.

mod config;
mod connection;
mod sink;
mod source;

pub use config::RoceConfig;
pub use sink::{RoceSink, RoceTarget};
pub use source::{RoceSource, window_cells};

/// Longest data of a packet: the largest MTU of InfiniBand.
const DATA_LEN_MAX: usize = 4096;
/// The smallest MTU of InfiniBand.
const DATA_LEN_MIN: usize = 256;
