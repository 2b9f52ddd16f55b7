//! Streams, latency buffer, data requests, trigger records, and the files they are kept in.

pub mod latency;
pub mod raw_file;
pub mod log;
pub mod record;
pub mod request;
pub mod time_slice;
