//! The integration tests of this crate, one module a subject.

mod clients;
mod faults;
mod pages;
mod random_requests;
mod site;
