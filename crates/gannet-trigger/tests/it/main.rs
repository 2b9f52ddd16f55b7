//! The integration tests of this crate, one module a subject.

mod clock_faults;
