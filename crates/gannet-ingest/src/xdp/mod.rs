//! Receiving UDP before the kernel's own network code, by AF_XDP.
//!
//! An [`XdpSource`] takes the packets of one queue of a network card that go to one port, straight
//! from where the card or the driver wrote them, and copies their payload into the cells of the ring.
//! It has a UDP socket too, which keeps the port and refuses everything: what the program of the
//! source leaves to the kernel's own network code is counted there.

mod config;
mod source;

pub use config::{XdpConfig, XdpMode};
pub use source::{XdpSource, possible};
