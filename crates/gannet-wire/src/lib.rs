//! Every byte format of the platform as a checked view and a plain representation.
//!
//! # The contract
//!
//! Each format is one module with two layers:
//!
//! * a **view** over borrowed bytes (`Frame<T: AsRef<[u8]>>` or a name of the field), made by
//!   `new_checked`, which tests length and the constants that the layout itself guarantees. After
//!   `new_checked` has succeeded no accessor panics. Setters exist where `T: AsMut<[u8]>`;
//! * a **`Repr`**: a plain struct of valid values, with `parse`, `buffer_len` and `emit`, and a
//!   `Display` that prints every field with its unit.
//!
//! The place of each field is stated once per format: in a private `mod field`, or in a
//! `word_format!` table for headers made of 64-bit words. All integers are little-endian
//! unless a module says otherwise (network headers are big-endian).
//!
//! The crate does no input or output, holds no clock, allocates only in `Repr`s of variable
//! length, and contains no `unsafe` code.
#![forbid(unsafe_code)]

pub mod adc14;
pub mod channel_map;
mod checksum;
pub mod daq_ethernet;
pub mod error;
pub mod ethernet;
pub mod geo_id;
pub mod ipv4;
mod layout;
pub mod network;
#[cfg(test)]
mod noise;
pub mod protowib;
pub mod tdeeth;
pub mod tpc_frame;
pub mod trigger_primitive;
pub mod udp;
pub mod wibeth;

pub use channel_map::{ChannelMap, StreamChannels};
pub use error::{Error, Result};
pub use geo_id::GeoId;
pub use trigger_primitive::TriggerPrimitive;
