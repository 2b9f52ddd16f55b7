//! What the log of a run says about the run at its start: the chunk of kind `RUN_START`. Raw files that
//! are exported repeat it.
//!
//! It is one JSON object. It holds, besides the text of the configuration, what followed from it: how
//! primitives were found, and which wires the channels of each stream read. So the primitives can be
//! found again without the files that the configuration refers to.

use gannet_wire::GeoId;
use gannet_wire::TpcFormat;
use gannet_wire::channel_map::StreamChannels;
use serde::{Deserialize, Serialize};

use crate::TriggerConfig;
use crate::raw_file::Catalogue;
use crate::tpg::TpgConfig;

use crate::detector::{PlannedPrimitives, PrimitiveDetector, PrimitiveStream};

/// The start of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunStart {
    /// Run number.
    pub run: u32,
    /// Start of the run, nanoseconds since 1970-01-01 UTC; 0 when unknown.
    pub started_unix_ns: u64,
    /// Name of the recording process.
    pub application: String,
    /// Version of the recording program.
    pub version: String,
    /// Name of the detector.
    pub detector: String,
    /// The streams in their order.
    pub streams: Vec<StreamStart>,
    /// How primitives were found, if by DUNE's chain of kernels.
    pub tpg: Option<TpgConfig>,
    /// Length of a slice of primitives, in ticks.
    pub slice_ticks: u64,
    /// What raw files tell offline catalogues.
    pub catalogue: Catalogue,
    /// How primitives became decisions.
    pub trigger: TriggerConfig,
    /// Text of the configuration.
    pub configuration: String,
}

/// A stream of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamStart {
    /// Place on the detector, as detector/crate/slot/stream.
    pub geo_id: String,
    /// Source that it is in files.
    pub source_id: String,
    /// Format of its frames, if it is one of DUNE's.
    pub format: Option<TpcFormat>,
    /// Offline number of each of the 64 channels.
    pub offline: Vec<u32>,
    /// Plane of each of the 64 channels.
    pub plane: Vec<u8>,
}

impl RunStart {
    /// The start of run `run` of what the configuration `text` says, at a time that is not known yet.
    pub fn of<D: PrimitiveDetector>(planned: &PlannedPrimitives<D>, run: u32, text: &str) -> Self {
        let pipeline = &planned.config.pipeline;
        let stream = |stream: &PrimitiveStream| StreamStart {
            geo_id: stream.geo_id.to_string(),
            source_id: stream.source_id.to_string(),
            format: D::tpc_format(&planned.format(stream.source)),
            offline: stream.channels.offline.to_vec(),
            plane: stream.channels.plane.to_vec(),
        };
        Self {
            run,
            started_unix_ns: 0,
            application: planned.config.run.application.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            detector: D::NAME.into(),
            streams: planned.streams.iter().map(stream).collect(),
            tpg: D::chain(&pipeline.tpg).cloned(),
            slice_ticks: pipeline.slice_ticks,
            catalogue: pipeline.exports.catalogue(),
            trigger: pipeline.trigger.clone(),
            configuration: text.to_owned(),
        }
    }

    /// The payload of the chunk.
    pub fn encode(&self) -> Vec<u8> {
        // Plain structs of numbers and texts have no way to fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads the payload of a chunk.
    ///
    /// # Errors
    /// It is not the start of a run, or one that a later version of this program wrote.
    pub fn decode(payload: &[u8]) -> Result<Self, serde_json::Error> {
        serde_json::from_slice(payload)
    }
}

impl StreamStart {
    /// Place, format and channels of the stream, if they are those of one.
    pub fn channels(&self) -> Option<(GeoId, TpcFormat, StreamChannels)> {
        let geo_id: GeoId = self.geo_id.parse().ok()?;
        let offline = self.offline[..].try_into().ok()?;
        let plane = self.plane[..].try_into().ok()?;
        Some((geo_id, self.format?, StreamChannels { offline, plane }))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use gannet_control::config;

    use super::*;
    use crate::detector::{DUNE_TPC, TpcPlan};

    #[test]
    fn what_a_run_needs_to_be_found_again_is_read_back() {
        let text = "[[source]]\nstreams = { count = 3 }\nudp = { listen = [\"127.0.0.1:0\"] }\n\
                    [pipeline]\nslice_ticks = 1000\n\
                    tpg = { threshold = [60, 61, 62], mask = [7] }\n";
        let plan = config::parse("run.toml", text, Path::new("."), &[&DUNE_TPC]).unwrap();
        let planned = TpcPlan::of(&plan).unwrap();
        let start = RunStart::decode(&RunStart::of(planned, 7, text).encode()).unwrap();
        assert_eq!(start.tpg.as_ref(), Some(&planned.config.pipeline.tpg));
        assert_eq!(&start.trigger, &planned.config.pipeline.trigger);
        assert_eq!((start.slice_ticks, &start.configuration[..]), (1000, text));
        let told: Vec<_> = start.streams.iter().map(|s| s.channels().unwrap()).collect();
        let of = |s: &PrimitiveStream| (s.geo_id, TpcFormat::WibEth, s.channels);
        assert_eq!(told, planned.streams.iter().map(of).collect::<Vec<_>>());
    }

    #[test]
    fn what_is_no_whole_start_is_refused() {
        assert!(RunStart::decode(b"{\"run\":").is_err());
    }
}
