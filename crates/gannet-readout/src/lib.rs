//! Streams, latency buffer, data requests and trigger records.

pub mod items;
pub mod latency;
pub mod raw_stream;
pub mod receiver;
pub mod record;
pub mod remote;
pub mod request;
pub mod trigger;
pub mod windows;
