//! The integration tests of this crate, one module a subject.

mod master;
mod nic;
