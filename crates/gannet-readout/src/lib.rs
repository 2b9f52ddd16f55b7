//! Streams, latency buffer, data requests, trigger records, and the files made of them.

pub mod export;
pub mod inspect;
pub mod items;
pub mod latency;
pub mod parquet_file;
pub mod raw_file;
pub mod raw_stream;
pub mod receiver;
pub mod record;
pub mod request;
pub mod time_slice;
