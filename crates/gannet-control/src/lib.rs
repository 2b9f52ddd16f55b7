//! Configuration, run control, composition of a process, metrics and diagnosis.
