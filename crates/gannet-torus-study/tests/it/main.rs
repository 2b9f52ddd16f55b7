//! The integration tests of this crate, one module a subject.

mod awareness;
mod survival;
