//! The integration tests of this crate, one module a subject.

mod metrics_page;
mod mutated_configurations;
mod run;
mod sockets;
