//! A torus of hosts: drivers of ports, and what keeps a node going between them.
//!
//! A [`Port`] carries frames to the other end of a cable and from it: between threads of a process ([`memory`]), or as
//! datagrams of a socket ([`udp`]). A [`Driver`] owns a node ([`gannet_torus::node::TorusNode`]) and the ports of its
//! links, and does what lies between: it takes what has come, lets time pass, sends what is due, and sleeps until the
//! next frame or deadline.
#![forbid(unsafe_code)]

mod driver;
pub mod member;
pub mod memory;
pub mod neighbour;
mod patience;
mod port;
pub mod udp;

pub use driver::{Driver, PortCounters};
pub use patience::Patience;
pub use port::Port;
