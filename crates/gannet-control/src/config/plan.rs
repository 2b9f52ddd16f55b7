//! What a run is built from: the configuration with every reference resolved and value tested.

use std::env;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use gannet_measure::quantity::Bytes;
use gannet_measure::ticks::TickRate;
use gannet_wire::StreamKey;

use super::alarms;
use super::builder::Role;
use super::document::{Document, Problem};
use super::forecast::{Forecast, Load};
use super::model::{Config, Settings, SourceConfig, SourceInput, Table, Tables};
use super::planned_source::{PlannedSource, PlannedStream, SourceStreams, cells_for};
use super::receive_cpus::ReceiveCpus;
use super::slow_control::SlowControlPlan;
use super::token::{self, Token, Tokens};
use crate::detector::PlannedDetector;

/// Most streams of one process.
pub const STREAMS_MAX: usize = 4096;

/// The variable of the environment with the tokens of the pages, for processes whose starter has no file for them.
pub const WEB_TOKENS: &str = "GANNET_WEB_TOKENS";

/// A configuration that can be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The configuration as written.
    pub text: String,
    /// The same with defaults filled in and paths made absolute by their directory.
    pub filled: String,
    /// What does not depend on the detector.
    pub settings: Settings,
    /// The sources in the order of the file.
    pub sources: Vec<PlannedSource>,
    /// Modules that take commands, and what they are told.
    pub slow_control: SlowControlPlan,
    /// What the run will need.
    pub forecast: Forecast,
    /// What depends on the detector.
    pub detector: Arc<dyn PlannedDetector>,
    /// Which part of the run this process is: all of it, unless that is said after the plan was made.
    pub role: Role,
    /// The greatest number of a run that this process made before, if it made any: the next has a greater one.
    pub after: Option<u32>,
    /// Whether the front end is played in this process and sends to the sources, as in a demonstration.
    pub plays_front_end: bool,
    /// Names of the sources that it takes, if these are not all.
    own: Option<Vec<String>>,
    /// What the detector expects.
    load: Load,
}

/// A source is named that there is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no source {name:?}; the sources are {}", listed(.known))]
pub struct UnknownSource {
    name: String,
    known: Vec<String>,
}

/// Names in quotes, such as `"a", "b"`.
fn listed(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Tests what of `config` does not belong to the detector, and joins it to what the detector
    /// says: the `streams` of each source, the `load` and itself.
    ///
    /// # Errors
    /// The first problem, placed in `document`.
    pub fn resolve<T: Tables>(
        document: &Document<'_>,
        config: &Config<T>,
        streams: Vec<SourceStreams>,
        load: Load,
        detector: Arc<dyn PlannedDetector>,
    ) -> Result<Self, Problem> {
        let settings = config.settings();
        check_settings(&settings, document)?;
        settings.builder.check(document)?;
        check_emulated(&config.sources, document)?;
        check_addresses(&config.sources, document)?;
        check_names(&config.sources, document)?;
        check_streams(&streams, document)?;
        let mut sources = Vec::new();
        for (index, (source, streams)) in config.sources.iter().zip(streams).enumerate() {
            sources.push(resolve_source(source, streams, index, document)?);
        }
        alarms::check(&settings.alarms, &sources, document)?;
        check_raw_streams(&settings, &sources, document)?;
        check_receive_cpus(&settings, &sources, document)?;
        token::check_access(&settings.metrics, document)?;
        token::check_pages(&settings.web, document)?;
        let slow_control = settings.slow_control.plan(document)?;
        let forecast = Forecast::of(&settings, &sources, &load);
        let filled = toml::to_string_pretty(config).map_err(|error| {
            document.problem("", error.to_string(), "write numbers below 2^63".into())
        })?;
        let text = document.text().to_owned();
        Ok(Self {
            text,
            filled,
            settings,
            sources,
            slow_control,
            forecast,
            detector,
            role: Role::All,
            after: None,
            plays_front_end: false,
            own: None,
            load,
        })
    }

    /// Whether this process writes files: a readout records nothing but raw streams.
    pub fn records(&self) -> bool {
        let raw = &self.settings.recorder.raw_streams;
        let own = self.sources.iter().filter(|source| self.takes(source));
        let is_raw = own.map(|source| source.raw_streams(raw)).sum::<usize>() > 0;
        self.settings.recorder.enabled && (self.role != Role::Readout || is_raw)
    }

    /// Number of the run; 0 until it has one.
    pub fn run_number(&self) -> u32 {
        self.settings.run.number.unwrap_or(0)
    }

    /// Whether all frames are emulated in this process. Only then may faults be put into the run.
    pub fn is_emulated(&self) -> bool {
        let is_emulated = |source: &PlannedSource| matches!(source.input, SourceInput::Emulated);
        self.plays_front_end || self.role != Role::Builder && self.sources.iter().any(is_emulated)
    }

    /// Clock whose ticks time stamps count.
    pub fn clock(&self) -> TickRate {
        self.sources.first().map_or(TickRate::hz(1), |source| source.rhythm.clock)
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

    /// Lets this process be a part of the run, with the configuration `file`.
    ///
    /// # Errors
    /// When the configuration does not say where readout and builder meet.
    pub fn take_role(&mut self, role: Role, file: &str) -> Result<(), Problem> {
        if role != Role::All && self.settings.builder.listen.is_empty() {
            let cause = "the configuration does not say where readout and builder meet".to_owned();
            let suggestion = "add `[builder]` with `listen = \"builder.sock\"`, or, between hosts, \
                              `backend = \"udp\"`, an address and a `secret_file`";
            let document = Document::new(file, &self.text);
            return Err(document.problem("builder", cause, suggestion.to_owned()));
        }
        self.role = role;
        if role == Role::Builder {
            // The frames are elsewhere.
            self.forecast.memory_bytes = 0;
        }
        Ok(())
    }

    /// Lets this process take no frames but those of the sources with these names.
    ///
    /// # Errors
    /// When there is no such source.
    pub fn take_sources(&mut self, names: &[String]) -> Result<(), UnknownSource> {
        let known = || self.sources.iter().map(|source| &source.name);
        if let Some(name) = names.iter().find(|name| known().all(|known| known != *name)) {
            return Err(UnknownSource { name: name.clone(), known: known().cloned().collect() });
        }
        self.own = Some(names.to_vec());
        let own: Vec<_> = self.sources.iter().filter(|it| self.takes(it)).cloned().collect();
        self.forecast = Forecast::of(&self.settings, &own, &self.load);
        Ok(())
    }

    /// Whether this process takes the frames of a source.
    pub fn takes(&self, source: &PlannedSource) -> bool {
        let is_own = || self.own.as_ref().is_none_or(|own| own.contains(&source.name));
        self.role != Role::Builder && is_own()
    }

    /// Processors for the receiving threads of the sources that this process takes.
    pub(crate) fn receive_cpus(&self) -> ReceiveCpus {
        let ReceiveCpus::Listed(cpus) = &self.settings.run.receive_cpus else {
            return self.settings.run.receive_cpus.clone();
        };
        let mut cpus = cpus.iter();
        let mut own = Vec::new();
        for source in &self.sources {
            let of_source = cpus.by_ref().take(source.inputs());
            own.extend(of_source.filter(|_| self.takes(source)).copied());
        }
        ReceiveCpus::Listed(own)
    }

    /// The sources that another process takes the frames of, each in quotes.
    pub fn others(&self) -> Option<String> {
        let others = self.sources.iter().filter(|source| !self.takes(source));
        let others: Vec<_> = others.map(|source| source.name.clone()).collect();
        (!others.is_empty()).then(|| listed(&others))
    }

    /// The token that clients of the metrics have to send, read from its file.
    ///
    /// # Errors
    /// When the file, named in the configuration `file`, holds none or is open to others.
    pub fn metrics_token(&self, file: &str) -> Result<Option<Token>, Problem> {
        let Some(path) = &self.settings.metrics.token_file else { return Ok(None) };
        let problem = |(cause, suggestion): (String, String)| {
            let document = Document::new(file, &self.text);
            document.problem("metrics.token_file", cause, suggestion)
        };
        Token::read(path).map(Some).map_err(problem)
    }

    /// Tokens of the pages: those in the file, or else in the environment as [`WEB_TOKENS`], or else a new one.
    ///
    /// # Errors
    /// When the file or the environment holds no tokens that can be used; `file` is the configuration to be named.
    ///
    /// # Panics
    /// When the system has no random numbers.
    pub fn web_tokens(&self, file: &str) -> Result<Tokens, Problem> {
        let problem = |(cause, suggestion): (String, String)| {
            Document::new(file, &self.text).problem("web.token_file", cause, suggestion)
        };
        if let Some(path) = &self.settings.web.token_file {
            return Tokens::read(path).map_err(problem);
        }
        match env::var(WEB_TOKENS) {
            Ok(text) => Tokens::parse(&text).map_err(|wrong| {
                let suggestion = "write lines with a role and a token, as in a `token_file`";
                problem((format!("{WEB_TOKENS} in the environment: {wrong}"), suggestion.into()))
            }),
            Err(_) => Ok(Token::drawn().into()),
        }
    }

    /// Certificates and key of the pages' server, as PEM, if it is to serve by TLS.
    ///
    /// # Errors
    /// When a file cannot be read, or the key is open to others; `file` is the configuration to be named.
    pub fn web_tls(&self, file: &str) -> Result<Option<(String, String)>, Problem> {
        let Some(tls) = &self.settings.web.tls else { return Ok(None) };
        token::read_tls(tls).map(Some).map_err(|(key, (cause, suggestion))| {
            let path = format!("web.tls.{key}");
            Document::new(file, &self.text).problem(&path, cause, suggestion)
        })
    }

    /// That the value at the dotted `path` of the configuration `file` cannot be used.
    pub fn problem(&self, file: &str, path: &str, cause: String) -> Problem {
        let suggestion = "correct the file that it names, or name another one".to_owned();
        Document::new(file, &self.text).problem(path, cause, suggestion)
    }

    /// What is allowed and will hardly be meant, each in a sentence that says what to do.
    pub fn doubts(&self) -> Vec<String> {
        let Self { settings, forecast, .. } = self;
        let mut doubts = Vec::new();
        if forecast.streams == 0 {
            let text =
                "there is no [[source]]: `gannet emulate --to` can use it, `gannet run` cannot";
            return vec![text.to_owned()];
        }
        doubts.extend(self.emulation_doubt());
        doubts.extend(self.sources.iter().filter_map(PlannedSource::sockets_doubt));
        doubts.extend(forecast.raw_doubt());
        doubts.extend(token::doubt(&settings.metrics));
        doubts.extend(self.detector.doubts());
        let (window_s, depth_s) = (forecast.longest_window_s, forecast.depth_s);
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
        let taken: Vec<_> = self.streams().map(|stream| stream.key).collect();
        let sent: Vec<_> = self.detector.emulated().into_iter().map(|stream| stream.key).collect();
        let unknown = sent.iter().filter(|stream| !taken.contains(stream)).count();
        let silent = taken.iter().filter(|stream| !sent.contains(stream)).count();
        // Of several sources one front end can stand for some.
        let differ = unknown > 0 || silent > 0 && self.sources.len() == 1;
        (differ && Document::new("", &self.text).has("emulate")).then(|| {
            format!(
                "emulate.streams: {unknown} of the {} emulated streams are those of no source, and \
                 {silent} of the {} streams of the sources are not emulated; let both name the same \
                 streams",
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

/// Tests what any run has.
fn check_settings(settings: &Settings, document: &Document<'_>) -> Result<(), Problem> {
    let correct = |path: &str, cause: String| {
        document.problem(path, cause, "see `gannet check --schema` for what is allowed".into())
    };
    if let Err(error) = settings.recorder.check() {
        return Err(correct("recorder", error.to_string()));
    }
    if settings.record.window_ticks_max == 0 {
        return Err(correct("record.window_ticks_max", "it must be 1 or more".into()));
    }
    Ok(())
}

/// Refuses a front end in this process beside other sources: it makes the frames of all streams.
fn check_emulated<S: Table>(
    sources: &[SourceConfig<S>],
    document: &Document<'_>,
) -> Result<(), Problem> {
    match sources.iter().position(|source| source.emulated) {
        Some(index) if sources.len() > 1 => Err(document.problem(
            &format!("source[{index}].emulated"),
            "the front end plays all streams, and there is another source".into(),
            "give all streams to one source".into(),
        )),
        _ => Ok(()),
    }
}

/// Refuses addresses that two sockets would share, and those of groups.
fn check_addresses<S: Table>(
    sources: &[SourceConfig<S>],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let mut taken: Vec<(SocketAddr, String)> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let udp = source.udp.iter().flat_map(|udp| udp.listen.iter().map(|own| (*own, "udp")));
        let xdp = source.xdp.iter().map(|xdp| (SocketAddr::V4(xdp.listen), "xdp"));
        let roce = source.roce.iter().map(|roce| (SocketAddr::V4(roce.listen), "roce"));
        for (address, input) in udp.chain(xdp).chain(roce) {
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
    check_places(sources, document)
}

/// Refuses places at which two rings would wait for their senders.
fn check_places<S: Table>(
    sources: &[SourceConfig<S>],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let place = |source: &SourceConfig<S>| {
        let fabric = source.fabric.as_ref().filter(|fabric| !fabric.listen.ends_with(":0"))?;
        Some((fabric.backend, fabric.listen.clone()))
    };
    for (index, source) in sources.iter().enumerate() {
        let Some(own) = place(source) else { continue };
        let earlier = sources[..index].iter().position(|other| place(other).as_ref() == Some(&own));
        if let Some(owner) = earlier {
            let cause = format!("{} is taken already by source[{owner}]", own.1);
            let path = format!("source[{index}].fabric.listen");
            return Err(document.problem(&path, cause, "choose another place".into()));
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
fn check_names<S: Table>(
    sources: &[SourceConfig<S>],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let names: Vec<_> = sources.iter().enumerate().map(name).collect();
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
fn name<S: Table>((index, source): (usize, &SourceConfig<S>)) -> String {
    match source.name.as_str() {
        "" => format!("source {}", index + 1),
        name => name.to_owned(),
    }
}

/// Refuses to record streams that come from nowhere.
fn check_raw_streams(
    settings: &Settings,
    sources: &[PlannedSource],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let listed = settings.recorder.raw_streams.listed();
    let known = |name: &String| {
        sources.iter().flat_map(|source| &source.streams).any(|stream| stream.name == *name)
    };
    let Some(stranger) = listed.iter().find(|stream| !known(stream)) else {
        return Ok(());
    };
    let cause = format!("stream {stranger} comes from no [[source]]");
    let suggestion = "list streams of the sources by their names, or write \"all\"";
    Err(document.problem("recorder.raw_streams", cause, suggestion.into()))
}

/// Refuses a list of processors that is not one for each receiving thread.
fn check_receive_cpus(
    settings: &Settings,
    sources: &[PlannedSource],
    document: &Document<'_>,
) -> Result<(), Problem> {
    let ReceiveCpus::Listed(cpus) = &settings.run.receive_cpus else { return Ok(()) };
    let threads: usize = sources.iter().map(PlannedSource::inputs).sum();
    if cpus.len() == threads || sources.is_empty() {
        return Ok(());
    }
    let cause = format!("{} are listed, and {threads} threads receive", cpus.len());
    let suggestion = "list one for each socket, or write \"auto\"";
    Err(document.problem("run.receive_cpus", cause, suggestion.into()))
}

/// Refuses streams that come from two sources, too many of them, and clocks of several rates.
fn check_streams(sources: &[SourceStreams], document: &Document<'_>) -> Result<(), Problem> {
    let mut all: Vec<StreamKey> = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let refused = |cause: String, suggestion: &str| {
            document.problem(&format!("source[{index}].streams"), cause, suggestion.into())
        };
        if source.rhythm.clock != sources[0].rhythm.clock {
            let cause = "the clock of these streams ticks at another rate than that of others";
            return Err(refused(cause.into(), "take them in a process of their own"));
        }
        for stream in &source.streams {
            if all.contains(&stream.key) {
                let cause = format!("stream {} comes from an earlier source already", stream.name);
                return Err(refused(cause, "let this source have other streams"));
            }
            all.push(stream.key);
        }
        if all.len() > STREAMS_MAX {
            let cause = format!("more than {STREAMS_MAX} streams");
            return Err(refused(cause, "share them out over several processes"));
        }
    }
    Ok(())
}

fn resolve_source<S: Table>(
    source: &SourceConfig<S>,
    streams: SourceStreams,
    index: usize,
    document: &Document<'_>,
) -> Result<PlannedSource, Problem> {
    let place = format!("source[{index}]");
    let input = input(source, &place, document)?;
    let cells = cells(source, &streams, &place, document)?;
    let name = name((index, source));
    let SourceStreams { lengths, rhythm, traffic, streams, spread } = streams;
    Ok(PlannedSource { name, input, lengths, rhythm, traffic, streams, spread, cells })
}

/// Where the frames come from; exactly one input must be given.
fn input<S: Table>(
    source: &SourceConfig<S>,
    place: &str,
    document: &Document<'_>,
) -> Result<SourceInput, Problem> {
    let refused = |input: &str, error: &dyn std::fmt::Display| {
        let suggestion = "see `gannet check --schema` for what is allowed";
        document.problem(&format!("{place}.{input}"), error.to_string(), suggestion.into())
    };
    let given = [
        ("udp", source.udp.is_some()),
        ("xdp", source.xdp.is_some()),
        ("roce", source.roce.is_some()),
        ("fabric", source.fabric.is_some()),
        ("capture", source.capture.is_some()),
        ("emulated", source.emulated),
    ];
    let mut given = given.into_iter().filter(|(_, is_given)| *is_given).map(|(key, _)| key);
    if let (Some(one), Some(other)) = (given.next(), given.next_back()) {
        return Err(document.problem(
            &format!("{place}.{other}"),
            format!("a source has one input, and `{one}` is given too"),
            "remove one of the two".into(),
        ));
    }
    match (&source.udp, &source.xdp, &source.roce, &source.fabric, &source.capture) {
        (Some(udp), ..) => {
            udp.check().map_err(|error| refused("udp", &error))?;
            Ok(SourceInput::Udp(udp.clone()))
        }
        (_, Some(xdp), ..) => {
            xdp.check().map_err(|error| refused("xdp", &error))?;
            Ok(SourceInput::Xdp(xdp.clone()))
        }
        (.., Some(roce), _, _) => {
            roce.check().map_err(|error| refused("roce", &error))?;
            Ok(SourceInput::Roce(roce.clone()))
        }
        (.., Some(fabric), _) => {
            fabric.check().map_err(|error| refused("fabric", &error))?;
            Ok(SourceInput::Fabric(fabric.clone()))
        }
        (.., Some(path)) => Ok(SourceInput::Capture(path.clone())),
        _ if source.emulated => Ok(SourceInput::Emulated),
        (None, None, None, None, None) => Err(document.problem(
            place,
            "it has no input".into(),
            "add `udp = { listen = [\"127.0.0.1:7000\"] }`, `capture = \"file.pcap\"` or \
             `emulated = true`"
                .into(),
        )),
    }
}

/// Frames of the past to keep.
fn cells<S: Table>(
    source: &SourceConfig<S>,
    streams: &SourceStreams,
    place: &str,
    document: &Document<'_>,
) -> Result<u64, Problem> {
    let count = streams.streams.len();
    let cells = cells_for(source.depth, &streams.traffic, count);
    let bytes = cells.saturating_mul(*streams.lengths.end() as u64);
    if bytes > source.buffer_max.bytes() {
        return Err(document.problem(
            &format!("{place}.depth"),
            format!(
                "{} of {count} streams need {} of memory, and buffer_max is {}",
                source.depth,
                Bytes(bytes >> 20 << 20),
                source.buffer_max
            ),
            "make depth shorter or buffer_max larger".into(),
        ));
    }
    Ok(cells)
}
