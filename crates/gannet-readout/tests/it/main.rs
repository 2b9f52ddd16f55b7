//! The integration tests of this crate, one module a subject.

mod receiver;
mod remote;
mod request_model;
mod varying;
