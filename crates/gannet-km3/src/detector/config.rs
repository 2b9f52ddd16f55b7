//! The tables of a configuration for KM3NeT.

use std::path::PathBuf;

use gannet_control::config::{StreamPlace, Tables};
use gannet_emulate::km3;
use gannet_kernels::clusters::{Muon, Shower};
use gannet_measure::quantity::{Bytes, Span};
use gannet_wire::km3net::Status;
use gannet_wire::km3net::clb::ClbFormat;
use gannet_wire::km3net::detector_file::Lattice;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::levels::{Level, LevelConfig};

/// The tables of KM3NeT.
#[derive(Debug)]
pub struct Km3Tables;

impl Tables for Km3Tables {
    type Streams = Km3Streams;
    type Pipeline = PipelineConfig;
    type Emulate = km3::Config;

    fn at(streams: &Km3Streams, places: &[StreamPlace]) -> Km3Streams {
        let modules = Some(places.iter().map(|place| place.stream.into()).collect());
        Km3Streams { modules, range: None, ..streams.clone() }
    }
}

/// Modules of a source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Km3Streams {
    /// Identifiers of the modules; absent: see `range`.
    pub modules: Option<Vec<u32>>,
    /// Least and largest identifier: all modules of the detector between them. Absent, and no `modules`
    /// either: all modules of the detector.
    pub range: Option<[u32; 2]>,
    /// Status words of a datagram, 1 to 4. The second tells which datagram of a slice is the last; without
    /// it a slice is over when the next begins.
    pub status_words: usize,
    /// Longest datagram, up to 8972 bytes.
    pub longest: Bytes,
}

impl Default for Km3Streams {
    fn default() -> Self {
        Self { modules: None, range: None, status_words: Status::WORDS, longest: Bytes(1472) }
    }
}

impl Km3Streams {
    /// How the datagrams look.
    pub fn format(&self) -> ClbFormat {
        let len_max = self.longest.bytes() as usize;
        ClbFormat { status_words: self.status_words, len_max, ..ClbFormat::default() }
    }
}

/// Which detector it is, and what becomes of its datagrams.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PipelineConfig {
    /// Name of the detector: `km3net`.
    pub detector: String,
    /// Detector file: where modules are and look, and how far their clocks are off.
    pub detector_file: Option<PathBuf>,
    /// Strings and modules, where no detector file is given. The front end is of the same.
    pub lattice: Lattice,
    /// How what the modules bring is put into one order of time.
    pub merge: MergeConfig,
    /// When hits of a module confirm each other.
    pub coincidences: LevelConfig,
    /// When hits of several modules are a muon.
    pub muon: MuonConfig,
    /// When hits of several modules are a shower.
    pub shower: ShowerConfig,
    /// What is written.
    pub written: WrittenConfig,
}

/// How what the modules bring is put into one order of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// How far a module may be behind most others, in time of the detector, before these go on without
    /// it.
    pub hold: Span,
    /// How far the time of a module may be from the time that most agree on; one that is farther away is
    /// set apart.
    pub agree_within: Span,
    /// Most confirmed hits that wait to be merged.
    pub waiting_max: usize,
}

impl Default for MergeConfig {
    fn default() -> Self {
        Self { hold: Span::ms(300), agree_within: Span::ms(2000), waiting_max: 1 << 22 }
    }
}

/// When hits of several modules are a muon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MuonConfig {
    /// Whether muons are looked for.
    pub enabled: bool,
    /// Least hits.
    pub hits: usize,
    /// Least modules that have them.
    pub modules: usize,
    /// Most distance between two modules across the track, in m.
    pub road_m: f64,
    /// Time by which light may be off, in ns.
    pub extra_ns: f64,
    /// Angle between directions that are asked for, in degrees.
    pub spacing_deg: f64,
}

impl Default for MuonConfig {
    fn default() -> Self {
        let Muon { hits, modules, road_m, extra_ns, spacing } = Muon::default();
        Self { enabled: true, hits, modules, road_m, extra_ns, spacing_deg: spacing.to_degrees() }
    }
}

impl MuonConfig {
    /// The rule of the kernel.
    pub fn rule(&self) -> Option<Muon> {
        let Self { enabled, hits, modules, road_m, extra_ns, spacing_deg } = *self;
        let spacing = spacing_deg.to_radians();
        enabled.then_some(Muon { hits, modules, road_m, extra_ns, spacing })
    }
}

/// When hits of several modules are a shower.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShowerConfig {
    /// Whether showers are looked for.
    pub enabled: bool,
    /// Least hits.
    pub hits: usize,
    /// Least modules that have them.
    pub modules: usize,
    /// Most distance between two modules, in m.
    pub distance_m: f64,
    /// Time by which light may be off, in ns.
    pub extra_ns: f64,
}

impl Default for ShowerConfig {
    fn default() -> Self {
        let Shower { hits, modules, distance_m, extra_ns } = Shower::default();
        Self { enabled: true, hits, modules, distance_m, extra_ns }
    }
}

impl ShowerConfig {
    /// The rule of the kernel.
    pub fn rule(&self) -> Option<Shower> {
        let Self { enabled, hits, modules, distance_m, extra_ns } = *self;
        enabled.then_some(Shower { hits, modules, distance_m, extra_ns })
    }
}

/// What is written beside summary slices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct WrittenConfig {
    /// Time before the first and after the last triggered hit of an event in which all hits are written
    /// with it.
    pub around: Span,
    /// Levels of which time slices are written. With `l0` all hits are.
    pub time_slices: Vec<Level>,
    /// Whether a finished log is given out as a file of the experiment's objects, too.
    pub export: bool,
}

impl Default for WrittenConfig {
    fn default() -> Self {
        Self { around: Span(5_000), time_slices: Vec::new(), export: true }
    }
}
