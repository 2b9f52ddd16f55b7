//! Configuration, run control, alarms, the channels one by one, metrics, front ends at work (emulated or
//! recorded), and primitives found again in recorded frames.

pub mod alarm;
pub mod channels;
pub mod config;
pub mod doctor;
pub mod emulation;
pub mod find;
pub mod metrics;
pub mod one_run;
pub mod paths;
pub mod recording;
pub mod retrigger;
pub mod run;
pub mod run_control;
pub mod run_start;
pub mod snapshot;
mod sys;
