//! The tables of a configuration for a detector of trigger primitives.

use std::marker::PhantomData;
use std::path::PathBuf;

use gannet_control::config::{ChannelsConfig, StreamPlace, Table, Tables};
use gannet_emulate::config::{Faults, Pace};
use gannet_emulate::{ConfigError, Made, Make, Settings, tpc};
use gannet_wire::tpc_streams::geo_ids_of;
use gannet_wire::{FrameFormat, GeoId, StreamKey, TpcStreams};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{PrimitiveDetector, Refusal};
use crate::TriggerConfig;
use crate::export::ExportFormat;
use crate::raw_file::Catalogue;

/// The tables of the detector `D`.
#[derive(Debug)]
pub struct PrimitiveTables<D>(PhantomData<D>);

impl<D: PrimitiveDetector> Tables for PrimitiveTables<D> {
    type Streams = D::Streams;
    type Pipeline = PipelineConfig<D::Search>;
    type Emulate = D::Emulate;

    fn at(streams: &D::Streams, places: &[StreamPlace]) -> D::Streams {
        streams.at(places)
    }
}

/// Which detector it is, and what becomes of its frames.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
pub struct PipelineConfig<S: Table> {
    /// Name of the detector. Absent: the first that the program knows, `dune-tpc` in `gannet`.
    pub detector: String,
    /// File with the DUNE channel map of the streams. When absent, a synthetic map, or that of the
    /// detector.
    pub channel_map: Option<PathBuf>,
    /// Length of a slice of trigger primitives, in ticks; 0 records no primitives.
    pub slice_ticks: u64,
    /// Number of the first stream as a source in files; the others follow it.
    pub source_id_first: u32,
    /// How trigger primitives are found.
    pub tpg: S,
    /// How the trigger decides.
    pub trigger: TriggerConfig,
    /// Files for other people's tools.
    pub exports: ExportsConfig,
    /// What is kept of the channels one by one.
    pub channels: ChannelsConfig,
}

impl<S: Table> Default for PipelineConfig<S> {
    fn default() -> Self {
        Self {
            detector: String::new(),
            channel_map: None,
            slice_ticks: SLICE_TICKS,
            source_id_first: 100,
            tpg: S::default(),
            trigger: TriggerConfig::default(),
            exports: ExportsConfig::default(),
            channels: ChannelsConfig::default(),
        }
    }
}

/// Length of a slice of trigger primitives where none is configured: 250 ms, in ticks of 16 ns.
pub const SLICE_TICKS: u64 = 62_500_000 / 4;

/// Files for other people's tools, made of each log file when it is finished.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ExportsConfig {
    /// What is made; empty for nothing. `gannet export` makes them at any later time.
    pub formats: Vec<ExportFormat>,
    /// Whether the SHA-256 of each finished file of the run, its log included, is listed in a
    /// manifest beside it, `*.sha256`, for `gannet verify` and `sha256sum -c`. Each file is read
    /// once more for it, in the background.
    pub manifest: bool,
    /// Where the detector stands, for example `np04hd`, as raw files tell offline catalogues.
    pub operational_environment: String,
    /// Which offline stream the data belong to, for example `cosmics`, as raw files tell.
    pub offline_data_stream: String,
    /// Whether the run is only a test, as raw files tell: true until you say otherwise.
    pub run_was_for_test_purposes: bool,
}

impl ExportsConfig {
    /// What raw files tell offline catalogues.
    pub fn catalogue(&self) -> Catalogue {
        Catalogue {
            operational_environment: self.operational_environment.clone(),
            offline_data_stream: self.offline_data_stream.clone(),
            run_was_for_test_purposes: self.run_was_for_test_purposes,
        }
    }
}

impl Default for ExportsConfig {
    fn default() -> Self {
        let Catalogue { operational_environment, offline_data_stream, run_was_for_test_purposes } =
            Catalogue::default();
        Self {
            formats: vec![ExportFormat::Hdf5, ExportFormat::Parquet],
            manifest: true,
            operational_environment,
            offline_data_stream,
            run_was_for_test_purposes,
        }
    }
}

/// Streams that are known by a [`GeoId`].
pub trait GeoStreams: Table {
    /// The streams in their order.
    ///
    /// # Errors
    /// The key and what is wrong with its value.
    fn geo_ids(&self) -> Result<Vec<GeoId>, Refusal>;

    /// The first `count` of them.
    fn first(&self, count: usize) -> Self;

    /// Those of the same detector at these places.
    fn at(&self, places: &[StreamPlace]) -> Self;
}

/// Names of the streams of a detector at these places.
fn names(detector: u16, places: &[StreamPlace]) -> Vec<String> {
    let name = |place: &StreamPlace| {
        GeoId::new(detector, place.crate_id, place.slot, place.stream).to_string()
    };
    places.iter().map(name).collect()
}

impl GeoStreams for TpcStreams {
    fn geo_ids(&self) -> Result<Vec<GeoId>, Refusal> {
        self.check()?;
        Ok(self.geo_ids())
    }

    fn first(&self, count: usize) -> Self {
        let list: Vec<_> = self.list.iter().take(count).cloned().collect();
        match list.is_empty() {
            true => Self { count, ..self.clone() },
            false => Self { list, ..self.clone() },
        }
    }

    fn at(&self, places: &[StreamPlace]) -> Self {
        let list = names(self.detector(), places);
        Self { format: self.format, list, ..Self::default() }
    }
}

/// Streams of boards that have one each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BoardStreams {
    /// Number of streams, 1 to 1024.
    pub count: u16,
    /// Number of the detector, 0 to 63.
    pub detector: u16,
    /// Crate of all boards, 0 to 1023.
    #[serde(rename = "crate")]
    pub crate_id: u16,
    /// Slot of the first board, 0 to 15; behind slot 15 comes the next crate.
    pub slot: u16,
    /// The streams one by one, as detector/crate/slot/stream, in the place of the other keys.
    pub list: Vec<String>,
}

impl Default for BoardStreams {
    fn default() -> Self {
        Self { count: 1, detector: 0, crate_id: 0, slot: 0, list: Vec::new() }
    }
}

impl GeoStreams for BoardStreams {
    fn geo_ids(&self) -> Result<Vec<GeoId>, Refusal> {
        if !self.list.is_empty() {
            return Ok(geo_ids_of(&self.list)?);
        }
        let boards = 16 * self.crate_id.min(1023) + self.slot.min(15);
        let last = u32::from(boards) + u32::from(self.count.max(1)) - 1;
        for (key, value, most) in [
            ("streams.count", self.count, 1024),
            ("streams.detector", self.detector, 63),
            ("streams.crate", self.crate_id, 1023),
            ("streams.slot", self.slot, 15),
        ] {
            if value > most || (key == "streams.count" && (value == 0 || last / 16 > 1023)) {
                return Err(Refusal {
                    path: key.into(),
                    cause: format!("{value} is not allowed"),
                    suggestion: format!("expected at most {most}, and no crate above 1023"),
                });
            }
        }
        let board = |board: u16| GeoId::new(self.detector, board / 16, board % 16, 0);
        Ok((boards..boards + self.count).map(board).collect())
    }

    fn first(&self, count: usize) -> Self {
        let list = self.list.iter().take(count).cloned().collect();
        Self { count: count.min(usize::from(self.count)) as u16, list, ..self.clone() }
    }

    fn at(&self, places: &[StreamPlace]) -> Self {
        Self { list: names(self.detector, places), ..Self::default() }
    }
}

/// The table `emulate` of a detector.
pub trait EmulateTable: Table {
    /// Which streams there are.
    type Streams: GeoStreams;

    /// The streams that are sent.
    fn streams(&self) -> &Self::Streams;

    /// What is set for any front end.
    fn settings(&self) -> Settings;

    /// The table of a front end of these streams that sends at this pace.
    fn of(streams: Self::Streams, pace: Pace) -> Self;
}

impl EmulateTable for tpc::Config {
    type Streams = TpcStreams;

    fn streams(&self) -> &TpcStreams {
        &self.streams
    }

    fn settings(&self) -> Settings {
        self.settings()
    }

    fn of(streams: TpcStreams, pace: Pace) -> Self {
        Self { streams, pace, ..Self::default() }
    }
}

/// The table `emulate` of a front end without settings of its own.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
#[schemars(rename = "EmulateConfig", bound = "")]
pub struct EmulateConfig<S: GeoStreams> {
    /// The streams that are sent.
    pub streams: S,
    /// Seed of all content and all faults: the same seed gives the same bytes.
    pub seed: u64,
    /// Time stamp of the first frame, in ticks; the time of day when absent.
    pub start_timestamp: Option<u64>,
    /// How fast frames are sent.
    pub pace: Pace,
    /// Faults put in on purpose.
    pub faults: Faults,
}

impl<S: GeoStreams> EmulateConfig<S> {
    /// The front end whose frames `make` makes, the first of them at tick `start`.
    ///
    /// # Errors
    /// When the streams cannot be had.
    pub fn front_end<T: FrameFormat>(
        &self,
        format: T,
        start: u64,
        make: Make,
    ) -> Result<Made<T>, ConfigError> {
        let geo_ids = self.streams.geo_ids();
        let geo_ids = geo_ids.map_err(|it| ConfigError::new("streams", it.cause, it.suggestion))?;
        let streams = geo_ids.into_iter().map(StreamKey::from).collect();
        Ok(Made { format, streams, seed: self.seed, start, make })
    }
}

impl<S: GeoStreams> EmulateTable for EmulateConfig<S> {
    type Streams = S;

    fn streams(&self) -> &S {
        &self.streams
    }

    fn settings(&self) -> Settings {
        Settings {
            seed: self.seed,
            start_timestamp: self.start_timestamp,
            pace: self.pace.clone(),
            faults: self.faults.clone(),
        }
    }

    fn of(streams: S, pace: Pace) -> Self {
        Self { streams, pace, ..Self::default() }
    }
}
