//! What a configuration says about the RICH, tested and resolved.

use std::any::Any;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use gannet_control::config::{
    Config, Document, Plan, PlannedStream, Problem, STREAMS_MAX, SourceStreams,
};
use gannet_control::detector::{Comparison, PlannedDetector};
use gannet_control::emulation::{EmulationError, PlannedFrontEnd, Role};
use gannet_control::run::{Run, RunError};
use gannet_emulate::config::Pace;
use gannet_emulate::rich::{Packets, RichFrontEnd};
use gannet_wire::FrameFormat;
use gannet_wire::na62::{PmMap, mgp};

use super::comparison::Rings;
use super::config::{PipelineConfig, RichStreams, RichTables, StreamPackets};
use super::expected::Expected;
use super::level0;
use super::pipeline::RichPipeline;
use crate::level0::Level0;

/// Longest table of the cabling that is read.
const CABLING_BYTES_MAX: u64 = 1 << 20;
/// Port at which a level-0 processor listens that no configuration names.
const LEVEL0_PORT: u16 = 7562;
/// Bytes that one event may take: 255 hits.
const EVENT_BYTES_MAX: u64 = 16 * 33;

/// What a configuration says about the RICH.
#[derive(Clone, Debug)]
pub struct PlannedRich {
    /// The configuration, defaults filled in, paths made absolute by their directory.
    pub config: Config<RichTables>,
    /// Which photomultiplier each channel reads.
    pub map: PmMap,
}

/// Tests `config` and resolves what it refers to.
pub(super) fn resolve(
    config: Config<RichTables>,
    document: &Document<'_>,
) -> Result<Plan, Problem> {
    for (index, source) in config.sources.iter().enumerate() {
        check_streams(&source.streams, &format!("source[{index}].streams"), document)?;
    }
    check_packets(&config, document)?;
    check_pipeline(&config.pipeline, document)?;
    level0::check(&config, document)?;
    config.emulate.check().map_err(|error| {
        let cause = format!("{} is not allowed", error.value);
        document.problem(&format!("emulate.{}", error.key), cause, error.expected)
    })?;
    let map = cabling(&config.pipeline, document)?;
    let expected = Expected::of(&config, &map, document)?;
    let sources = config.sources.iter().map(|source| {
        let format = source.streams.format();
        SourceStreams {
            lengths: format.lengths(),
            rhythm: format.rhythm(),
            traffic: expected.traffic(&source.streams),
            streams: planned(&source.streams),
            spread: None,
        }
    });
    let sources = sources.collect();
    let load = expected.load(&config);
    let planned = Arc::new(PlannedRich { config, map });
    Plan::resolve(document, &planned.config, sources, load, Arc::clone(&planned) as _)
}

/// The streams with their names.
fn planned(streams: &RichStreams) -> Vec<PlannedStream> {
    let format = streams.format();
    let named = |key| PlannedStream { key, name: format.stream_name(key) };
    streams.keys().map(named).collect()
}

fn check_streams(
    streams: &RichStreams,
    place: &str,
    document: &Document<'_>,
) -> Result<(), Problem> {
    let refused = |key: &str, cause: String, suggestion: &str| {
        Err(document.problem(&format!("{place}.{key}"), cause, suggestion.into()))
    };
    let links = &streams.links;
    if links.is_empty() || links.len() > STREAMS_MAX {
        return refused("links", "there are no links".into(), "write, for example, [0, 1, 2, 3]");
    }
    if let Some(twice) = (1..links.len()).find(|at| links[..*at].contains(&links[*at])) {
        let cause = format!("link {} is there twice", links[twice]);
        return refused("links", cause, "name each link once");
    }
    let lengths = mgp::HEADER_LEN as u64..=mgp::LEN_MAX as u64;
    if !lengths.contains(&streams.longest.bytes()) {
        let cause = format!("{} is not allowed", streams.longest);
        let suggestion = format!("write {} to {} B", lengths.start(), lengths.end());
        return refused("longest", cause, &suggestion);
    }
    Ok(())
}

/// Refuses hits of boards beside merged events: they could not be answered in one order of time.
fn check_packets(config: &Config<RichTables>, document: &Document<'_>) -> Result<(), Problem> {
    let mut packets = config.sources.iter().map(|source| source.streams.packets);
    let first = packets.next().unwrap_or_default();
    if first == StreamPackets::Primitives {
        return Err(document.problem(
            "source[0].streams.packets",
            "the first source has primitives of others".into(),
            "name sources with data of the RICH first".into(),
        ));
    }
    let other = |packets| ![first, StreamPackets::Primitives].contains(&packets);
    let Some(index) = packets.position(other).map(|position| position + 1) else { return Ok(()) };
    Err(document.problem(
        &format!("source[{index}].streams.packets"),
        "source[0] has packets of another kind".into(),
        "take hits of boards and merged events in two processes".into(),
    ))
}

fn check_pipeline(pipeline: &PipelineConfig, document: &Document<'_>) -> Result<(), Problem> {
    let refused = |key: &str, cause: &str, suggestion: &str| {
        Err(document.problem(&format!("pipeline.{key}"), cause.into(), suggestion.into()))
    };
    let merge = &pipeline.merge;
    if merge.window_fine > 1 << 16 {
        return refused("merge.window_fine", "an event cannot last so long", "write at most 65536");
    }
    if merge.hold.ns() == 0 || merge.hold.ns() > 1_000_000_000 {
        return refused("merge.hold", "it is not allowed", "write 1 us to 1 s");
    }
    if merge.agree_within < merge.hold {
        return refused(
            "merge.agree_within",
            "it is shorter than hold",
            "write more, or hold less",
        );
    }
    if !(1..=1 << 24).contains(&merge.waiting_max) {
        return refused("merge.waiting_max", "it is not allowed", "write 1 to 16777216");
    }
    let buffers = &pipeline.buffers;
    if !(2..=4096).contains(&buffers.count) {
        return refused("buffers.count", "it is not allowed", "write 2 to 4096");
    }
    if !(EVENT_BYTES_MAX..=64 << 20).contains(&buffers.size.bytes()) {
        return refused("buffers.size", "it is not allowed", "write 528 B to 64 MiB");
    }
    if !(1..=1 << 20).contains(&buffers.events) {
        return refused("buffers.events", "it is not allowed", "write 1 to 1048576");
    }
    if buffers.timeout.ns() > 1_000_000_000 {
        return refused("buffers.timeout", "it is too long", "write at most 1 s");
    }
    if buffers.workers > 256 {
        return refused("buffers.workers", "there are too many", "write at most 256");
    }
    let answer = &pipeline.answer;
    let radii = [answer.muon_mm, answer.electron_mm];
    if !radii.iter().all(|radius| (0.0..=1000.0).contains(radius)) {
        return refused("answer.muon_mm", "radii are from 0 to 1000 mm", "write two of these");
    }
    if answer.muon_mm > answer.electron_mm {
        return refused("answer.muon_mm", "it is more than electron_mm", "write no more than that");
    }
    Ok(())
}

fn cabling(pipeline: &PipelineConfig, document: &Document<'_>) -> Result<PmMap, Problem> {
    let Some(path) = &pipeline.cabling else { return Ok(PmMap::numbered()) };
    let refused = |cause: String| {
        let suggestion = "give the table of channels and geo ids, or remove the key";
        let cause = format!("{}: {cause}", path.display());
        document.problem("pipeline.cabling", cause, suggestion.into())
    };
    let text = read(path).map_err(|error| refused(error.to_string()))?;
    PmMap::parse(&text).map_err(|error| refused(error.to_string()))
}

/// The text of a table. What is no ordinary file might never end.
fn read(path: &Path) -> io::Result<String> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > CABLING_BYTES_MAX {
        return Err(io::Error::other("it is no ordinary file of at most 1 MiB"));
    }
    fs::read_to_string(path)
}

impl PlannedRich {
    /// Where the answers go, or would be looked for.
    fn level0(&self) -> SocketAddr {
        let usual = SocketAddr::from((Ipv4Addr::LOCALHOST, LEVEL0_PORT));
        self.config.pipeline.answer.to.unwrap_or(usual)
    }
}

impl PlannedDetector for PlannedRich {
    fn configure(&self, plan: &Plan) -> Result<Run, RunError> {
        Run::of(plan, RichPipeline::new(self.clone()))
    }

    fn emulated(&self) -> Vec<PlannedStream> {
        let emulate = &self.config.emulate;
        let count = emulate.streams() as u8;
        planned(&RichStreams {
            packets: emulate.packets.into(),
            links: (0..count).collect(),
            ..Default::default()
        })
    }

    fn front_end(&self) -> Result<Box<dyn PlannedFrontEnd>, EmulationError> {
        let front_end = RichFrontEnd::new(&self.config.emulate, &self.map)?;
        Ok(Box::new((front_end, self.config.emulate.settings())))
    }

    fn roles(&self) -> Vec<(&'static str, SocketAddr, Box<dyn Role>)> {
        vec![("level0", self.level0(), Box::new(Level0::default()))]
    }

    fn comparison(&self) -> Option<Box<dyn Comparison>> {
        Some(Box::new(Rings))
    }

    fn trial(&self, streams: usize, rate_scale: f64) -> Arc<dyn PlannedDetector> {
        let mut trial = self.clone();
        if let Some(source) = self.config.sources.first() {
            let emulate = &mut trial.config.emulate;
            emulate.packets = match source.streams.packets {
                StreamPackets::Merged => Packets::Merged,
                StreamPackets::Boards | StreamPackets::Primitives => Packets::Boards,
            };
            (emulate.boards, emulate.lanes) = (streams, streams);
            emulate.pace = Pace { rate_scale, ..Pace::default() };
        }
        trial.config.pipeline.answer.to = None;
        Arc::new(trial)
    }

    fn doubts(&self) -> Vec<String> {
        let answer = &self.config.pipeline.answer;
        let nobody = answer.to.is_none();
        let nobody = nobody.then(|| "pipeline.answer.to is not given: nobody is answered".into());
        nobody.into_iter().collect()
    }

    fn inputs(&self) -> Vec<PathBuf> {
        self.config.pipeline.cabling.iter().cloned().collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
