//! The integration tests of this crate, one module a subject.

mod receiver;
mod request_model;
mod varying;
