//! PUT and GET with completion events between processes, whatever carries them.
//!
//! An [`Endpoint`] has memory, opens windows of it for the endpoints that it is joined to, and copies to and
//! from their windows: [`put`](Endpoint::put), [`put_notify`](Endpoint::put_notify), which tells the other
//! side, and [`get`](Endpoint::get). No processor of the other side takes part. What happened is told by
//! [`poll`](Endpoint::poll), as [`Completion`]s; nothing waits, every queue is bounded, and another endpoint
//! that is gone or takes nothing is given up after a deadline.
//!
//! Backends: [`shm`], memory that processes of one host share; [`udp`], sockets of any hosts; [`ofi`], whatever
//! libfabric has, RDMA cards above all; [`torus`], a live torus of hosts; and [`sim`], paths in virtual time. All pass one suite of conformance,
//! `tests/it/conformance.rs`.
//!
//! Frames go by PUT into the ring of a far source with [`clop`].
//!
//! Endpoints find each other out of band, by a socket on which they prove to know a secret, or to be of
//! one user on one host, before a window is told ([`exchange`]); between hosts that is one of [`tcp`].

#[cfg(not(loom))]
pub mod clop;
pub mod endpoint;
#[cfg(not(loom))]
pub mod exchange;
pub mod local;
#[cfg(not(loom))]
pub mod meet;
#[cfg(not(loom))]
pub mod messenger;
#[cfg(not(loom))]
pub mod ofi;
#[cfg(not(loom))]
mod own;
#[cfg(not(loom))]
mod packet;
#[cfg(not(loom))]
mod peers;
#[cfg(not(loom))]
pub mod shm;
#[cfg(not(loom))]
pub mod sim;
#[cfg(not(loom))]
pub mod tcp;
#[cfg(not(loom))]
pub mod torus;
#[cfg(not(loom))]
mod trust;
#[cfg(not(loom))]
pub mod udp;
#[cfg(not(loom))]
mod windows;

pub use endpoint::{
    Completion, Endpoint, Facts, Failure, Get, Key, Level, LevelMissing, Local, OpenError, Opening,
    Peer, PostError, Put, RegionId, Remote, Request, Window,
};
#[cfg(not(loom))]
pub use exchange::JoinError;
#[cfg(not(loom))]
pub use meet::{Meet, OverOfi, OverShm, OverTorus, OverUdp};
#[cfg(not(loom))]
pub use own::{Counters, Limits};
#[cfg(not(loom))]
pub use trust::{SECRET_LEN_MIN, SecretError, Trust};
