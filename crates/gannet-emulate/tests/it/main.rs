//! The integration tests of this crate, one module a subject.

mod content;
mod digest;
mod faults;
mod km3;
mod live;
mod own_front_end;
mod rich;
mod same_bytes;
