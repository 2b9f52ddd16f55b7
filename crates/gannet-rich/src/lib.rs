//! The RICH of NA62: what its boards send merged to events, rings found in them, and primitives for the
//! level-0 trigger.
//!
//! ```text
//! datagrams ──RichFinder──▶ hits of boards ──Merger──▶ EventBuilder ──▶ Buffers ──Search──▶ rings ──Answerer──▶ packets
//!                      └──▶ events with rings (merged before) ─────────────────────────────────┘
//! ```
//!
//! Sources: the NaNet paper (arXiv 1406.3568); what the formats are, `gannet_wire::na62`.
#![forbid(unsafe_code)]

mod answer;
mod buffers;
pub mod detector;
mod event;
mod finder;
mod host_time;
pub mod item;
mod level0;
mod primitive;
mod search;
mod trigger;

pub use detector::NA62_RICH;
pub use primitive::{PrimitiveId, RadiusClasses};
