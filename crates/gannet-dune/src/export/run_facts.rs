//! What the start of a run tells that exports repeat: the chunk of kind `RUN_START`.

use std::path::Path;

use gannet_wire::{FragmentType, GeoId, SourceId};
use serde::Deserialize;

use super::places::ChannelPlaces;
use crate::raw_file::Catalogue;

/// What is known of a run. What an older log does not tell is absent.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct RunFacts {
    /// What offline catalogues are told.
    pub catalogue: Option<Catalogue>,
    streams: Vec<StreamFacts>,
    /// All that is told.
    #[serde(skip)]
    pub text: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct StreamFacts {
    geo_id: String,
    source_id: String,
    format: Option<String>,
    offline: Vec<u32>,
    plane: Vec<u8>,
}

impl RunFacts {
    /// Reads the payload of the chunk; `None` if it is something else.
    pub fn decode(payload: &[u8]) -> Option<Self> {
        let text = str::from_utf8(payload).ok()?;
        let facts: Self = serde_json::from_str(text).ok()?;
        Some(Self { text: Some(text.to_owned()), ..facts })
    }

    /// What the first file of the run tells, if it lies beside `log`, which is another one of it.
    pub fn beside(log: &Path) -> Self {
        let text = gannet_log::run_start(log).ok().flatten();
        text.and_then(|text| Self::decode(text.as_bytes())).unwrap_or_default()
    }

    /// The stream and the plane of each channel.
    pub fn places(&self) -> ChannelPlaces {
        let mut places = ChannelPlaces::default();
        for stream in &self.streams {
            if let Ok(geo_id) = stream.geo_id.parse() {
                places.add(geo_id, &stream.offline, &stream.plane);
            }
        }
        places
    }

    /// The source that a stream is in files, and the type of its fragments.
    pub fn source(&self, geo_id: GeoId) -> Option<(SourceId, FragmentType)> {
        let name = geo_id.to_string();
        let stream = self.streams.iter().find(|stream| stream.geo_id == name)?;
        let fragment_type = match stream.format.as_deref()? {
            "wibeth" => FragmentType::WibEth,
            "tdeeth" => FragmentType::TdeEth,
            _ => return None,
        };
        Some((stream.source_id.parse().ok()?, fragment_type))
    }
}
