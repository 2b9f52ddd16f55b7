//! The stages of one run of a detector of primitives.

use std::any::Any;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gannet_control::config::{ChannelsConfig, Plan, PlannedStream};
use gannet_control::detector::{
    ChannelSurvey, Comparison, Export, Pipeline, PlannedDetector, Stages,
};
use gannet_control::emulation::{EmulationError, PlannedFrontEnd, unix_ticks};
use gannet_control::finds::{Looks, Mark};
use gannet_control::run::{Run, RunError};
use gannet_control::snapshot::{Flow, PrimitiveSnapshot, TriggerSnapshot};
use gannet_control::waveform::Samples;
use gannet_emulate::config::Pace;
use gannet_log::Item;
use gannet_measure::counter::Counter;
use gannet_measure::ledger::{Account, Statement};
use gannet_trigger::merge::{MergeCounters, TimeReference};
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::trigger_candidate::Type;
use gannet_wire::{FrameFormat, TriggerPrimitive};

use super::planned::named;
use super::tracks::Tracks;
use super::{EmulateTable, GeoStreams, PlannedPrimitives, PrimitiveDetector, SearchedStream};
use crate::channels::{StreamSurvey, TpcSamples, TpcSurvey};
use crate::export::{ExportConfig, export};
use crate::recent::RECENT_PRIMITIVES;
use crate::run_start::RunStart;
use crate::sampling::Sampling;
use crate::time_slice::SliceBuilder;
use crate::tpg::StreamCounters;
use crate::trigger::{LatestPrimitive, RecordedAccounts, TpcTrigger};
use crate::trigger_fragments::{FragmentCut, TriggerFragments};
use crate::{TriggerChain, TriggerCounters};
use gannet_record::Origin;

/// Primitives that a slice holds at most, which bounds its memory at 24 MiB.
const SLICE_PRIMITIVES_MAX: usize = 1 << 20;
/// Bytes that stand before the primitives of a slice at most.
const SLICE_HEADERS_BYTES_MAX: usize = 1024;

/// Makes the stages of one run.
pub(super) struct PrimitivePipeline<D: PrimitiveDetector> {
    planned: PlannedPrimitives<D>,
    /// What the streams tell whose finders do, with the sources that they come from.
    surveyed: Vec<(usize, StreamSurvey)>,
}

impl<D: PrimitiveDetector> PrimitivePipeline<D> {
    pub(super) fn new(planned: PlannedPrimitives<D>) -> Self {
        Self { planned, surveyed: Vec::new() }
    }

    /// Cuts primitives into slices, if they are to be recorded.
    fn slices(&self, run_number: u32) -> Option<SliceBuilder> {
        let ticks = self.planned.config.pipeline.slice_ticks;
        (ticks > 0).then(|| SliceBuilder::new(run_number, ticks, slice_primitives_max()))
    }

    /// How far back windows can go: as far as the frames of streams are kept, and a window more.
    fn reach_ticks(&self) -> u64 {
        let config = &self.planned.config;
        let depths = config.sources.iter().map(|source| CLOCK.ticks(source.depth.ns()));
        depths.max().unwrap_or(0).saturating_add(config.record.window_ticks_max)
    }
}

/// Primitives that a slice holds at most, so that a file can hold the slice.
fn slice_primitives_max() -> usize {
    let most = gannet_log::payload_bytes_max(gannet_log::file_size_limit());
    let primitives = most.saturating_sub(SLICE_HEADERS_BYTES_MAX) / TriggerPrimitive::LEN;
    primitives.clamp(1, SLICE_PRIMITIVES_MAX)
}

impl<D: PrimitiveDetector> Pipeline for PrimitivePipeline<D> {
    type Format = D::Format;
    type Finder = D::Finder;
    type Trigger = TpcTrigger;

    fn format(&self, source: usize) -> D::Format {
        self.planned.format(source)
    }

    fn finder(&mut self, stream: usize) -> Result<D::Finder, String> {
        let PlannedPrimitives { detector, config, streams, .. } = &self.planned;
        let stream = &streams[stream];
        let format = self.planned.format(stream.source);
        let search = &config.pipeline.tpg;
        let (geo_id, channels) = (stream.geo_id, &stream.channels);
        let finder =
            detector.finder(search, &SearchedStream { geo_id, channels, format: &format })?;
        self.surveyed.extend(D::counters(&finder).map(|counters| {
            let survey = StreamSurvey {
                geo_id: stream.geo_id,
                frames_per_s: format.rhythm().frames_per_s(),
                counters: Arc::clone(counters),
            };
            (stream.source, survey)
        }));
        Ok(finder)
    }

    fn origin(&self, stream: usize) -> Origin {
        let stream = &self.planned.streams[stream];
        Origin {
            source_id: stream.source_id,
            fragment_type: self.planned.detector.fragment_type(&self.format(stream.source)),
            detector_id: stream.geo_id.detector,
        }
    }

    fn trigger(
        &mut self,
        run_number: u32,
        epoch_ns: u64,
    ) -> Result<(TpcTrigger, Arc<dyn Stages>), String> {
        let config = &self.planned.config.pipeline.trigger;
        let streams = self.planned.streams.len();
        let chain = TriggerChain::new(config, streams, run_number, Sampling::default());
        let mut chain = chain.map_err(|error| format!("pipeline.trigger.{error}"))?;
        if config.merge.reference == TimeReference::Host {
            chain.refer_to_host(epoch_ns);
        }
        let request = self.planned.config.record.clone();
        let reach_ticks = self.reach_ticks();
        let fragments =
            TriggerFragments::new(request, RECENT_PRIMITIVES).reaching_back(reach_ticks);
        let trigger = TpcTrigger::new(chain, fragments, self.slices(run_number));
        let stages = PrimitiveStages {
            searched: self.surveyed.iter().map(|(_, it)| Arc::clone(&it.counters)).collect(),
            trigger: trigger.chain().counters(),
            fragments: trigger.fragments().account(),
            recorded: trigger.recorded(),
            latest: trigger.latest(),
        };
        Ok((trigger, Arc::new(stages)))
    }

    fn records_in_flight_max(&self) -> usize {
        self.planned.config.pipeline.trigger.module_level.records_in_flight_max
    }

    fn run_start(&self, plan: &Plan, started_unix_ns: u64) -> Vec<u8> {
        let start = RunStart::of(&self.planned, plan.run_number(), &plan.text);
        RunStart { started_unix_ns, ..start }.encode()
    }

    fn survey(&mut self) -> Option<(Box<dyn ChannelSurvey>, ChannelsConfig)> {
        let surveyed: Vec<_> = self.surveyed.drain(..).map(|(_, survey)| survey).collect();
        if surveyed.is_empty() {
            return None;
        }
        Some((Box::new(TpcSurvey::new(surveyed)), self.planned.config.pipeline.channels.clone()))
    }

    fn samples(&self) -> Option<Arc<dyn Samples>> {
        let formats = self.surveyed.iter().map(|(source, survey)| {
            let format = D::tpc_format(&self.planned.format(*source))?;
            Some((format, Arc::clone(&survey.counters)))
        });
        let streams = formats.collect::<Option<Vec<_>>>().filter(|streams| !streams.is_empty())?;
        let chain = D::chain(&self.planned.config.pipeline.tpg);
        Some(Arc::new(TpcSamples::new(streams, chain)))
    }

    fn looks(&self) -> Option<Looks<TriggerPrimitive>> {
        Some(Looks { mark: |primitive| Some(mark(primitive)), kind: kinds })
    }

    fn export(&self) -> Option<Export> {
        let exports = &self.planned.config.pipeline.exports;
        let config = ExportConfig {
            formats: exports.formats.clone(),
            catalogue: Some(exports.catalogue()),
            ..ExportConfig::default()
        };
        let made = move |log: &Path| -> Result<Vec<PathBuf>, String> {
            let exported = export(log, &config, &mut |_, _| ());
            exported.map(|exported| exported.files).map_err(|error| error.to_string())
        };
        (!exports.formats.is_empty()).then(|| Box::new(made) as Export)
    }

    fn manifest(&self) -> bool {
        self.planned.config.pipeline.exports.manifest
    }
}

/// What can be seen of the stages while they work.
struct PrimitiveStages {
    searched: Vec<Arc<StreamCounters>>,
    trigger: TriggerCounters,
    /// Fragments that the trigger adds to records.
    fragments: Arc<Account<FragmentCut>>,
    recorded: RecordedAccounts,
    latest: LatestPrimitive,
}

impl Stages for PrimitiveStages {
    fn searched(&self) -> Option<Statement> {
        let streams = self.searched.iter().map(|stream| stream.statement());
        streams.reduce(|mut total, stream| {
            total.absorb(&stream);
            total
        })
    }

    fn statements(&self) -> Vec<Statement> {
        let mut statements = self.trigger.statements();
        statements.push(self.fragments.statement("trigger_fragments"));
        statements
    }

    fn flows(&self) -> Vec<Flow> {
        let ways = [
            ("frames", "tpg"),
            ("tpg", "primitives"),
            ("primitives", "merge"),
            ("merge", "activity"),
            ("activity", "candidate"),
            ("candidate", "module_level"),
            ("module_level", "records"),
            ("module_level", "trigger_fragments"),
            ("merge", "recorded_primitives"),
            ("module_level", "busy_intervals"),
        ];
        ways.map(|(from, to)| Flow::new(from, to)).into()
    }

    fn recorded(&self) -> Vec<(Item, Statement)> {
        vec![
            (Item::Primitive, self.recorded.primitives.statement("slices")),
            (Item::BusyInterval, self.recorded.busy.statement("busy")),
        ]
    }

    fn times(&self) -> &Arc<MergeCounters> {
        &self.trigger.merge
    }

    fn figures(&self) -> TriggerSnapshot {
        let module_level = &self.trigger.module_level;
        TriggerSnapshot {
            decisions: module_level.decisions.get(),
            dead_ticks: module_level.busy_ticks.iter().map(Counter::get).sum(),
            first_tick: self.trigger.data_time.begin.get(),
            last_tick: self.trigger.data_time.end.get(),
            latest_primitive: self.latest.get().map(seen),
            ..TriggerSnapshot::default()
        }
    }
}

/// A primitive as those see it who know no detector; of its charge, what is above the pedestal, ADC counts.
fn mark(primitive: &TriggerPrimitive) -> Mark {
    Mark {
        time: primitive.time_start(),
        channel: primitive.channel(),
        length: Sampling::default().time_over_threshold(primitive) as u32,
        charge: primitive.adc_integral(),
    }
}

/// Names of the candidates that led to a decision.
fn kinds(types: u64) -> String {
    let is_set = |kind: &&Type| types >> (kind.number() as u32) & 1 == 1;
    let names: Vec<_> = Type::ALL.iter().filter(is_set).map(|kind| kind.name()).collect();
    names.join(", ")
}

/// A primitive as snapshots show it.
fn seen(primitive: TriggerPrimitive) -> PrimitiveSnapshot {
    PrimitiveSnapshot {
        channel: primitive.channel(),
        time_start: primitive.time_start(),
        samples_over_threshold: primitive.samples_over_threshold(),
        adc_peak: primitive.adc_peak(),
        adc_integral: primitive.adc_integral(),
    }
}

impl<D: PrimitiveDetector> PlannedDetector for PlannedPrimitives<D> {
    fn configure(&self, plan: &Plan) -> Result<Run, RunError> {
        Run::of(plan, PrimitivePipeline::new(self.clone()))
    }

    fn emulated(&self) -> Vec<PlannedStream> {
        // What the configuration names was tested.
        let geo_ids = self.config.emulate.streams().geo_ids();
        geo_ids.unwrap_or_default().into_iter().map(named).collect()
    }

    fn front_end(&self) -> Result<Box<dyn PlannedFrontEnd>, EmulationError> {
        let settings = self.config.emulate.settings();
        let start = settings.start_timestamp.unwrap_or_else(|| unix_ticks(CLOCK));
        let front_end = self.detector.front_end(&self.config.emulate, &self.emulated_map, start)?;
        Ok(Box::new((front_end, settings)))
    }

    fn comparison(&self) -> Option<Box<dyn Comparison>> {
        Some(Box::new(Tracks::default()))
    }

    fn trial(&self, streams: usize, rate_scale: f64) -> Arc<dyn PlannedDetector> {
        let mut trial = self.clone();
        if let Some(source) = self.config.sources.first() {
            let pace = Pace { rate_scale, ..Pace::default() };
            trial.config.emulate = D::Emulate::of(source.streams.first(streams), pace);
        }
        trial.config.pipeline.slice_ticks = 0;
        trial.config.pipeline.exports.formats.clear();
        trial.config.pipeline.exports.manifest = false;
        trial.streams.truncate(streams);
        trial.emulated_map = self.channel_map.clone();
        Arc::new(trial)
    }

    fn doubts(&self) -> Vec<String> {
        let mut offline = self.channel_map.iter().flat_map(|(_, channels)| channels.offline);
        self.detector.doubts(&self.config.pipeline.tpg, &mut offline)
    }

    fn inputs(&self) -> Vec<PathBuf> {
        self.config.pipeline.channel_map.iter().cloned().collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
