//! The RICH of NA62: what its boards send merged to events, rings found in them, and primitives for the
//! level-0 trigger.
//!
//! ```text
//! datagrams ──RichFinder──▶ hits of boards ──Merger──▶ EventBuilder ──▶ Buffers ──Search──▶ rings ──Answerer──▶ packets
//!                      └──▶ events with rings (merged before) ─────────────────────────────────┘
//! ```
//!
//! Beside it, primitives of the RICH and of other sources are matched, as in the level-0 trigger, and records
//! asked for ([`matching`]).
//!
//! Sources: the NaNet paper (arXiv 1406.3568); what the formats are, `gannet_wire::na62`.
#![forbid(unsafe_code)]

mod answer;
mod buffers;
mod decide;
pub mod detector;
mod event;
pub mod export;
mod finder;
mod format;
mod host_time;
pub mod item;
mod level0;
pub mod matching;
mod primitive;
mod recorded;
mod search;
mod shown;
mod trigger;

pub use detector::NA62_RICH;
pub use primitive::{PrimitiveId, RadiusClasses};
