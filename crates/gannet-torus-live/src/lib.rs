//! A torus of hosts: they find each other, make one machine, and carry its packets.
//!
//! A [`Port`] carries frames to the other end of a cable and from it: between threads of a process ([`memory`]), or as
//! datagrams of a socket ([`udp`]). A [`Driver`] owns a [`Speaker`] and its ports, and does what lies between: it takes what
//! has come, lets time pass, sends what is due, and sleeps until the next frame or deadline.
//!
//! Who speaks is a node alone ([`gannet_torus::node::TorusNode`]), where it is known which cable leads where, or a
//! [`Host`]: it meets its [`neighbour`]s, becomes a [`member`] of the machine that their cables make, and from then on
//! drives the node that it is there.
//!
//! The [`kernel`] of a host may have its routes, too, where cables join interfaces: IP then goes by it alone.
//!
//! Processes of a host use its node by a socket: [`users`] serves them, and [`user`] is what they link ([`gannet_fabric::torus`]).
#![forbid(unsafe_code)]

pub mod addresses;
pub mod drill;
mod driver;
mod host;
pub mod identity;
pub mod kernel;
mod losses;
pub mod member;
pub mod memory;
pub mod neighbour;
mod packets;
mod patience;
mod port;
mod protection;
pub mod status;
mod stranger;
pub mod tunnel;
pub mod udp;
pub mod users;

pub use gannet_fabric::torus::user;

pub use driver::{Driver, PortCounters, Speaker};
pub use host::{Host, Probe};
pub use patience::Patience;
pub use port::Port;
