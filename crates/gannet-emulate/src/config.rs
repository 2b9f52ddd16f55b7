//! What of an emulation is set for any detector.

mod faults;

use gannet_measure::quantity::Span;
use gannet_wire::Rhythm;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use faults::{Faults, Outage, WrongClock};

/// A value of the configuration lies outside what can be emulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{key} = {value}: {expected}")]
pub struct ConfigError {
    /// Path of the key below the emulator's table, for example `tracks.rate_hz`.
    pub key: &'static str,
    /// The value found.
    pub value: String,
    /// What is allowed, and what to do.
    pub expected: String,
}

impl ConfigError {
    /// The error for the value of `key`, with what would be allowed.
    pub fn new(key: &'static str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { key, value: value.to_string(), expected: expected.into() }
    }
}

/// Refuses a value outside `min..=max`.
pub(crate) fn within(key: &'static str, value: f64, min: f64, max: f64) -> Result<(), ConfigError> {
    if value >= min && value <= max {
        return Ok(());
    }
    Err(ConfigError::new(key, value, format!("expected a number from {min} to {max}")))
}

/// What of an emulation is set for any detector: a part of its `[emulate]` table, or all of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Seed of all content and all faults: the same seed gives the same bytes.
    pub seed: u64,
    /// Timestamp of the first frame, in ticks; the time of day when absent.
    pub start_timestamp: Option<u64>,
    /// How fast frames are sent.
    pub pace: Pace,
    /// Faults put in on purpose.
    pub faults: Faults,
}

impl Settings {
    /// Refuses values that cannot be emulated by so many streams with frames in this rhythm.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self, streams: usize, rhythm: &Rhythm) -> Result<(), ConfigError> {
        self.pace.check()?;
        self.faults.check(streams, rhythm)
    }
}

/// How fast frames are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Pace {
    /// Factor on the true rate of the format: 1 is the rate of the real front end.
    pub rate_scale: f64,
    /// Send as fast as the receiver of the frames takes them; `rate_scale` is then not used.
    pub unpaced: bool,
    /// Frames of one stream sent together, 1 to 9 (9 frames fill one UDP super-datagram).
    pub burst: usize,
    /// How far behind its schedule the sender may be before it gives up catching up.
    pub debt_max: Span,
}

impl Default for Pace {
    fn default() -> Self {
        Self { rate_scale: 1.0, unpaced: false, burst: 9, debt_max: Span::ms(20) }
    }
}

impl Pace {
    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        within("pace.rate_scale", self.rate_scale, 1e-6, 1e3)?;
        within("pace.burst", self.burst as f64, 1.0, crate::datagram::BURST_FRAMES_MAX as f64)?;
        within("pace.debt_max", self.debt_max.ns() as f64 / 1e9, 0.0, 60.0)
    }
}
