//! The shape of a torus of direct links, and what of it does not work.
//!
//! A [`Lattice`] is one to three rings of any size: its [`Node`]s have links in up to six
//! [`Direction`]s, and a [`Cable`] joins two of them. [`Faults`] are dead nodes and cables. How
//! packets find their way, and who notices a fault, is for others to say.
#![forbid(unsafe_code)]

pub mod cabling;
mod faults;
mod lattice;

pub use faults::Faults;
pub use lattice::{
    Cable, Coordinates, DIMENSIONS, Direction, LINKS, Lattice, LatticeError, MAX_NODES, Node,
};
