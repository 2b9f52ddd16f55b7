//! Recordings read again: trigger primitives found in recorded frames, the trigger run on recorded
//! primitives, and recorded frames sent again.
//!
//! [`recording`] reads files of frames packet by packet; [`find`] and [`retrigger`] read files of one run
//! and what they tell of its start.

pub mod event;
pub mod find;
mod log_index;
mod one_run;
pub mod recording;
pub mod replay;
pub mod retrigger;

pub use one_run::NotOneRun;
