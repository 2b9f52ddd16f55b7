//! The integration tests of this crate, one module a subject.

mod content;
mod faults;
mod same_bytes;
