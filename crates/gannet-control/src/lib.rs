//! Configuration, run control, metrics, and the emulator at work.

pub mod config;
pub mod emulation;
pub mod metrics;
pub mod run;
pub mod run_control;
pub mod snapshot;
