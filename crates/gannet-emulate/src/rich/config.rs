//! The `[emulate]` table of RICH front ends: which streams, and what their events hold.

use gannet_measure::quantity::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{ConfigError, within};

/// What the events of the RICH hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Content {
    /// How often an event has 0, 1, 2, 3 and 4 rings, as shares of their sum.
    pub rings: [f64; 5],
    /// Photons of a particle at the speed of light that could be detected, if photomultipliers
    /// stood everywhere.
    pub photons: f64,
    /// Hits of noise of an event, on average.
    pub noise: f64,
    /// Probability that all rings of an event have one time.
    pub in_time: f64,
    /// Time within which the rings of the other events are, at most 10 ns.
    pub spread: Span,
}

impl Default for Content {
    fn default() -> Self {
        Self {
            rings: [0.05, 0.5, 0.2, 0.2, 0.05],
            photons: 24.0,
            noise: 1.5,
            in_time: 0.7,
            spread: Span(8),
        }
    }
}

impl Content {
    /// Refuses values that cannot be emulated.
    ///
    /// # Errors
    /// The first [`ConfigError`] found.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.rings.iter().try_for_each(|&share| within("events.rings", share, 0.0, 1e6))?;
        within("events.rings", self.rings.iter().sum(), 1e-6, 1e7)?;
        within("events.photons", self.photons, 0.0, 60.0)?;
        within("events.noise", self.noise, 0.0, 100.0)?;
        within("events.in_time", self.in_time, 0.0, 1.0)?;
        within("events.spread", self.spread.ns() as f64, 0.0, 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_out_of_range_is_refused_by_key() {
        Content::default().check().unwrap();
        for (text, key) in [
            ("rings = [0.0, 0.0, 0.0, 0.0, 0.0]", "events.rings"),
            ("rings = [2.0, -1.0, 0.0, 0.0, 0.0]", "events.rings"),
            ("photons = 61.0", "events.photons"),
            ("noise = -1.0", "events.noise"),
            ("in_time = 1.1", "events.in_time"),
            ("spread = \"11 ns\"", "events.spread"),
        ] {
            let content: Content = toml::from_str(text).unwrap();
            assert_eq!(content.check().unwrap_err().key, key, "{text}");
        }
    }
}
