//! A switchless torus of direct links, as state machines without input or output.
//!
//! [`link`] carries packets over a cable that loses and damages words. [`node`] joins links, RDMA engine
//! ([`gannet_rdma`]) and fault monitor of a node by a router.
//!
//! [`router`] holds the rules by which packets find their way and their turn, live and simulated.
//!
//! [`routes`] plans the way of packets round faults, and [`simulator`] carries them flit by flit.
#![forbid(unsafe_code)]

pub mod link;
pub mod node;
pub mod router;
pub mod routes;
pub mod simulator;

pub use routes::Routes;
