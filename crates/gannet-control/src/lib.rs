//! Configuration, run control, alarms, metrics, and emulated front ends at work.

pub mod alarm;
pub mod channels;
pub mod config;
pub mod detector;
pub mod doctor;
pub mod drops;
pub mod emulation;
pub mod event;
pub mod export;
pub mod figures;
pub mod finds;
pub mod history;
pub mod metrics;
pub mod notes;
pub mod quantities;
pub mod remote;
pub mod run;
pub mod run_control;
pub mod slow_control;
pub mod snapshot;
pub mod station;
mod sys;
pub mod watch;
pub mod waveform;

#[cfg(test)]
mod fixture;
