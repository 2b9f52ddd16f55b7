//! What a file with a detector of its own uses.

pub use std::ops::RangeInclusive;
pub use std::process::ExitCode;

pub use gannet_emulate::{ConfigError, FrontEnd, Made};
pub use gannet_measure::random::Random;
pub use gannet_trigger::Finder;
pub use gannet_wire::daq_ethernet::CLOCK;
pub use gannet_wire::{
    AnyFormat, ChannelMap, Error, FrameFormat, GeoId, Heading, Rhythm, Step, StreamKey,
    TriggerPrimitive,
};
pub use schemars::JsonSchema;
pub use serde::{Deserialize, Serialize};

pub use super::{BoardStreams, EmulateConfig, PrimitiveDetector, Primitives, SearchedStream, hit};
