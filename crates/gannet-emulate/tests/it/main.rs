//! The integration tests of this crate, one module a subject.

mod content;
mod faults;
mod own_front_end;
mod same_bytes;
