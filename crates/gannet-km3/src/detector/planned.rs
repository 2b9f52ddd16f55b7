//! What a configuration says about KM3NeT, tested and resolved.

use std::any::Any;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use gannet_control::config::{
    Config, Document, Plan, PlannedStream, Problem, STREAMS_MAX, SourceStreams,
};
use gannet_control::detector::{Comparison, PlannedDetector};
use gannet_control::emulation::{EmulationError, PlannedFrontEnd};
use gannet_control::run::{Run, RunError};
use gannet_emulate::config::Pace;
use gannet_emulate::km3::Km3FrontEnd;
use gannet_kernels::clusters::finder::DETECTOR_MAX_M;
use gannet_kernels::coincidences::module_slice::T0_MAX_NS;
use gannet_wire::km3net::{DetectorFile, SLICE_NS, Status};
use gannet_wire::{FrameFormat, StreamKey};

use super::comparison::Light;
use super::config::{Km3Streams, Km3Tables, PipelineConfig};
use super::expected::Expected;
use super::pipeline::Km3Pipeline;
use crate::geometry::Geometry;

/// Longest detector file that is read: that of 4096 modules has 13 MB.
const DETECTOR_BYTES_MAX: u64 = 64 << 20;

/// What a configuration says about KM3NeT.
#[derive(Clone, Debug)]
pub struct PlannedKm3 {
    /// The configuration, defaults filled in, paths made absolute by their directory.
    pub config: Config<Km3Tables>,
    /// All modules of the detector.
    pub detector: Arc<DetectorFile>,
    /// Identifiers of the modules of each source.
    pub modules: Vec<Vec<u32>>,
}

/// Tests `config` and resolves what it refers to.
pub(super) fn resolve(
    mut config: Config<Km3Tables>,
    document: &Document<'_>,
) -> Result<Plan, Problem> {
    check_pipeline(&config.pipeline, document)?;
    config.emulate.lattice = config.pipeline.lattice.clone();
    config.emulate.check().map_err(|error| {
        let cause = format!("{} is not allowed", error.value);
        document.problem(&format!("emulate.{}", error.key), cause, error.expected)
    })?;
    let detector = Arc::new(detector(&config.pipeline, document)?);
    let mut modules = Vec::new();
    for (index, source) in config.sources.iter().enumerate() {
        let place = format!("source[{index}].streams");
        modules.push(check_streams(&source.streams, &detector, &place, document)?);
    }
    let expected = Expected::of(&config, document)?;
    let sources = config.sources.iter().zip(&modules).map(|(source, modules)| {
        let format = source.streams.format();
        SourceStreams {
            lengths: format.lengths(),
            rhythm: format.rhythm(),
            traffic: expected.traffic,
            streams: planned(&format, modules),
            spread: None,
        }
    });
    let sources = sources.collect();
    let read = modules.iter().map(Vec::len).sum();
    let load = expected.load(&config.pipeline.written.time_slices, read);
    let planned = Arc::new(PlannedKm3 { config, detector, modules });
    planned.check_geometry(document)?;
    Plan::resolve(document, &planned.config, sources, load, Arc::clone(&planned) as _)
}

/// The streams with their names.
fn planned(format: &impl FrameFormat, modules: &[u32]) -> Vec<PlannedStream> {
    let named = |id: &u32| {
        let key = StreamKey(u64::from(*id));
        PlannedStream { key, name: format.stream_name(key) }
    };
    modules.iter().map(named).collect()
}

/// The modules of a source.
fn check_streams(
    streams: &Km3Streams,
    detector: &DetectorFile,
    place: &str,
    document: &Document<'_>,
) -> Result<Vec<u32>, Problem> {
    let refused = |key: &str, cause: String, suggestion: &str| {
        Err(document.problem(&format!("{place}.{key}"), cause, suggestion.into()))
    };
    let all = || detector.modules().iter().map(|module| module.id);
    if !(1..=Status::WORDS).contains(&streams.status_words) {
        let cause = format!("{} is not allowed", streams.status_words);
        return refused("status_words", cause, "write 1 to 4");
    }
    let lengths = 500..=8972;
    if !lengths.contains(&streams.longest.bytes()) {
        let cause = format!("{} is not allowed", streams.longest);
        return refused("longest", cause, "write 500 to 8972 B");
    }
    let modules: Vec<u32> = match (&streams.modules, streams.range) {
        (Some(_), Some(_)) => {
            let cause = "`modules` is given, too".to_owned();
            return refused("range", cause, "remove one of the two");
        }
        (Some(modules), None) => modules.clone(),
        (None, Some([least, largest])) => {
            all().filter(|id| (least..=largest).contains(id)).collect()
        }
        (None, None) => all().collect(),
    };
    let key = if streams.range.is_some() { "range" } else { "modules" };
    if modules.is_empty() || modules.len() > STREAMS_MAX {
        let cause = format!("there are {} modules", modules.len());
        return refused(key, cause, &format!("name 1 to {STREAMS_MAX} modules of the detector"));
    }
    if let Some(unknown) = modules.iter().find(|id| detector.module(**id).is_none()) {
        let cause = format!("the detector has no module {unknown}");
        let (first, last) = (all().min().unwrap_or(0), all().max().unwrap_or(0));
        return refused(key, cause, &format!("its modules are numbered from {first} to {last}"));
    }
    let mut sorted = modules.clone();
    sorted.sort_unstable();
    if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        return refused(key, format!("module {} is there twice", twice[0]), "name each once");
    }
    Ok(modules)
}

fn check_pipeline(pipeline: &PipelineConfig, document: &Document<'_>) -> Result<(), Problem> {
    let refused = |key: &str, cause: &str, suggestion: &str| {
        Err(document.problem(&format!("pipeline.{key}"), cause.into(), suggestion.into()))
    };
    if let Some((key, value, expected)) = pipeline.lattice.fault() {
        return refused(&format!("lattice.{key}"), &format!("{value} is not allowed"), &expected);
    }
    let merge = &pipeline.merge;
    if !(SLICE_NS..=10_000_000_000).contains(&merge.hold.ns()) {
        return refused("merge.hold", "it is not allowed", "write 100 ms to 10 s");
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
    let levels = &pipeline.coincidences;
    if !(1..=1000).contains(&levels.window_ns) {
        return refused("coincidences.window_ns", "it is not allowed", "write 1 to 1000");
    }
    if !(0.0..=180.0).contains(&levels.l2_angle_deg) {
        return refused("coincidences.l2_angle_deg", "it is not allowed", "write 0 to 180");
    }
    if !(2..=31).contains(&levels.sn_multiplicity) {
        return refused("coincidences.sn_multiplicity", "it is not allowed", "write 2 to 31");
    }
    let (muon, shower) = (&pipeline.muon, &pipeline.shower);
    for (key, value, range) in [
        ("muon.hits", muon.hits as f64, 2.0..=1000.0),
        ("muon.modules", muon.modules as f64, 1.0..=1000.0),
        ("muon.road_m", muon.road_m, 1.0..=1000.0),
        ("muon.extra_ns", muon.extra_ns, 0.0..=1000.0),
        ("muon.spacing_deg", muon.spacing_deg, 2.0..=90.0),
        ("shower.hits", shower.hits as f64, 2.0..=1000.0),
        ("shower.modules", shower.modules as f64, 1.0..=1000.0),
        ("shower.distance_m", shower.distance_m, 1.0..=1000.0),
        ("shower.extra_ns", shower.extra_ns, 0.0..=1000.0),
    ] {
        if !range.contains(&value) {
            let suggestion = format!("write {} to {}", range.start(), range.end());
            return refused(key, &format!("{value} is not allowed"), &suggestion);
        }
    }
    let written = &pipeline.written;
    if written.around.ns() > 1_000_000 {
        return refused("written.around", "it is too long", "write at most 1 ms");
    }
    let slices = &written.time_slices;
    if (1..slices.len()).any(|at| slices[..at].contains(&slices[at])) {
        return refused("written.time_slices", "a level is there twice", "name each level once");
    }
    Ok(())
}

fn detector(pipeline: &PipelineConfig, document: &Document<'_>) -> Result<DetectorFile, Problem> {
    let Some(path) = &pipeline.detector_file else {
        return Ok(DetectorFile::lattice(&pipeline.lattice));
    };
    let refused = |cause: String| {
        let suggestion = "give a detector file of versions 1 to 5, or remove the key";
        let cause = format!("{}: {cause}", path.display());
        document.problem("pipeline.detector_file", cause, suggestion.into())
    };
    let text = read(path).map_err(|error| refused(error.to_string()))?;
    DetectorFile::parse(&text).map_err(|error| refused(error.to_string()))
}

/// The text of a detector file. What is no ordinary file might never end.
fn read(path: &Path) -> io::Result<String> {
    let file = gannet_log::files::open_input(path)?;
    let mut text = String::new();
    File::take(file, DETECTOR_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > DETECTOR_BYTES_MAX {
        return Err(io::Error::other("it is longer than 64 MiB"));
    }
    Ok(text)
}

impl PlannedKm3 {
    /// The modules that are read, in the order of their streams.
    pub(super) fn geometry(&self) -> Result<Geometry, u32> {
        Geometry::of(&self.detector, self.modules.iter().flatten().copied())
    }

    /// Status words of the datagrams of a stream.
    pub(super) fn status_words(&self, stream: usize) -> usize {
        let mut left = stream;
        for (source, modules) in self.config.sources.iter().zip(&self.modules) {
            match left.checked_sub(modules.len()) {
                Some(rest) => left = rest,
                None => return source.streams.status_words,
            }
        }
        Status::WORDS
    }

    /// Refuses detectors that the kernels do not take.
    fn check_geometry(&self, document: &Document<'_>) -> Result<(), Problem> {
        let is_file = self.config.pipeline.detector_file.is_some();
        let key = if is_file { "pipeline.detector_file" } else { "pipeline.lattice" };
        let refused =
            |cause: String, suggestion: &str| Err(document.problem(key, cause, suggestion.into()));
        let modules = self.detector.modules();
        let t0 = || modules.iter().flat_map(|module| &module.pmts).map(|pmt| pmt.t0_ns);
        let (least, most) = (t0().fold(f64::MAX, f64::min), t0().fold(f64::MIN, f64::max));
        if most - least > f64::from(T0_MAX_NS) {
            let cause = format!("t0 are up to {:.0} ns apart", most - least);
            return refused(cause, "write t0 that are no more than 1 ms apart");
        }
        let sides = [0, 1, 2].map(|axis| {
            let at = || modules.iter().map(|module| module.position[axis]);
            at().fold(f64::MIN, f64::max) - at().fold(f64::MAX, f64::min)
        });
        let diagonal = sides.map(|side| side * side).iter().sum::<f64>().sqrt();
        if diagonal > DETECTOR_MAX_M {
            let cause = format!("the detector is {diagonal:.0} m from corner to corner");
            return refused(cause, "take modules within 10 km");
        }
        Ok(())
    }
}

impl PlannedDetector for PlannedKm3 {
    fn configure(&self, plan: &Plan) -> Result<Run, RunError> {
        Run::of(plan, Km3Pipeline::new(self.clone()))
    }

    fn emulated(&self) -> Vec<PlannedStream> {
        let ids: Vec<u32> = self.detector.modules().iter().map(|module| module.id).collect();
        planned(&Km3Streams::default().format(), &ids)
    }

    fn front_end(&self) -> Result<Box<dyn PlannedFrontEnd>, EmulationError> {
        let emulate = &self.config.emulate;
        let since_1970 = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let front_end = Km3FrontEnd::new(emulate, &self.detector, since_1970.as_nanos() as u64)?;
        Ok(Box::new((front_end, emulate.settings())))
    }

    fn comparison(&self) -> Option<Box<dyn Comparison>> {
        self.geometry().ok().map(|geometry| Box::new(Light::new(geometry)) as _)
    }

    fn trial(&self, streams: usize, rate_scale: f64) -> Arc<dyn PlannedDetector> {
        let mut trial = self.clone();
        let modules = trial.detector.modules().iter().take(streams).cloned().collect();
        trial.detector = Arc::new(DetectorFile::new(trial.detector.id, modules));
        let ids = trial.detector.modules().iter().map(|module| module.id).collect();
        trial.modules.truncate(1);
        trial.modules.iter_mut().for_each(|modules| *modules = Vec::clone(&ids));
        if let Some(source) = trial.config.sources.first() {
            let datagrams = &mut trial.config.emulate.datagrams;
            datagrams.status_words = source.streams.status_words;
        }
        trial.config.emulate.pace = Pace { rate_scale, ..Pace::default() };
        trial.config.pipeline.written.time_slices.clear();
        Arc::new(trial)
    }

    fn doubts(&self) -> Vec<String> {
        let sources = &self.config.sources;
        let blind = sources.iter().any(|source| source.streams.status_words < 2);
        let blind = blind.then(|| {
            "with status_words = 1 nothing tells the last datagram of a slice: slices are over only \
             when the next begins"
                .to_owned()
        });
        blind.into_iter().collect()
    }

    fn inputs(&self) -> Vec<PathBuf> {
        self.config.pipeline.detector_file.iter().cloned().collect()
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
