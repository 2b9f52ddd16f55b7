//! The integration tests of this crate, one module a subject.

mod isa;
mod rings;
mod rules;
