//! Configuration, run control, the channels one by one, metrics, and front ends at work: emulated or
//! recorded.

pub mod channels;
pub mod config;
pub mod doctor;
pub mod emulation;
pub mod metrics;
pub mod recording;
pub mod run;
pub mod run_control;
pub mod snapshot;
mod sys;
