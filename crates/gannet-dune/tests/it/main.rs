//! The integration tests of this crate, one module a subject.

mod clock_faults;
mod configurations;
mod export;
mod inspect;
mod judge;
mod metrics_page;
mod raw_file;
mod raw_file_records;
mod run;
mod sockets;
mod station;
