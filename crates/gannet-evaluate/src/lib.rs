//! Experiments: what a path reaches, and, measured in the same run, what this machine would
//! allow.
//!
//! A figure without its limit says little: 20 Gbit/s may be poor or all that memory gives. So an
//! experiment measures both, one after the other, and reports the ratio.

pub mod awareness;
mod cores;
pub mod ingest;
pub mod limits;
mod picture;
pub mod search;
pub mod survival;
mod sys;
pub mod torus;
pub mod tpg;
pub mod trials;
