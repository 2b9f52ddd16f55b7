//! The integration tests of this crate, one module a subject.

mod lofamo_on_the_line;
mod node;
mod rdma;
mod simulator;
