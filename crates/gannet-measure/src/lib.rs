//! Quantities with units, clocks, counters, latency histograms and seeded randomness.
//!
//! The ground floor: nothing here knows of detectors, sockets or files. Start with
//! [`ledger::Account`], the counter set whose sum must close, and [`histogram::Histogram`].
#![forbid(unsafe_code)]

pub mod clock;
pub mod counter;
pub mod histogram;
pub mod ledger;
pub mod quantity;
pub mod random;
pub mod testing;
pub mod ticks;
