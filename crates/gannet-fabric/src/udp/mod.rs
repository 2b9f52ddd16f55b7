//! Endpoints of any hosts over UDP, without a card that knows RDMA.
//!
//! The engine of the torus ([`gannet_rdma`]) over one cable: its packets, as large as the path allows, in
//! datagrams of one socket. Loss, doubling and disorder are the engine's to mend. Each pair of endpoints has
//! an engine of its own at both ends, so that nothing is left of one that leaves, and one that comes back is
//! another one.
//!
//! A datagram is a number of eight bytes, little-endian, and a packet ([`gannet_wire::rdma`]). The number
//! names the pair; who receives it has drawn it at random and told it over TCP ([`crate::tcp`]) to who sends
//! it. What has another number, or comes from another address, is a stranger's, counted and dropped before
//! anybody looks at it.
//!
//! Completions are told in the order of posting. What is under way at the same time may be written in any order:
//! who overwrites bytes, or lets them be got, waits for the PUT before.

mod cable;
mod endpoint;
mod outgoing;
mod socket;

pub use endpoint::Udp;
