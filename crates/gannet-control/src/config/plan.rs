//! What a run is built from: the configuration with every reference resolved and value tested.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::{fs, io};

use gannet_ingest::udp::UdpConfig;
use gannet_ingest::xdp::XdpConfig;
use gannet_log::RawStreams;
use gannet_measure::quantity::Bytes;
use gannet_wire::TpcFormat;
use gannet_wire::channel_map::StreamChannels;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::{ChannelMap, GeoId, tpc_frame};

use super::document::{Document, Problem};
use super::forecast::{Forecast, longest_window_s};
use super::model::{Config, SourceConfig, SourceInput};
use super::receive_cpus::ReceiveCpus;
use super::token::{self, Token};
use gannet_dune::channels::mask;

/// Most streams of one process.
const STREAMS_MAX: usize = 1024;
/// Longest channel map that is read: several times that of a whole module.
const CHANNEL_MAP_BYTES_MAX: u64 = 256 << 20;
/// Least frames of the past that each stream keeps.
const DEPTH_FRAMES_MIN: u64 = 256;

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration as written.
    pub text: String,
    /// The same, defaults filled in, paths made absolute by their directory.
    pub config: Config,
    /// Which channel of the detector each channel of each stream is.
    pub channel_map: ChannelMap,
    /// The sources in the order of the file.
    pub sources: Vec<PlannedSource>,
    /// What the run will need.
    pub forecast: Forecast,
}

/// A source with everything resolved.
#[derive(Clone, Debug)]
pub struct PlannedSource {
    /// Name in reports.
    pub name: String,
    /// Where frames come from.
    pub input: SourceInput,
    /// TpcFormat of the frames.
    pub format: TpcFormat,
    /// The streams.
    pub streams: Vec<PlannedStream>,
    /// Frames of the past to keep, over all streams.
    pub cells: u64,
}

/// A stream of a source.
#[derive(Clone, Debug)]
pub struct PlannedStream {
    /// Place on the detector.
    pub geo_id: GeoId,
    /// Source that it is in files.
    pub source_id: SourceId,
    /// Its channels.
    pub channels: StreamChannels,
}

impl Plan {
    /// Number of the run; 0 until it has one.
    pub fn run_number(&self) -> u32 {
        self.config.run.number.unwrap_or(0)
    }

    /// Tests `config` and resolves what it refers to; paths in it start at `directory`.
    ///
    /// # Errors
    /// The first problem, placed in `document`.
    pub fn resolve(
        mut config: Config,
        document: &Document<'_>,
        directory: &Path,
    ) -> Result<Self, Problem> {
        absolve_paths(&mut config, directory);
        check_rooms(&config, document)?;
        check_addresses(&config, document)?;
        check_names(&config, document)?;
        let geo_ids = unique_streams(&config, document)?;
        let channel_map = channel_map(&config, &geo_ids, document)?;
        let mut next_id = config.record.source_id_first;
        let mut sources = Vec::new();
        for (index, source) in config.sources.iter().enumerate() {
            let place = format!("source[{index}]");
            sources.push(resolve_source(
                source,
                index,
                &place,
                &channel_map,
                &mut next_id,
                document,
            )?);
        }
        check_raw_streams(&config, &geo_ids, document)?;
        check_receive_cpus(&config, &sources, document)?;
        token::check_access(&config.metrics, document)?;
        let forecast = Forecast::of(&config, &sources);
        Ok(Self { text: document.text().to_owned(), config, channel_map, sources, forecast })
    }

    /// Refuses a configuration from whose `file` no run can be made: one without a source.
    ///
    /// # Errors
    /// Says so, and what to add.
    pub fn require_sources(&self, file: &str) -> Result<(), Problem> {
        if !self.sources.is_empty() {
            return Ok(());
        }
        let suggestion = "add a [[source]] with streams and `udp` or `capture`; \
                          `gannet demo --print-config` shows one";
        let cause = "there is no [[source]], so a run would take no data".to_owned();
        Err(Document::new(file, &self.text).problem("source", cause, suggestion.to_owned()))
    }

    /// The token that clients of the metrics have to send, read from its file.
    ///
    /// # Errors
    /// When the file, named in the configuration `file`, holds none or is open to others.
    pub fn metrics_token(&self, file: &str) -> Result<Option<Token>, Problem> {
        let Some(path) = &self.config.metrics.token_file else { return Ok(None) };
        let problem = |(cause, suggestion): (String, String)| {
            let document = Document::new(file, &self.text);
            document.problem("metrics.token_file", cause, suggestion)
        };
        Token::read(path).map(Some).map_err(problem)
    }

    /// What is allowed and will hardly be meant, each in a sentence that says what to do.
    pub fn doubts(&self) -> Vec<String> {
        let Self { config, forecast, .. } = self;
        let mut doubts = Vec::new();
        if forecast.streams == 0 {
            let text =
                "there is no [[source]]: `gannet emulate --to` can use it, `gannet run` cannot";
            return vec![text.to_owned()];
        }
        doubts.extend(self.emulation_doubt());
        doubts.extend(self.sources.iter().filter_map(PlannedSource::sockets_doubt));
        doubts.extend(forecast.raw_doubt());
        doubts.extend(token::doubt(&config.metrics));
        doubts.extend(config.tpg.doubt().map(|doubt| format!("tpg: {doubt}")));
        let read = self.channel_map.iter().flat_map(|(_, channels)| channels.offline);
        let unread = mask::doubt(&mask::unread(&config.tpg.mask, read));
        doubts.extend(unread.map(|doubt| format!("tpg.mask: {doubt}")));
        let (window_s, depth_s) = (longest_window_s(config), forecast.depth_s);
        if window_s > depth_s {
            doubts.push(format!(
                "records read out {window_s:.3} s, and the buffers keep {depth_s:.3} s: make \
                 `depth` longer, or records will be incomplete",
            ));
        }
        doubts
    }

    /// That the front end of `[emulate]` is not that of the sources.
    fn emulation_doubt(&self) -> Option<String> {
        let taken: Vec<_> = self.streams().map(|stream| stream.geo_id).collect();
        let sent = self.config.emulate.streams.geo_ids();
        let unknown = sent.iter().filter(|stream| !taken.contains(stream)).count();
        let silent = taken.iter().filter(|stream| !sent.contains(stream)).count();
        // Of several sources one front end can stand for some.
        let differ = unknown > 0 || silent > 0 && self.sources.len() == 1;
        (differ && Document::new("", &self.text).has("emulate")).then(|| {
            format!(
                "emulate.streams: {unknown} of the {} emulated streams are those of no source, and \
                 {silent} of the {} streams of the sources are not emulated; give both the same \
                 count, format, crate and slot",
                sent.len(),
                taken.len(),
            )
        })
    }

    /// All streams in the order of the sources.
    pub fn streams(&self) -> impl Iterator<Item = &PlannedStream> {
        self.sources.iter().flat_map(|source| &source.streams)
    }
}

/// Makes relative paths start at the directory of the configuration.
fn absolve_paths(config: &mut Config, directory: &Path) {
    let absolve = |path: &mut PathBuf| *path = directory.join(&*path);
    config.channel_map.iter_mut().for_each(absolve);
    config.metrics.token_file.iter_mut().for_each(absolve);
    config.sources.iter_mut().filter_map(|source| source.capture.as_mut()).for_each(absolve);
}

/// Lets every room test its own part.
fn check_rooms(config: &Config, document: &Document<'_>) -> Result<(), Problem> {
    let correct = |path: &str, cause: String| {
        document.problem(path, cause, "see `gannet check --schema` for what is allowed".into())
    };
    if let Err(error) = config.emulate.check() {
        let path = format!("emulate.{}", error.key);
        return Err(document.problem(
            &path,
            format!("{} is not allowed", error.value),
            error.expected,
        ));
    }
    if let Err(error) = config.tpg.check() {
        return Err(correct(&format!("tpg.{}", error.path), error.problem));
    }
    if let Err(error) = config.trigger.check() {
        return Err(correct(&format!("trigger.{}", error.path), error.problem));
    }
    if let Err(error) = config.recorder.check() {
        return Err(correct("recorder", error.to_string()));
    }
    let request = &config.record.request;
    if request.window_ticks_max == 0 {
        return Err(correct("record.request.window_ticks_max", "it must be 1 or more".into()));
    }
    Ok(())
}

/// Refuses addresses that two sockets would share, and those of groups.
fn check_addresses(config: &Config, document: &Document<'_>) -> Result<(), Problem> {
    let mut taken: Vec<(SocketAddr, String)> = Vec::new();
    for (index, source) in config.sources.iter().enumerate() {
        let udp = source.udp.iter().flat_map(|udp| udp.listen.iter().map(|own| (*own, "udp")));
        let xdp = source.xdp.iter().map(|xdp| (SocketAddr::V4(xdp.listen), "xdp"));
        for (address, input) in udp.chain(xdp) {
            let path = format!("source[{index}].{input}.listen");
            if address.ip().is_multicast() {
                let cause = format!("{address} is a multicast group, and groups are not joined");
                let suggestion = "let the front end send to an address of this machine";
                return Err(document.problem(&path, cause, suggestion.into()));
            }
            if let Some((other, owner)) = taken.iter().find(|(other, _)| collide(*other, address)) {
                let cause = format!("{address} is taken already: {owner} has {other}");
                return Err(document.problem(&path, cause, "choose another port".into()));
            }
            taken.push((address, path));
        }
    }
    Ok(())
}

/// Whether two sockets cannot both have their address.
fn collide(a: SocketAddr, b: SocketAddr) -> bool {
    let covers = |a: IpAddr, b: IpAddr| a == b || a.is_unspecified() && a.is_ipv4() == b.is_ipv4();
    a.port() == b.port() && a.port() != 0 && (covers(a.ip(), b.ip()) || covers(b.ip(), a.ip()))
}

/// Refuses two sources of one name: reports would not tell them apart.
fn check_names(config: &Config, document: &Document<'_>) -> Result<(), Problem> {
    let names: Vec<_> = config.sources.iter().enumerate().map(name).collect();
    for (index, name) in names.iter().enumerate() {
        if let Some(earlier) = names[..index].iter().position(|other| other == name) {
            let cause = format!("source[{earlier}] is called {name:?} already");
            let path = format!("source[{index}].name");
            return Err(document.problem(&path, cause, "give each source its own name".into()));
        }
    }
    Ok(())
}

/// Name of a source in reports.
fn name((index, source): (usize, &SourceConfig)) -> String {
    match source.name.as_str() {
        "" => format!("source {}", index + 1),
        name => name.to_owned(),
    }
}

/// Refuses to record streams that come from nowhere.
fn check_raw_streams(
    config: &Config,
    geo_ids: &[GeoId],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let listed = config.recorder.raw_streams.listed();
    let names: Vec<String> = geo_ids.iter().map(GeoId::to_string).collect();
    let Some(stranger) = listed.iter().find(|stream| !names.contains(stream)) else {
        return Ok(());
    };
    let cause = format!("stream {stranger} comes from no [[source]]");
    let suggestion = "list streams of the sources by detector/crate/slot/stream, or write \"all\"";
    Err(document.problem("recorder.raw_streams", cause, suggestion.into()))
}

/// Refuses a list of processors that is not one for each receiving thread.
fn check_receive_cpus(
    config: &Config,
    sources: &[PlannedSource],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let ReceiveCpus::Listed(cpus) = &config.run.receive_cpus else { return Ok(()) };
    let threads: usize = sources.iter().map(PlannedSource::inputs).sum();
    if cpus.len() == threads || sources.is_empty() {
        return Ok(());
    }
    let cause = format!("{} are listed, and {threads} threads receive", cpus.len());
    let suggestion = "list one for each socket, or write \"auto\"";
    Err(document.problem("run.receive_cpus", cause, suggestion.into()))
}

/// All streams, each of which may come from one source only.
fn unique_streams(config: &Config, document: &Document<'_>) -> Result<Vec<GeoId>, Problem> {
    let mut all: Vec<GeoId> = Vec::new();
    for (index, source) in config.sources.iter().enumerate() {
        let path = format!("source[{index}].streams");
        if let Err(error) = source.streams.check() {
            let cause = format!("{} is not allowed", error.value);
            return Err(document.problem(&path, cause, error.expected));
        }
        for geo_id in source.streams.geo_ids() {
            if all.contains(&geo_id) {
                return Err(document.problem(
                    &path,
                    format!("stream {geo_id} comes from an earlier source already"),
                    "give this source another crate or slot".into(),
                ));
            }
            all.push(geo_id);
        }
        if all.len() > STREAMS_MAX {
            return Err(document.problem(
                &path,
                format!("more than {STREAMS_MAX} streams"),
                "share them out over several processes".into(),
            ));
        }
    }
    Ok(all)
}

/// The map of the configured file, or one made up for the streams.
fn channel_map(
    config: &Config,
    geo_ids: &[GeoId],
    document: &Document<'_>,
) -> Result<ChannelMap, Problem> {
    let problem = |cause: String| {
        let suggestion = "give a DUNE channel map of 12 or 13 columns, or remove the key";
        document.problem("channel_map", cause, suggestion.into())
    };
    match &config.channel_map {
        None => ChannelMap::synthetic(geo_ids).map_err(|error| problem(error.to_string())),
        Some(path) => {
            let failed = |error: String| problem(format!("{}: {error}", path.display()));
            let text = read_map(path).map_err(|error| failed(error.to_string()))?;
            ChannelMap::parse(&text).map_err(|error| failed(error.to_string()))
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

fn resolve_source(
    source: &SourceConfig,
    index: usize,
    place: &str,
    channel_map: &ChannelMap,
    next_id: &mut u32,
    document: &Document<'_>,
) -> Result<PlannedSource, Problem> {
    let input = input(source, place, document)?;
    let mut streams = Vec::new();
    for geo_id in source.streams.geo_ids() {
        let channels = channel_map.stream(geo_id).ok_or_else(|| {
            let path = format!("{place}.streams");
            let suggestion = "use a channel map that has it, or other streams".into();
            document.problem(
                &path,
                format!("stream {geo_id} is not in the channel map"),
                suggestion,
            )
        })?;
        let source_id = SourceId::new(Subsystem::DetectorReadout, *next_id);
        *next_id = next_id.wrapping_add(1);
        streams.push(PlannedStream { geo_id, source_id, channels: *channels });
    }
    let cells = cells(source, streams.len() as u64, place, document)?;
    let name = name((index, source));
    Ok(PlannedSource { name, input, format: source.streams.format, streams, cells })
}

/// Where the frames come from; exactly one input must be given.
fn input(
    source: &SourceConfig,
    place: &str,
    document: &Document<'_>,
) -> Result<SourceInput, Problem> {
    let refused = |input: &str, error: gannet_ingest::Error| {
        let suggestion = "see `gannet check --schema` for what is allowed";
        document.problem(&format!("{place}.{input}"), error.to_string(), suggestion.into())
    };
    match (&source.udp, &source.xdp, &source.capture) {
        (Some(udp), None, None) => {
            udp.check().map_err(|error| refused("udp", error))?;
            Ok(SourceInput::Udp(udp.clone()))
        }
        (None, Some(xdp), None) => {
            xdp.check().map_err(|error| refused("xdp", error))?;
            Ok(SourceInput::Xdp(xdp.clone()))
        }
        (None, None, Some(path)) => Ok(SourceInput::Capture(path.clone())),
        (None, None, None) => Err(document.problem(
            place,
            "it has no input".into(),
            "add `udp = { listen = [\"127.0.0.1:7000\"] }` or `capture = \"file.pcap\"`".into(),
        )),
        (udp, _, capture) => {
            let given = if udp.is_some() { "udp" } else { "xdp" };
            let other = if capture.is_some() { "capture" } else { "xdp" };
            Err(document.problem(
                &format!("{place}.{other}"),
                format!("a source has one input, and `{given}` is given too"),
                "remove one of the two".into(),
            ))
        }
    }
}

/// Frames of the past to keep.
fn cells(
    source: &SourceConfig,
    streams: u64,
    place: &str,
    document: &Document<'_>,
) -> Result<u64, Problem> {
    let per_stream = source.depth.ns() as f64 * 1e-9 * source.streams.format.frames_per_s();
    let cells = (per_stream.ceil() as u64).max(DEPTH_FRAMES_MIN) * streams;
    let bytes = cells.saturating_mul(tpc_frame::FRAME_LEN as u64);
    if bytes > source.buffer_max.bytes() {
        return Err(document.problem(
            &format!("{place}.depth"),
            format!(
                "{} of {streams} streams need {} of memory, and buffer_max is {}",
                source.depth,
                Bytes(bytes >> 20 << 20),
                source.buffer_max
            ),
            "make depth shorter or buffer_max larger".into(),
        ));
    }
    Ok(cells)
}

impl PlannedSource {
    /// Frames of the past that the index of one stream holds.
    pub fn index_frames(&self) -> usize {
        (self.cells / self.streams.len().max(1) as u64) as usize
    }

    /// True rate of all its streams, in frames per second.
    pub fn frames_per_s(&self) -> f64 {
        self.streams.len() as f64 * self.format.frames_per_s()
    }

    /// How many of its streams `choice` takes.
    pub fn raw_streams(&self, choice: &RawStreams) -> usize {
        self.streams.iter().filter(|stream| choice.contains(&stream.geo_id.to_string())).count()
    }

    /// Its UDP sockets; absent when frames come another way.
    pub fn udp(&self) -> Option<&UdpConfig> {
        match &self.input {
            SourceInput::Udp(udp) => Some(udp),
            SourceInput::Xdp(_) | SourceInput::Capture(_) => None,
        }
    }

    /// Its AF_XDP socket; absent when frames come another way.
    pub fn xdp(&self) -> Option<&XdpConfig> {
        match &self.input {
            SourceInput::Xdp(xdp) => Some(xdp),
            SourceInput::Udp(_) | SourceInput::Capture(_) => None,
        }
    }

    /// That some of its sockets have no stream to take.
    fn sockets_doubt(&self) -> Option<String> {
        let (sockets, streams) = (self.udp()?.sockets as usize, self.streams.len());
        (sockets > streams).then(|| {
            format!("{}: {sockets} sockets share {streams} streams, so some stay idle", self.name)
        })
    }

    /// Address of each of its sockets, none for a file, in the order of their threads.
    pub fn listen(&self) -> Vec<Option<SocketAddr>> {
        match &self.input {
            SourceInput::Udp(udp) => {
                let sockets = |address: &SocketAddr| vec![Some(*address); udp.sockets as usize];
                udp.listen.iter().flat_map(sockets).collect()
            }
            SourceInput::Xdp(xdp) => vec![Some(xdp.listen.into())],
            SourceInput::Capture(_) => vec![None],
        }
    }

    /// Sockets, or the one file; each has a receiving thread of its own.
    pub fn inputs(&self) -> usize {
        self.udp().map_or(1, |udp| udp.listen.len() * udp.sockets as usize)
    }
}
