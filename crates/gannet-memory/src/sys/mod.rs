//! The only place of this crate where memory is touched through raw pointers.

mod cells;
#[cfg_attr(loom, path = "modelled.rs")]
pub mod mapping;
pub mod parts;
pub mod prefetch;
pub mod region;
pub mod shared;
pub mod vectors;
mod words;
