//! The configuration file as it is written.

use std::net::SocketAddr;
use std::path::PathBuf;

use gannet_dune::chain::TriggerConfig;
use gannet_dune::export::ExportFormat;
use gannet_dune::raw_file::Catalogue;
use gannet_dune::tpg::TpgConfig;
use gannet_ingest::udp::UdpConfig;
use gannet_ingest::xdp::XdpConfig;
use gannet_log::RecorderConfig;
use gannet_measure::quantity::{Bytes, Span};
use gannet_readout::record::BuildConfig;
use gannet_wire::TpcStreams;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::receive_cpus::ReceiveCpus;

/// The configuration of a Gannet process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The run.
    pub run: RunConfig,
    /// Where frames come from, one table each.
    #[serde(rename = "source")]
    pub sources: Vec<SourceConfig>,
    /// File with the DUNE channel map of the streams; a synthetic map when absent.
    pub channel_map: Option<PathBuf>,
    /// How trigger primitives are found.
    pub tpg: TpgConfig,
    /// How the trigger decides.
    pub trigger: TriggerConfig,
    /// How records are built and primitives are cut into slices.
    pub record: RecordConfig,
    /// Where and how records are written.
    pub recorder: RecorderConfig,
    /// Files for other people's tools.
    pub exports: ExportsConfig,
    /// Figures for a monitoring system.
    pub metrics: MetricsConfig,
    /// What is kept of the channels one by one.
    pub channels: ChannelsConfig,
    /// The front-end emulator that `gannet emulate` runs.
    pub emulate: gannet_emulate::tpc::Config,
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
#[serde(deny_unknown_fields, default)]
pub struct SourceConfig {
    /// Name in reports; `source N` when empty.
    pub name: String,
    /// The streams that come from here: format, number and place on the detector.
    pub streams: TpcStreams,
    /// Network sockets that frames come from.
    pub udp: Option<UdpConfig>,
    /// Queue of a network card that frames are taken from by AF_XDP, instead of sockets.
    pub xdp: Option<XdpConfig>,
    /// Capture file (pcap or pcapng) that frames come from, instead of the network.
    pub capture: Option<PathBuf>,
    /// How much of the past the latency buffer keeps, at the true rate of all streams.
    pub depth: Span,
    /// Most memory for that, over all sockets of the source.
    pub buffer_max: Bytes,
}

impl Default for SourceConfig {
    fn default() -> Self {
        Self {
            name: String::new(),
            streams: TpcStreams::default(),
            udp: None,
            xdp: None,
            capture: None,
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
    /// A capture file.
    Capture(PathBuf),
}

/// How records are built and primitives are cut into slices.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecordConfig {
    /// Number of the first stream as a source in files; the others follow it.
    pub source_id_first: u32,
    /// How requests for data are answered.
    pub request: BuildConfig,
    /// Length of a slice of trigger primitives, in ticks; 0 records no primitives.
    pub slice_ticks: u64,
}

impl Default for RecordConfig {
    fn default() -> Self {
        Self { source_id_first: 100, request: BuildConfig::default(), slice_ticks: 62_500_000 / 4 }
    }
}

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
