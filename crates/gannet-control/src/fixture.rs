//! A detector for tests: frames of 7200 bytes that nobody searches, and a trigger that never decides.

use std::any::Any;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gannet_log::{Chunk, Item, Kind, Label};
use gannet_measure::ledger::Statement;
use gannet_measure::ticks::TickRate;
use gannet_readout::items::Segment;
use gannet_readout::record::{Origin, Record};
use gannet_readout::trigger::{Outcome, Trigger};
use gannet_trigger::Finder;
use gannet_trigger::merge::MergeCounters;
use gannet_wire::Step;
use gannet_wire::{AnyFormat, Error, FrameFormat, Heading, Rhythm, StreamKey};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::{
    self, Config, Document, Load, Plan, PlannedStream, Problem, SourceStreams, StreamPlace, Tables,
};
use crate::detector::{Detector, Pipeline, PlannedDetector, Stages};
use crate::emulation::{EmulationError, PlannedFrontEnd};
use crate::export::{ExportConfig, ExportError, Exported};
use crate::run::{Run, RunError};
use crate::snapshot::TriggerSnapshot;

/// The plan of a configuration for the detector of tests.
pub fn parse(text: &str) -> Result<Plan, Problem> {
    config::parse("test.toml", text, Path::new("/nonexistent"), &[&Plain])
}

/// Streams `crate * 100`, and those that follow.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Streams {
    pub count: u64,
    #[serde(rename = "crate")]
    pub first: u64,
}

impl Default for Streams {
    fn default() -> Self {
        Self { count: 4, first: 0 }
    }
}

impl Streams {
    fn planned(&self) -> Vec<PlannedStream> {
        let keys = self.first * 100..self.first * 100 + self.count;
        keys.map(|key| PlannedStream { key: StreamKey(key), name: key.to_string() }).collect()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Emulate {
    pub streams: Streams,
}

/// What the trigger is said to make.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Made {
    pub detector: String,
    pub threshold: Vec<u16>,
    pub records_per_s: f64,
    pub product_bytes_per_s: f64,
    pub window_s: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Plain;

impl Tables for Plain {
    type Streams = Streams;
    type Pipeline = Made;
    type Emulate = Emulate;

    fn at(_: &Streams, places: &[StreamPlace]) -> Streams {
        Streams { count: places.len() as u64, first: places[0].crate_id.into() }
    }
}

impl Detector for Plain {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn schema(&self) -> schemars::Schema {
        config::schema::<Self>()
    }

    fn demonstration(&self) -> &'static str {
        ""
    }

    fn format_of(&self, _: &[u8]) -> &'static dyn AnyFormat {
        &Self
    }

    fn plan(&self, document: &Document<'_>, directory: &Path) -> Result<Plan, Problem> {
        let mut config: Config<Self> = document.read()?;
        config.absolve_paths(directory);
        config.expand_links(document)?;
        let made = &config.pipeline;
        let load = Load {
            product_bytes_per_s: made.product_bytes_per_s,
            records_per_s: made.records_per_s,
            window_s: made.window_s,
            longest_window_s: made.window_s,
            ..Load::default()
        };
        let streams = config.sources.iter().map(|source| SourceStreams {
            lengths: FrameFormat::lengths(self),
            rhythm: FrameFormat::rhythm(self),
            traffic: SourceStreams::traffic_of(
                &FrameFormat::lengths(self),
                &FrameFormat::rhythm(self),
            ),
            streams: source.streams.planned(),
            spread: None,
        });
        let planned = Arc::new(Planned(config.emulate.clone()));
        Plan::resolve(document, &config, streams.collect(), load, planned)
    }

    fn export(
        &self,
        _: &Path,
        _: &ExportConfig,
        _: &mut dyn FnMut(u64, u64),
    ) -> Result<Exported, ExportError> {
        Ok(Exported::default())
    }
}

#[derive(Debug)]
pub struct Planned(Emulate);

impl PlannedDetector for Planned {
    fn configure(&self, plan: &Plan) -> Result<Run, RunError> {
        Run::of(plan, Plain)
    }

    fn emulated(&self) -> Vec<PlannedStream> {
        self.0.streams.planned()
    }

    fn front_end(&self) -> Result<Box<dyn PlannedFrontEnd>, EmulationError> {
        unreachable!("no test asks for frames")
    }

    fn trial(&self, streams: usize, _: f64) -> Arc<dyn PlannedDetector> {
        let first = self.0.streams.first;
        Arc::new(Self(Emulate { streams: Streams { count: streams as u64, first } }))
    }

    fn doubts(&self) -> Vec<String> {
        Vec::new()
    }

    fn inputs(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl FrameFormat for Plain {
    fn lengths(&self) -> RangeInclusive<usize> {
        7200..=7200
    }

    fn rhythm(&self) -> Rhythm {
        Rhythm { clock: TickRate::hz(62_500_000), step: Step::Fixed(2048), sequence_modulus: 4096 }
    }

    fn heading(&self, _: &[u8]) -> Result<Heading, Error> {
        unreachable!("no test sends frames")
    }

    fn set_heading(&self, _: &mut [u8], _: &Heading) {
        unreachable!("no test makes frames")
    }

    fn stream_name(&self, stream: StreamKey) -> String {
        stream.0.to_string()
    }
}

/// Something at a tick.
#[derive(Clone, Copy, Debug)]
pub struct Mark(u64);

impl gannet_wire::record::Record for Mark {
    const FORMAT: &'static str = "mark";
    const LEN: usize = 8;

    fn check(_: &[u8]) -> gannet_wire::Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self(u64::from_le_bytes(*bytes.first_chunk().expect("8 bytes")))
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..8].copy_from_slice(&self.0.to_le_bytes());
    }
}

impl gannet_trigger::Item for Mark {
    type Place = ();

    fn time(&self) -> u64 {
        self.0
    }

    fn place(&self) {}
}

impl Finder for Plain {
    type Item = Mark;
    const ITEMS_MAX: usize = 1;

    fn frame(&mut self, _: &Heading, _: &[u8], _: &mut Vec<Mark>) -> bool {
        true
    }

    fn searched_to(&self) -> u64 {
        0
    }

    fn begin_anew(&mut self) {}
}

impl Origin for Plain {
    fn into_chunk(_: Record<Self>) -> Chunk {
        Chunk::new(Label::new(Kind::TRIGGER_RECORD), Vec::new())
    }
}

impl Trigger for Plain {
    type Item = Mark;
    type Origin = Self;

    fn take(&mut self, _: &Segment, _: &[Mark], _: u64) {}

    fn agrees(&self, _: usize) -> bool {
        true
    }

    fn records_done(&mut self, _: usize) {}

    fn advance(&mut self, _: u64, _: &mut Outcome<Self>) {}

    fn drain(&mut self, _: u64, _: &mut Outcome<Self>) {}
}

impl Pipeline for Plain {
    type Format = Self;
    type Finder = Self;
    type Trigger = Self;

    fn format(&self, _: usize) -> Self {
        *self
    }

    fn finder(&mut self, _: usize) -> Result<Self, String> {
        Ok(*self)
    }

    fn origin(&self, _: usize) -> Self {
        *self
    }

    fn trigger(&mut self, _: u32, _: u64) -> Result<(Self, Arc<dyn Stages>), String> {
        Ok((*self, Arc::new(NoStages::default())))
    }

    fn records_in_flight_max(&self) -> usize {
        1
    }

    fn run_start(&self, _: &Plan, _: u64) -> Vec<u8> {
        b"{}".to_vec()
    }
}

#[derive(Default)]
struct NoStages(Arc<MergeCounters>);

impl Stages for NoStages {
    fn statements(&self) -> Vec<Statement> {
        Vec::new()
    }

    fn recorded(&self) -> Vec<(Item, Statement)> {
        Vec::new()
    }

    fn times(&self) -> &Arc<MergeCounters> {
        &self.0
    }

    fn figures(&self) -> TriggerSnapshot {
        TriggerSnapshot::default()
    }
}
