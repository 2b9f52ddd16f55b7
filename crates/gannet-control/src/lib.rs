//! Configuration, run control, alarms, the channels one by one, metrics, and emulated front ends
//! at work.

pub mod alarm;
pub mod channels;
pub mod config;
pub mod doctor;
pub mod emulation;
pub mod metrics;
pub mod run;
pub mod run_control;
pub mod run_start;
pub mod snapshot;
mod sys;
