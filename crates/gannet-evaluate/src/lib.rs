//! Experiments: what a path reaches, and, measured in the same run, what this machine would
//! allow.
//!
//! A figure without its limit says little: 20 Gbit/s may be poor or all that memory gives. So an
//! experiment measures both, one after the other, and reports the ratio.

pub mod cable;
pub mod clusters;
pub mod coincidences;
mod cores;
pub mod fabric;
pub mod hop;
pub mod ingest;
pub mod latency;
pub mod limits;
mod path;
pub mod registering;
pub mod rings;
pub mod search;
mod sys;
pub mod torus;
pub mod tpg;
pub mod translation;

pub use path::Medium;
