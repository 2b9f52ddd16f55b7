//! The integration tests of this crate, one module a subject.

#[expect(dead_code, reason = "the tests within the crate use the rest")]
mod line;
mod lofamo_on_the_line;
mod node;
mod simulator;
