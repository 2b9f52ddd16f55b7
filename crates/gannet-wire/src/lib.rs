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
//! A format of fixed length that is always read whole, such as an identifier or the data of a
//! trigger object, needs no view: its struct is the `Repr`, and [`Record`] carries it to and from
//! bytes with the same checks.
//!
//! The place of each field is stated once per format: in a private `mod field`, or in a
//! `word_format!` table for headers made of 64-bit words. All integers are little-endian unless a
//! module says otherwise (network headers are big-endian).
//!
//! The crate does no input or output, holds no clock, and contains no `unsafe` code. It allocates
//! only in `Repr`s of variable length and, within named limits, for capture files.
#![forbid(unsafe_code)]

pub mod adc14;
pub mod apelink;
mod big_endian;
pub mod capture;
pub mod capture_file;
pub mod channel_map;
mod checksum;
pub mod component_request;
mod crc32;
pub mod daq_ethernet;
pub mod detector;
pub mod error;
pub mod ethernet;
pub mod exchange;
pub mod fragment;
pub mod fragment_type;
pub mod frame_format;
pub mod geo_id;
pub mod inspect;
pub mod ipv4;
pub mod km3net;
mod layout;
mod little_endian;
pub mod lofamo;
pub mod na62;
pub mod neighbour;
pub mod network;
#[cfg(test)]
mod noise;
mod numbered;
pub mod overlay;
pub mod pcap;
pub mod pcapng;
pub mod protowib;
pub mod rdma;
pub mod readout_link;
pub mod record;
pub mod roce;
pub mod slow_control;
pub mod source_id;
pub mod tdeeth;
pub mod time_slice;
pub mod torus_user;
pub mod tpc_frame;
pub mod tpc_streams;
pub mod trigger_activity;
pub mod trigger_candidate;
pub mod trigger_primitive;
pub mod trigger_primitive_v1;
pub mod trigger_record;
pub mod udp;
pub mod wibeth;

pub use channel_map::{ChannelMap, StreamChannels};
pub use component_request::ComponentRequest;
pub use detector::Detector;
pub use error::{Error, Result};
pub use fragment::{Fragment, Repr as FragmentRepr};
pub use fragment_type::FragmentType;
pub use frame_format::{AnyFormat, FrameFormat, Heading, Rhythm, Step, StreamKey};
pub use geo_id::GeoId;
pub use record::{Record, Records};
pub use source_id::{SourceId, Subsystem};
pub use time_slice::TimeSliceHeader;
pub use tpc_frame::TpcFormat;
pub use tpc_streams::TpcStreams;
pub use trigger_activity::{TriggerActivity, TriggerActivityData};
pub use trigger_candidate::{TriggerCandidate, TriggerCandidateData};
pub use trigger_primitive::{Repr as TriggerPrimitiveRepr, TriggerPrimitive};
pub use trigger_record::{Repr as TriggerRecordRepr, TriggerRecordHeader};
