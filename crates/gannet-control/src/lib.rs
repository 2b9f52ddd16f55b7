//! Configuration, run control, composition of a process, metrics and diagnosis.

pub mod config;
pub mod run_control;
