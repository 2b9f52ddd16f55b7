//! The integration tests of this crate, one module a subject.

mod account;
mod disk_full;
mod kill;
