//! What a configuration says about a detector of primitives, tested and resolved.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use gannet_control::config::{
    Config, Document, Load, Plan, PlannedStream, Problem, STREAMS_MAX, SourceStreams, Table,
};
use gannet_measure::quantity::Bytes;
use gannet_trigger::source::SourceConfig as CandidateSource;
use gannet_wire::channel_map::{ChannelMapError, StreamChannels};
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::{ChannelMap, FrameFormat, GeoId, TriggerPrimitive, adc14};

use super::config::{EmulateTable, GeoStreams, PrimitiveTables};
use super::{PipelineConfig, PrimitiveDetector, Refusal};

/// Longest channel map that is read: several times that of a whole module.
const CHANNEL_MAP_BYTES_MAX: u64 = 256 << 20;
/// Time of a core that a frame takes, from the socket to its primitives, in seconds, as measured on
/// the reference machine.
const RECEIVE_S_PER_FRAME: f64 = 1.5e-6;
/// Primitives of a channel a second that disk space is foreseen for.
const PRIMITIVES_PER_S: f64 = 100.0;
/// Records a second that disk space is foreseen for where activities are looked for.
const ACTIVITY_RECORDS_PER_S: f64 = 1.0;

/// What a configuration says about the detector `D`.
#[derive(Clone, Debug)]
pub struct PlannedPrimitives<D: PrimitiveDetector> {
    /// The detector.
    pub detector: D,
    /// The configuration, defaults filled in, paths made absolute by their directory.
    pub config: Config<PrimitiveTables<D>>,
    /// Which channel of the detector each channel of each stream of the sources is.
    pub channel_map: ChannelMap,
    /// The same for the streams of the front end.
    pub emulated_map: ChannelMap,
    /// All streams, in the order of the sources.
    pub streams: Vec<PrimitiveStream>,
}

/// A stream of a source.
#[derive(Clone, Copy, Debug)]
pub struct PrimitiveStream {
    /// Place on the detector.
    pub geo_id: GeoId,
    /// Source that it is in files.
    pub source_id: SourceId,
    /// Its channels.
    pub channels: StreamChannels,
    /// Place of its source in the configuration.
    pub source: usize,
}

/// Tests `config` and resolves what it refers to.
pub(super) fn resolve<D: PrimitiveDetector>(
    detector: D,
    config: Config<PrimitiveTables<D>>,
    document: &Document<'_>,
) -> Result<Plan, Problem> {
    let refused = |error: Refusal| document.problem(&error.path, error.cause, error.suggestion);
    let pipeline = &config.pipeline;
    detector.check(&pipeline.tpg, &config.emulate).map_err(refused)?;
    let tested = pipeline.trigger.check();
    tested.map_err(|error| refused(Refusal::from(error).within("pipeline.trigger")))?;
    let mut geo_ids = Vec::new();
    for (index, source) in config.sources.iter().enumerate() {
        let named = source.streams.geo_ids();
        geo_ids.push(named.map_err(|error| refused(error.within(&format!("source[{index}]"))))?);
        // Before anything is made for each stream: a text can name very many.
        if geo_ids.iter().map(Vec::len).sum::<usize>() > STREAMS_MAX {
            let cause = format!("more than {STREAMS_MAX} streams");
            let suggestion = "share them out over several processes".into();
            return Err(document.problem(&format!("source[{index}].streams"), cause, suggestion));
        }
    }
    let channel_map = channel_map(&detector, pipeline, &distinct(&geo_ids), document)?;
    let emulated = config.emulate.streams().geo_ids();
    let emulated = emulated.map_err(|error| refused(error.within("emulate")))?;
    let rhythm = detector.format(config.emulate.streams()).rhythm();
    let settings = config.emulate.settings().check(emulated.len(), &rhythm);
    settings.map_err(|error| {
        let cause = format!("{} is not allowed", error.value);
        document.problem(&format!("emulate.{}", error.key), cause, error.expected)
    })?;
    // A receiver with the same configuration agrees about channels.
    let known = |stream: &GeoId| channel_map.stream(*stream).is_some();
    let emulated_map = match pipeline.channel_map.is_some() || emulated.iter().all(known) {
        true => channel_map.clone(),
        false => detector.channel_map(&emulated).map_err(|error| {
            document.problem("emulate.streams", error.to_string(), "send fewer".into())
        })?,
    };
    let mut streams = Vec::new();
    for (source, geo_ids) in geo_ids.iter().enumerate() {
        for geo_id in geo_ids {
            let channels = channel_map.stream(*geo_id).ok_or_else(|| {
                let cause = format!("stream {geo_id} is not in the channel map");
                let suggestion = "use a channel map that has it, or other streams".into();
                document.problem(&format!("source[{source}].streams"), cause, suggestion)
            })?;
            let number = pipeline.source_id_first.wrapping_add(streams.len() as u32);
            let source_id = SourceId::new(Subsystem::DetectorReadout, number);
            streams.push(PrimitiveStream {
                geo_id: *geo_id,
                source_id,
                channels: *channels,
                source,
            });
        }
    }
    let load = load(pipeline, streams.len());
    let sources = config.sources.iter().zip(&geo_ids).map(|(source, geo_ids)| {
        let format = detector.format(&source.streams);
        SourceStreams {
            lengths: format.lengths(),
            rhythm: format.rhythm(),
            traffic: SourceStreams::traffic_of(&format.lengths(), &format.rhythm()),
            streams: geo_ids.iter().map(|geo_id| named(*geo_id)).collect(),
            spread: detector.spread(geo_ids),
        }
    });
    let sources = sources.collect();
    let planned = PlannedPrimitives { detector, config, channel_map, emulated_map, streams };
    let planned = Arc::new(planned);
    Plan::resolve(document, &planned.config, sources, load, Arc::clone(&planned) as _)
}

/// Each stream once: which of them come twice is for the plan to tell.
fn distinct(sources: &[Vec<GeoId>]) -> Vec<GeoId> {
    let mut distinct: Vec<GeoId> = Vec::new();
    for geo_id in sources.iter().flatten() {
        if !distinct.contains(geo_id) {
            distinct.push(*geo_id);
        }
    }
    distinct
}

pub(super) fn named(geo_id: GeoId) -> PlannedStream {
    PlannedStream { key: geo_id.into(), name: geo_id.to_string() }
}

/// The map of the configured file, or one made up for the streams.
fn channel_map<D: PrimitiveDetector>(
    detector: &D,
    pipeline: &PipelineConfig<D::Search>,
    geo_ids: &[GeoId],
    document: &Document<'_>,
) -> Result<ChannelMap, Problem> {
    let problem = |cause: String| {
        let suggestion = "give a DUNE channel map of 12 or 13 columns, or remove the key";
        document.problem("pipeline.channel_map", cause, suggestion.into())
    };
    match &pipeline.channel_map {
        None => detector.channel_map(geo_ids).map_err(|error| problem(error.to_string())),
        Some(path) => {
            let failed = |error: String| problem(format!("{}: {error}", path.display()));
            let text = read_map(path).map_err(|error| failed(error.to_string()))?;
            ChannelMap::parse(&text).map_err(|error: ChannelMapError| failed(error.to_string()))
        }
    }
}

/// The text of a channel map. What is no ordinary file might never end.
fn read_map(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no ordinary file"));
    }
    if metadata.len() > CHANNEL_MAP_BYTES_MAX {
        let limit = Bytes(CHANNEL_MAP_BYTES_MAX);
        return Err(io::Error::other(format!("it is longer than {limit}: no channel map")));
    }
    fs::read_to_string(path)
}

/// What can be foreseen: primitives of 24 bytes at 100 per second and channel; a record for every
/// candidate of the random and periodic sources; one record more if any activity is looked for.
fn load<S: Table>(pipeline: &PipelineConfig<S>, streams: usize) -> Load {
    let seconds = |ticks: u64| ticks as f64 / CLOCK.per_s() as f64;
    let trigger = &pipeline.trigger;
    let window = |before: u64, after: u64| seconds(before.saturating_add(after));
    let interval_ticks = |source: &CandidateSource| match source {
        CandidateSource::Periodic(periodic) => periodic.interval_ticks,
        CandidateSource::Random(poisson) => poisson.mean_interval_ticks,
    };
    let rate = |source| 1.0 / seconds(interval_ticks(source).max(1));
    let found = if trigger.activity.is_empty() { 0.0 } else { ACTIVITY_RECORDS_PER_S };
    let module_level = &trigger.module_level;
    let by_type = module_level.readout.values();
    let longest = by_type.map(|own| window(own.time_before, own.time_after)).fold(0.0, f64::max);
    let primitives = (streams * adc14::CHANNELS * TriggerPrimitive::LEN) as f64 * PRIMITIVES_PER_S;
    Load {
        receive_s_per_frame: RECEIVE_S_PER_FRAME,
        written: "records and primitives, if there are 100 primitives a second and channel, a record \
                  for every candidate of a random or periodic source, and one a second for activities"
            .into(),
        product_bytes_per_s: if pipeline.slice_ticks == 0 { 0.0 } else { primitives },
        records_per_s: trigger.source.iter().map(rate).sum::<f64>() + found,
        window_s: window(module_level.time_before, module_level.time_after),
        longest_window_s: longest,
        ..Load::default()
    }
}

impl<D: PrimitiveDetector> PlannedPrimitives<D> {
    /// Format of the frames of a source.
    pub fn format(&self, source: usize) -> D::Format {
        self.detector.format(&self.config.sources[source].streams)
    }
}
