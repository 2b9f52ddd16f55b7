//! The integration tests of this crate, one module a subject.

mod round_trip;
