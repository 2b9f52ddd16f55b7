//! The integration tests of this crate, one module a subject.

mod any_bytes_do_not_panic;
mod inspect_any_bytes;
mod km3pipe;
mod mutated_bytes;
mod recorded_events;
mod roce;
