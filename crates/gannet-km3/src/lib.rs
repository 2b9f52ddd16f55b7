//! The optical modules of KM3NeT: datagrams put together to slices, coincidences in each module, muons and
//! showers in what all modules saw, and events, summary slices and time slices as the experiment's
//! programs exchange them.
//!
//! ```text
//! datagrams ──Km3Finder──▶ coincidences, summaries ──Merger──▶ EventFinder ──▶ events
//!     of a module   │                                  └──▶ slices           ▲
//!                   └────────── all hits of the last slices ─────────────────┘
//! ```
//!
//! Sources: KM3NeT/km3pipe and KM3NeT/KM3io.jl for the formats, see `gannet_wire::km3net`.
#![forbid(unsafe_code)]

mod assembly;
pub mod detector;
mod event;
mod export;
mod finder;
mod geometry;
pub mod hits_table;
mod item;
mod levels;
mod recent;
mod recorded;
mod shown;
mod slices;
mod trigger;

pub use detector::KM3NET;
