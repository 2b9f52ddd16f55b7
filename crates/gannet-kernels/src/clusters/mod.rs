//! Muons and showers in the hits of a detector of optical modules (KM3NeT), by when and where they are.
//!
//! * [`light`]: which two hits the light of a shower or of a track can have made;
//! * [`directions`]: where tracks are asked for;
//! * [`finder`]: from hits in order of time to events.
//!
//! A hit and those after it that match it are a cluster if enough of them are left when hits with too
//! few partners among them have been taken away. A shower is asked for once, a muon in each direction
//! of a grid. Clusters that overlap in time are one event.
//!
//! Plain Rust is the definition; every instruction set gives the same bits, however the hits are handed
//! over. Nothing is allocated once the buffers have grown.

pub mod directions;
pub mod finder;
pub mod light;

mod cluster;
mod columns;

pub use finder::{Event, EventFinder, HITS_MAX, ModuleHit, Muon, Shower, Triggered, Triggers};
