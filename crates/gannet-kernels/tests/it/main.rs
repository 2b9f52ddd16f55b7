//! The integration tests of this crate, one module a subject.

mod clusters;
mod coincidences;
mod isa;
mod rings;
mod rules;
