//! The integration tests of this crate, one module a subject.

mod clients;
mod description;
mod event_display;
mod faults;
mod pages;
mod random_requests;
mod site;
mod station;
mod tls;
