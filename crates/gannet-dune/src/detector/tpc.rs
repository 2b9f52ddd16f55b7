//! DUNE's time projection chambers.

use std::path::Path;
use std::sync::Arc;

use gannet_control::config::{self, Document, Plan, Problem};
use gannet_emulate::ConfigError;
use gannet_emulate::tpc::{Config, TpcFrontEnd};
use gannet_ingest::udp::Spread;
use gannet_wire::channel_map::ChannelMapError;
use gannet_wire::fragment_type::FragmentType;
use gannet_wire::{AnyFormat, ChannelMap, GeoId, TpcFormat, TpcStreams, daq_ethernet};

use super::{PlannedPrimitives, PrimitiveDetector, Primitives, Refusal, SearchedStream};
use crate::channels::mask;
use crate::tpg::{StreamCounters, StreamTpg, TpgConfig};

/// DUNE's time projection chambers, as the program knows detectors.
pub const DUNE_TPC: Primitives<Tpc> = Primitives(Tpc);

/// DUNE's time projection chambers: frames of WIBEth and TDEEth, searched by DUNE's kernels.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tpc;

/// What a configuration says about DUNE's time projection chambers.
pub type TpcPlan = PlannedPrimitives<Tpc>;

impl TpcPlan {
    /// What `plan` says about DUNE's time projection chambers, if it is for them.
    pub fn of(plan: &Plan) -> Option<&Self> {
        plan.detector.as_any().downcast_ref()
    }

    /// What the configuration file at `path` says.
    ///
    /// # Errors
    /// The first problem in the file, or that it cannot be read or is for another detector.
    pub fn load(path: &Path) -> Result<Self, Problem> {
        let plan = config::load(path, &[&DUNE_TPC])?;
        let other = || {
            Document::new(&path.display().to_string(), &plan.text).problem(
                "pipeline.detector",
                format!("the detector is not {:?}", Tpc::NAME),
                "give a configuration for it".into(),
            )
        };
        Self::of(&plan).cloned().ok_or_else(other)
    }
}

impl PrimitiveDetector for Tpc {
    const NAME: &'static str = "dune-tpc";
    const DEMONSTRATION: &'static str = include_str!("demo.toml");

    type Streams = TpcStreams;
    type Search = TpgConfig;
    type Emulate = Config;
    type Format = TpcFormat;
    type Finder = StreamTpg;
    type FrontEnd = TpcFrontEnd;

    fn format(&self, streams: &TpcStreams) -> TpcFormat {
        streams.format
    }

    fn format_of(&self, frame: &[u8]) -> &'static dyn AnyFormat {
        let header = daq_ethernet::Header::new_checked(frame);
        let format = header.map(|header| TpcFormat::of_detector(header.det_id().into()));
        match format.unwrap_or_default() {
            TpcFormat::WibEth => &TpcFormat::WibEth,
            TpcFormat::TdeEth => &TpcFormat::TdeEth,
        }
    }

    fn finder(
        &self,
        search: &TpgConfig,
        stream: &SearchedStream<'_, TpcFormat>,
    ) -> Result<StreamTpg, String> {
        let detector = stream.geo_id.detector as u8;
        let tpg = StreamTpg::new(search, stream.channels, detector, *stream.format);
        tpg.map_err(|error| error.to_string())
    }

    fn front_end(
        &self,
        emulate: &Config,
        map: &ChannelMap,
        start: u64,
    ) -> Result<TpcFrontEnd, ConfigError> {
        TpcFrontEnd::new(emulate, map, start)
    }

    fn channel_map(&self, streams: &[GeoId]) -> Result<ChannelMap, ChannelMapError> {
        ChannelMap::synthetic(streams)
    }

    fn check(&self, search: &TpgConfig, emulate: &Config) -> Result<(), Refusal> {
        search.check().map_err(|error| Refusal::from(error).within("pipeline.tpg"))?;
        emulate.check().map_err(|error| Refusal {
            path: format!("emulate.{}", error.key),
            cause: format!("{} is not allowed", error.value),
            suggestion: error.expected,
        })
    }

    fn doubts(&self, search: &TpgConfig, offline: &mut dyn Iterator<Item = u32>) -> Vec<String> {
        let doubt = search.doubt().map(|doubt| format!("pipeline.tpg: {doubt}"));
        let unread = mask::doubt(&mask::unread(&search.mask, offline));
        let unread = unread.map(|doubt| format!("pipeline.tpg.mask: {doubt}"));
        doubt.into_iter().chain(unread).collect()
    }

    fn fragment_type(&self, format: &TpcFormat) -> FragmentType {
        match format {
            TpcFormat::WibEth => FragmentType::WibEth,
            TpcFormat::TdeEth => FragmentType::TdeEth,
        }
    }

    fn spread(&self, streams: &[GeoId]) -> Option<Spread> {
        let keys = streams.iter().map(|stream| daq_ethernet::stream_key(*stream));
        Some(Spread::new(daq_ethernet::STREAM_KEY, keys))
    }

    fn counters(finder: &StreamTpg) -> Option<&Arc<StreamCounters>> {
        Some(finder.counters())
    }

    fn chain(search: &TpgConfig) -> Option<&TpgConfig> {
        Some(search)
    }

    fn tpc_format(format: &TpcFormat) -> Option<TpcFormat> {
        Some(*format)
    }
}
