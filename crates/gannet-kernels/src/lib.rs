//! Pure compute on slices, scalar and SIMD.
//!
//! * [`tpg`]: trigger primitive generation, from the samples of a stream to its hits;
//! * [`rings`]: rings of hits of a RICH detector;
//! * [`coincidences`]: hits of an optical module of KM3NeT that others confirm;
//! * [`clusters`]: muons and showers in the hits of a detector of such modules;
//! * [`isa`] names the instruction sets and finds the ones this machine has.
//!
//! In each, scalar code is the definition, and every instruction set gives the same bits.

pub mod clusters;
pub mod coincidences;
pub mod isa;
pub mod rings;
pub mod tpg;

pub use isa::{Isa, IsaError};
