//! A switchless torus of direct links, as state machines without input or output.
//!
//! [`Lattice`] is the shape of the machine: one to three rings of any size. [`Faults`] is what of
//! it does not work.
//!
//! [`link`] carries packets over a cable that loses and damages words. [`rdma`] moves data between
//! the memories of two nodes. [`node`] joins links and engine of a node by a router. [`lofamo`]
//! makes nodes aware of faults, and a master of all of them.
//!
//! [`routes`] plans the way of packets round faults, and [`simulator`] carries them flit by flit.
#![forbid(unsafe_code)]

pub mod faults;
pub mod lattice;
pub mod link;
pub mod lofamo;
pub mod node;
pub mod rdma;
pub mod routes;
pub mod simulator;

pub use faults::Faults;
pub use lattice::{Cable, Direction, Lattice, LatticeError, Node};
pub use routes::Routes;
