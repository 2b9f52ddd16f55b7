//! Detectors whose frames are searched for trigger primitives, as `gannet-control` knows them.
//!
//! All that follows from primitives is DUNE's, whatever finds them: activities, candidates and
//! decisions, records and slices, HDF5 and Parquet. So a detector is a [`PrimitiveDetector`], and
//! [`Primitives`] makes a [`Detector`] of it. [`DUNE_TPC`] is one.

mod config;
mod pipeline;
mod planned;
pub mod prelude;
mod tpc;
mod tracks;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use gannet_control::config::{Config, Document, Plan, Problem, Table, schema};
use gannet_control::detector::Detector;
use gannet_control::export::{ExportConfig, ExportError, Exported};
use gannet_emulate::{ConfigError, FrontEnd};
use gannet_ingest::udp::Spread;
use gannet_trigger::Finder;
use gannet_wire::channel_map::{ChannelMapError, StreamChannels};
use gannet_wire::fragment_type::FragmentType;
use gannet_wire::tpc_streams::StreamsError;
use gannet_wire::{
    AnyFormat, ChannelMap, FrameFormat, GeoId, TpcFormat, TriggerPrimitive, trigger_primitive,
};

pub use config::{
    BoardStreams, EmulateConfig, EmulateTable, ExportsConfig, GeoStreams, PipelineConfig,
    PrimitiveTables, SLICE_TICKS,
};
pub use planned::{PlannedPrimitives, PrimitiveStream};
pub use tpc::{DUNE_TPC, Tpc, TpcPlan};

use crate::tpg::{StreamCounters, TpgConfig};

/// A detector whose streams have up to 64 channels, in which trigger primitives are found. Time
/// stamps count the ticks of 16 ns of DUNE's clock, and a stream is known by its [`GeoId`].
pub trait PrimitiveDetector: Clone + fmt::Debug + Send + Sync + 'static {
    /// Its name in configurations.
    const NAME: &'static str;
    /// The configuration of its demonstration.
    const DEMONSTRATION: &'static str;

    /// `streams` of a source.
    type Streams: GeoStreams;
    /// The table `pipeline.tpg`.
    type Search: Table;
    /// The table `emulate`.
    type Emulate: EmulateTable<Streams = Self::Streams>;
    /// How its frames look.
    type Format: FrameFormat + Sync;
    /// What finds the primitives of a stream.
    type Finder: Finder<Item = TriggerPrimitive>;
    /// What makes frames of its own.
    type FrontEnd: FrontEnd<Format = Self::Format>;

    /// Format of the frames of a source.
    fn format(&self, streams: &Self::Streams) -> Self::Format;

    /// Which of its formats a frame has, whatever streams it is of.
    fn format_of(&self, frame: &[u8]) -> &'static dyn AnyFormat;

    /// What finds the primitives of a stream.
    ///
    /// # Errors
    /// Why there can be none.
    fn finder(
        &self,
        search: &Self::Search,
        stream: &SearchedStream<'_, Self::Format>,
    ) -> Result<Self::Finder, String>;

    /// Its front end, whose channels have the numbers that `map` tells and whose first frame begins at
    /// tick `start`.
    ///
    /// # Errors
    /// The key below `emulate` and what is wrong with its value.
    fn front_end(
        &self,
        emulate: &Self::Emulate,
        map: &ChannelMap,
        start: u64,
    ) -> Result<Self::FrontEnd, ConfigError>;

    /// The numbers of the channels of `streams` where no channel map is configured: 64 a stream, one after
    /// the other.
    ///
    /// # Errors
    /// When there are too many streams, or one of them twice.
    fn channel_map(&self, streams: &[GeoId]) -> Result<ChannelMap, ChannelMapError> {
        ChannelMap::numbered(streams)
    }

    /// Tests what a configuration says of the search and of the front end.
    ///
    /// # Errors
    /// The key and what is wrong with its value.
    fn check(&self, search: &Self::Search, emulate: &Self::Emulate) -> Result<(), Refusal> {
        let _ = (search, emulate);
        Ok(())
    }

    /// What is allowed of the search and will hardly be meant; the channels of all streams are
    /// `offline`.
    fn doubts(&self, search: &Self::Search, offline: &mut dyn Iterator<Item = u32>) -> Vec<String> {
        let _ = (search, offline);
        Vec::new()
    }

    /// What fragments of such frames are called in files.
    fn fragment_type(&self, format: &Self::Format) -> FragmentType {
        let _ = format;
        FragmentType::Unknown
    }

    /// How its streams are spread over several sockets, if datagrams tell the kernel.
    fn spread(&self, streams: &[GeoId]) -> Option<Spread> {
        let _ = streams;
        None
    }

    /// What a finder tells of itself and of its channels, if it does.
    fn counters(finder: &Self::Finder) -> Option<&Arc<StreamCounters>> {
        let _ = finder;
        None
    }

    /// How DUNE's chain of kernels is set up, if it is what searches, so that a log can be searched
    /// again.
    fn chain(search: &Self::Search) -> Option<&TpgConfig> {
        let _ = search;
        None
    }

    /// Which of DUNE's formats this is, if it is one.
    fn tpc_format(format: &Self::Format) -> Option<TpcFormat> {
        let _ = format;
        None
    }
}

/// A stream that is to be searched.
#[derive(Clone, Copy, Debug)]
pub struct SearchedStream<'a, T> {
    /// Place on the detector.
    pub geo_id: GeoId,
    /// Numbers of its channels in the detector, and their planes.
    pub channels: &'a StreamChannels,
    /// Format of its frames.
    pub format: &'a T,
}

/// The primitive of a hit that has a charge and no shape: at tick `time`, in channel `channel`.
pub fn hit(channel: u32, time: u64, charge: u16) -> TriggerPrimitive {
    TriggerPrimitive::new(trigger_primitive::Repr {
        channel,
        detid: 0,
        flag: 0,
        time_start: time,
        samples_over_threshold: 1,
        samples_to_peak: 0,
        adc_integral: charge.into(),
        adc_peak: charge,
    })
}

/// A value of the configuration that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Path of the key, from the table that was tested.
    pub path: String,
    /// What is wrong.
    pub cause: String,
    /// What to write instead.
    pub suggestion: String,
}

impl From<StreamsError> for Refusal {
    fn from(error: StreamsError) -> Self {
        let cause = format!("{} is not allowed", error.value);
        Self { path: error.key.to_owned(), cause, suggestion: error.expected }
    }
}

impl From<gannet_trigger::Error> for Refusal {
    fn from(error: gannet_trigger::Error) -> Self {
        let suggestion = "see `gannet check --schema` for what is allowed".to_owned();
        Self { path: error.path, cause: error.problem, suggestion }
    }
}

impl Refusal {
    /// The same, seen from the table in which the other lies at `place`.
    fn within(self, place: &str) -> Self {
        Self { path: format!("{place}.{}", self.path), ..self }
    }
}

/// A [`PrimitiveDetector`] as the program knows detectors.
#[derive(Clone, Copy, Debug, Default)]
pub struct Primitives<D>(pub D);

/// Keys that stood elsewhere before one program served several detectors.
const MOVED: [(&str, &str); 10] = [
    ("channel_map", "pipeline.channel_map"),
    ("tpg", "pipeline.tpg"),
    ("trigger", "pipeline.trigger"),
    ("exports", "pipeline.exports"),
    ("channels", "pipeline.channels"),
    ("record.source_id_first", "pipeline.source_id_first"),
    ("record.slice_ticks", "pipeline.slice_ticks"),
    ("record.request.request_timeout", "record.request_timeout"),
    ("record.request.window_ticks_max", "record.window_ticks_max"),
    ("record.request", "record"),
];

impl<D: PrimitiveDetector> Detector for Primitives<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn schema(&self) -> schemars::Schema {
        schema::<PrimitiveTables<D>>()
    }

    fn demonstration(&self) -> &'static str {
        D::DEMONSTRATION
    }

    fn format_of(&self, frame: &[u8]) -> &'static dyn AnyFormat {
        self.0.format_of(frame)
    }

    fn plan(&self, document: &Document<'_>, directory: &Path) -> Result<Plan, Problem> {
        document.refuse_moved(&MOVED)?;
        let mut config: Config<PrimitiveTables<D>> = document.read()?;
        config.absolve_paths(directory);
        config.expand_links(document)?;
        config.pipeline.detector = D::NAME.to_owned();
        if let Some(map) = &mut config.pipeline.channel_map {
            *map = directory.join(&*map);
        }
        planned::resolve(self.0.clone(), config, document)
    }

    fn export(
        &self,
        log: &Path,
        config: &ExportConfig,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportError> {
        Ok(crate::export::export(log, &config.clone().into(), progress)?.into())
    }
}
