//! One TOML file describes a process: sources, chain, trigger, recorder, and the emulator.

pub mod document;
