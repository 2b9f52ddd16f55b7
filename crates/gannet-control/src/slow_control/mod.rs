//! Slow control: commands from a run to front-end modules, each acknowledged or reported as failed.
//!
//! [`Commander`] and [`Responder`] are the two ends, without clock or socket.

mod commander;
mod responder;
#[cfg(test)]
mod tests;

pub use commander::{
    CommandDrop, Commander, Counts, Ending, Module, Outcome, QUEUE_MAX, QueueFull, Timing,
};
pub use responder::{Received, Responder, SESSIONS_MAX, Verdict};
