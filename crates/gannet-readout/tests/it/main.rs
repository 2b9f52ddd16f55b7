//! The integration tests of this crate, one module a subject.

mod export;
mod inspect;
mod judge;
mod log_account;
mod log_disk_full;
mod log_kill;
mod raw_file;
mod raw_file_records;
mod receiver;
mod request_model;
