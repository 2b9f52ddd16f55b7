//! Receiving and sending over UDP.
//!
//! A [`UdpSource`] owns one socket. [`open`] makes one source for each socket of a
//! configuration; a [`Spread`] says which streams come by which socket of an address. The kernel writes messages straight into the cells of the ring; nothing is
//! copied afterwards, except a frame that comes at the end of a message of other datagrams.
//!
//! # Nothing is lost between start and stop
//!
//! A source gets its port last, when all that takes time is done. Until it starts, a filter refuses
//! every datagram, and the kernel counts them. `start` takes the filter away at one instant. `stop` connects the socket to itself, so that at one instant the kernel finds
//! it no more for anybody, while what is queued can still be taken. Sockets that share an address
//! refuse everything before, all of them. Every datagram in between is
//! taken or counted by the kernel as dropped; the modules `drops` and `socket_account` tell how that count
//! is made exact.

mod allow;
mod coalesced;
mod coalescing;
mod config;
mod drops;
mod group;
mod intake;
mod outbox;
mod receiver;
mod segments;
mod setup;
mod sink;
mod socket_account;
mod source;
mod spread;

pub(crate) use allow::{AllowList, RULES_MAX};
pub use allow::{ParseSenderError, SenderRule};
pub use coalesced::{CoalescedSocket, Message};
pub use config::{Engine, UdpConfig};
pub(crate) use drops::DropCount;
#[cfg(test)]
pub(crate) use drops::read_proc;
pub use outbox::Outbox;
pub use sink::{UdpSink, UdpSinkConfig};
pub use source::{UdpSource, open, prepare};
pub use spread::Spread;

#[cfg(test)]
mod tests;
