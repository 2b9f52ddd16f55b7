//! The integration tests of this crate, one module a subject.

mod coincidences;
mod isa;
mod rings;
mod rules;
