//! The configuration file as it is written.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gannet_fabric::clop::{Backend, FabricConfig};
use gannet_ingest::roce::RoceConfig;
use gannet_ingest::udp::UdpConfig;
use gannet_ingest::xdp::XdpConfig;
use gannet_log::RecorderConfig;
use gannet_measure::quantity::{Bytes, Span};
use gannet_readout::record::BuildConfig;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::builder::BuilderConfig;
use super::receive_cpus::ReceiveCpus;
use super::slow_control::SlowControlConfig;
use crate::alarm::rule::AlarmConfig;

/// A table of a configuration.
pub trait Table:
    Clone
    + fmt::Debug
    + Default
    + PartialEq
    + DeserializeOwned
    + Serialize
    + JsonSchema
    + Send
    + Sync
    + 'static
{
}

impl<T> Table for T where
    T: Clone
        + fmt::Debug
        + Default
        + PartialEq
        + DeserializeOwned
        + Serialize
        + JsonSchema
        + Send
        + Sync
        + 'static
{
}

/// Place of a stream in the crates of its front end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamPlace {
    /// Crate.
    pub crate_id: u16,
    /// Slot in the crate.
    pub slot: u16,
    /// Stream of the board in the slot.
    pub stream: u16,
}

/// The tables of a configuration that belong to its detector.
pub trait Tables: 'static {
    /// The key `streams` of a source: which streams come from there.
    type Streams: Table;
    /// The table `pipeline`. It has a key `detector`, a text, by which the detector was chosen.
    type Pipeline: Table;
    /// The table `emulate`.
    type Emulate: Table;

    /// The same kind of streams at these places, in the place of those that `streams` tells otherwise.
    fn at(streams: &Self::Streams, places: &[StreamPlace]) -> Self::Streams;
}

/// The configuration of a Gannet process for the detector with the tables `T`.
#[derive(Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
#[schemars(rename = "Config", bound = "")]
pub struct Config<T: Tables> {
    /// The run.
    pub run: RunConfig,
    /// Where frames come from, one table each.
    #[serde(rename = "source")]
    pub sources: Vec<SourceConfig<T::Streams>>,
    /// Which detector it is, and what becomes of its frames.
    pub pipeline: T::Pipeline,
    /// How requests for data are answered.
    pub record: BuildConfig,
    /// Where and how records are written.
    pub recorder: RecorderConfig,
    /// Commands to front-end modules.
    pub slow_control: SlowControlConfig,
    /// Where readout and builder meet, when they are two processes.
    pub builder: BuilderConfig,
    /// Figures for a monitoring system.
    pub metrics: MetricsConfig,
    /// Pages that show the run in a browser.
    pub web: WebConfig,
    /// Rules by which figures of the run raise alarms, one table each, beside those that are built in.
    #[serde(rename = "alarm")]
    pub alarms: Vec<AlarmConfig>,
    /// The front-end emulator that `gannet emulate` runs.
    pub emulate: T::Emulate,
}

impl<T: Tables> Config<T> {
    /// Makes relative paths that any configuration has start at `directory`.
    pub fn absolve_paths(&mut self, directory: &Path) {
        let absolve = |path: &mut PathBuf| *path = directory.join(&*path);
        self.metrics.token_file.iter_mut().for_each(absolve);
        self.web.token_file.iter_mut().for_each(absolve);
        self.web
            .tls
            .iter_mut()
            .flat_map(|tls| [&mut tls.certificate, &mut tls.key])
            .for_each(absolve);
        self.slow_control.socket.iter_mut().for_each(absolve);
        self.builder.secret_file.iter_mut().for_each(absolve);
        if self.builder.backend == Backend::Shm && !self.builder.listen.is_empty() {
            let socket = directory.join(&self.builder.listen);
            self.builder.listen = socket.to_string_lossy().into_owned();
        }
        for source in &mut self.sources {
            source.capture.iter_mut().chain(&mut source.links).for_each(absolve);
            if let Some(fabric) = &mut source.fabric {
                fabric.secret_file.iter_mut().for_each(absolve);
                if fabric.backend == Backend::Shm {
                    fabric.listen = directory.join(&fabric.listen).display().to_string();
                }
            }
        }
    }

    /// What does not belong to the detector.
    pub fn settings(&self) -> Settings {
        Settings {
            run: self.run.clone(),
            record: self.record.clone(),
            recorder: self.recorder.clone(),
            slow_control: self.slow_control.clone(),
            builder: self.builder.clone(),
            metrics: self.metrics.clone(),
            web: self.web.clone(),
            alarms: self.alarms.clone(),
        }
    }
}

impl<T: Tables> Default for Config<T> {
    fn default() -> Self {
        Self {
            run: RunConfig::default(),
            sources: Vec::new(),
            pipeline: T::Pipeline::default(),
            record: BuildConfig::default(),
            recorder: RecorderConfig::default(),
            slow_control: SlowControlConfig::default(),
            builder: BuilderConfig::default(),
            metrics: MetricsConfig::default(),
            web: WebConfig::default(),
            alarms: Vec::new(),
            emulate: T::Emulate::default(),
        }
    }
}

impl<T: Tables> Clone for Config<T> {
    fn clone(&self) -> Self {
        let Settings { run, record, recorder, slow_control, builder, metrics, web, alarms } =
            self.settings();
        let (sources, pipeline) = (self.sources.clone(), self.pipeline.clone());
        let emulate = self.emulate.clone();
        Self {
            run,
            sources,
            pipeline,
            record,
            recorder,
            slow_control,
            builder,
            metrics,
            web,
            alarms,
            emulate,
        }
    }
}

impl<T: Tables> fmt::Debug for Config<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("settings", &self.settings())
            .field("sources", &self.sources)
            .field("pipeline", &self.pipeline)
            .field("emulate", &self.emulate)
            .finish()
    }
}

/// What a configuration says that does not depend on the detector, but for the sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// The run.
    pub run: RunConfig,
    /// How requests for data are answered.
    pub record: BuildConfig,
    /// Where and how records are written.
    pub recorder: RecorderConfig,
    /// Commands to front-end modules.
    pub slow_control: SlowControlConfig,
    /// Where readout and builder meet, when they are two processes.
    pub builder: BuilderConfig,
    /// Figures for a monitoring system.
    pub metrics: MetricsConfig,
    /// Pages that show the run in a browser.
    pub web: WebConfig,
    /// Rules by which figures of the run raise alarms.
    pub alarms: Vec<AlarmConfig>,
}

/// The run.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RunConfig {
    /// Number of the run, in every record and file name. Absent: the next one that no run had which
    /// recorded into the same directory, counted in the file `.gannet_runs` there. A fixed number
    /// is for numbers that somebody else gives; every run has it then.
    pub number: Option<u32>,
    /// Name of the process in the files it writes.
    pub application: String,
    /// Stop by itself after this time; absent: run until stopped.
    pub duration: Option<Span>,
    /// Which processors the receiving threads keep to: `"any"`; `"auto"` for a physical core each,
    /// beside the card that has the address, if one is left for the other threads; or a list of
    /// numbers as in `/proc/cpuinfo`, one for each socket in the order of the sources.
    pub receive_cpus: ReceiveCpus,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            number: None,
            application: "gannet".into(),
            duration: None,
            receive_cpus: ReceiveCpus::Any,
        }
    }
}

/// A source of frames and the streams in it.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default, bound = "")]
pub struct SourceConfig<S: Table> {
    /// Name in reports; `source N` when empty.
    pub name: String,
    /// The streams that come from here.
    pub streams: S,
    /// File with a table of links, in the place of `name`, addresses and numbers of streams: one source
    /// for each name in it. Comma-separated, with a line of names: `name,address,crate,slot,stream`.
    pub links: Option<PathBuf>,
    /// Network sockets that frames come from.
    pub udp: Option<UdpConfig>,
    /// Queue of a network card that frames are taken from by AF_XDP, instead of sockets.
    pub xdp: Option<XdpConfig>,
    /// Window that front ends write frames into by RDMA (RoCEv2), without a card for it.
    pub roce: Option<RoceConfig>,
    /// Ring that one sender puts frames into, from another process of this host or over a network:
    /// `gannet emulate` and `gannet replay` do.
    pub fabric: Option<FabricConfig>,
    /// Capture file (pcap or pcapng) that frames come from, instead of the network.
    pub capture: Option<PathBuf>,
    /// Take the frames of the front end that `[emulate]` describes, which is played in the same process:
    /// without a network.
    pub emulated: bool,
    /// How much of the past the latency buffer keeps, at the true rate of all streams.
    pub depth: Span,
    /// Most memory for that, over all sockets of the source.
    pub buffer_max: Bytes,
}

impl<S: Table> Default for SourceConfig<S> {
    fn default() -> Self {
        Self {
            name: String::new(),
            streams: S::default(),
            links: None,
            udp: None,
            xdp: None,
            roce: None,
            fabric: None,
            capture: None,
            emulated: false,
            depth: Span::s(1),
            buffer_max: Bytes::mib(8 << 10),
        }
    }
}

/// Where the frames of a resolved source come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceInput {
    /// UDP sockets.
    Udp(UdpConfig),
    /// A queue of a network card.
    Xdp(XdpConfig),
    /// A window that front ends write into.
    Roce(RoceConfig),
    /// A ring that one sender puts frames into.
    Fabric(FabricConfig),
    /// A capture file.
    Capture(PathBuf),
    /// The emulated front end, in the same process.
    Emulated,
}

/// Figures for a monitoring system.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address of the HTTP server, for example `127.0.0.1:9180`; absent: none. Addresses other than
    /// loopback need a `token_file`, or `plain = true`.
    pub listen: Option<SocketAddr>,
    /// File with the token that clients have to send, as `Authorization: Bearer`. Nobody but its
    /// owner may have access to it.
    pub token_file: Option<PathBuf>,
    /// Serve whoever reaches the address, without a token.
    pub plain: bool,
}

/// Pages that show the run in a browser.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebConfig {
    /// Address at which pages are served, for example `127.0.0.1:8080`; absent: none. Who may see them knows the token
    /// in the address that is printed.
    pub listen: Option<SocketAddr>,
    /// File with tokens, a line for each: its role, which is `view`, `operate` or `admin`, and the token. A token alone in
    /// the file is that of an administrator. Nobody but its owner may have access to the file. Absent: the tokens in
    /// the variable `GANNET_WEB_TOKENS` of the environment, or else each start makes a new one for an administrator.
    pub token_file: Option<PathBuf>,
    /// Serve by TLS, which addresses other than loopback need.
    pub tls: Option<TlsConfig>,
    /// Serve addresses other than loopback although token and pages cross the network unencrypted.
    pub plain: bool,
    /// Most connections at a time, 1 to 1024; a browser has one or two of them. The last eighth is for addresses that have
    /// none yet.
    pub clients_max: usize,
    /// Take commands of pages and programs, such as to put faults into an emulated front end. Absent: the demonstration
    /// does, and `gannet run` does not.
    pub control: Option<bool>,
}

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            listen: None,
            token_file: None,
            tls: None,
            plain: false,
            clients_max: 64,
            control: None,
        }
    }
}

/// What proves to clients who serves them.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsConfig {
    /// File with the certificate of this server, and those it rests on behind it, as PEM.
    pub certificate: PathBuf,
    /// File with its private key, as PEM. Nobody but its owner may have access to it.
    pub key: PathBuf,
}

/// What is kept of the channels one by one: pedestal, noise, rate of primitives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ChannelsConfig {
    /// Whether a table of them, `*_channels.csv`, is written beside the log; `gannet channels`
    /// makes a mask of it.
    pub file: bool,
    /// Time after which the table is written anew while the run goes on; it is at its end too.
    pub file_every: Span,
    /// Whether the metrics tell of each channel: three series a channel. Without it they have
    /// figures of each stream, and of the channels with most primitives.
    pub metrics: bool,
}

impl Default for ChannelsConfig {
    fn default() -> Self {
        Self { file: true, file_every: Span::s(10), metrics: false }
    }
}
