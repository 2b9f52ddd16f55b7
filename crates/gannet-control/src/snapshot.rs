//! What a run looks like at one moment: the one form that display, metrics, reports and tests read.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use gannet_emulate::Truth;
use gannet_measure::histogram::{Histogram, Summary};
use gannet_measure::ledger::Statement;
use schemars::JsonSchema;
use serde::Serialize;

use crate::alarm::{Alarm, AlarmKind};
use crate::channels::{ChannelFigures, ChannelSummary};
use crate::config::Role;
use crate::run_control::State;
use crate::slow_control::{Counts, Outcome};

/// Most places named in one alarm.
const PLACES_MAX: usize = 4;

/// Where snapshots of a run come from.
pub type SnapshotSource = Arc<dyn Fn() -> Snapshot + Send + Sync>;

/// A run at one moment.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Snapshot {
    /// Number of this snapshot: later ones have higher numbers.
    pub number: u64,
    /// When it was made, in seconds on the clock of the run. Rates are the differences of two snapshots over those of
    /// this.
    pub clock_s: f64,
    /// Number of the run; zero in a readout, as the builder counts runs.
    pub run: u32,
    /// Which part of the run this process is.
    pub role: Role,
    /// State of the run.
    pub state: State,
    /// Whether anything was lost so far.
    pub degraded: bool,
    /// What the run could not go on without, in the state `error`.
    pub failure: Option<String>,
    /// What needs attention now.
    pub alarms: Vec<Alarm>,
    /// Since frames are taken, in seconds.
    pub elapsed_s: f64,
    /// Fraction of the processor time of the receiving threads that goes into the search for
    /// primitives.
    pub tpg_share: Option<f64>,
    /// Frames that the streams made and that were not taken, for whatever cause: the drops of the
    /// stage `sent`. If `frames_lost_max` is more, at least so many.
    pub frames_lost: u64,
    /// Frames lost at most: more if some stream has a `missing_max`, or if the kernel dropped datagrams,
    /// or a sender had no leave for frames, that no stream lacks, which may be frames that all streams
    /// lost at the end.
    pub frames_lost_max: u64,
    /// Each source.
    pub sources: Vec<SourceSnapshot>,
    /// Each stream, in the order of the sources.
    pub streams: Vec<StreamSnapshot>,
    /// Every stage from the network to the file, in the order of the data.
    pub ledger: Vec<Statement>,
    /// What goes from one of those stages to another.
    pub flows: Vec<Flow>,
    /// What of the run can be looked at beside its figures.
    pub shows: Shows,
    /// What the trigger did.
    pub trigger: TriggerSnapshot,
    /// What only this kind of detector has; in its place nothing is told of activities.
    pub specific: Vec<Figure>,
    /// What the front end made that was played in the same process, when it has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub front_end: Option<Truth>,
    /// What the recorder did.
    pub recorder: RecorderSnapshot,
    /// How long things took.
    pub latency: LatencySnapshot,
    /// Processor time of the thread that decides, in seconds.
    pub decide_cpu_s: f64,
    /// Commands to modules, where there are any.
    pub slow_control: Option<SlowControlSnapshot>,
    /// The channels one by one.
    pub channels: ChannelsSnapshot,
}

/// Commands to modules.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SlowControlSnapshot {
    /// Commands so far.
    pub commands: u64,
    /// Commands that modules acknowledged as applied.
    pub applied: u64,
    /// Commands that were refused, not acknowledged, or not sent for one before them.
    pub failed: u64,
    /// What came and what went.
    pub datagrams: Counts,
    /// The last command to each key of a module, where it was refused or not acknowledged.
    pub failures: Vec<Outcome>,
    /// Commands at stop that failed, in words, where the run requires them.
    pub failures_at_stop: Vec<String>,
}

/// What goes from one stage of the ledger to another.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Flow {
    /// Stage that passes it on.
    pub from: &'static str,
    /// Stage that takes it.
    pub to: &'static str,
    /// How full the buffer between the two is, as a fraction; absent where there is none that can overflow.
    pub fill: Option<f64>,
    /// How old it is when the second stage takes it, where that is measured.
    pub age: Option<Age>,
}

/// How old something is at some place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Age {
    /// What it is the time since, in a word or two.
    pub since: &'static str,
    /// 99 % are no older than this, in nanoseconds.
    pub p99_ns: u64,
}

impl Flow {
    /// What goes from one stage to another.
    pub fn new(from: &'static str, to: &'static str) -> Self {
        Self { from, to, fill: None, age: None }
    }

    /// The same, with the times since something that `times` has; nothing is said where it has none.
    pub fn aged(self, since: &'static str, times: &Summary) -> Self {
        Self { age: (times.count > 0).then_some(Age { since, p99_ns: times.p99 }), ..self }
    }
}

/// What of a run can be looked at beside its figures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Shows {
    /// The samples of its channels.
    pub samples: bool,
    /// Its primitives and decisions, one by one.
    pub decisions: bool,
}

/// A figure that only one kind of detector has.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Figure {
    /// What people call it.
    pub name: String,
    /// Its value.
    pub value: FigureValue,
    /// Whether it says what the run has come to, where there is place for few figures.
    pub headline: bool,
}

/// The value of a [`Figure`].
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FigureValue {
    /// So many.
    Count(u64),
    /// Times in nanoseconds.
    Ns(Times),
    /// So many of all.
    Share(Share),
    /// What would be, if what it assumes is so.
    Estimate(Estimate),
}

/// So many of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Share {
    /// So many.
    pub part: u64,
    /// Of so many.
    pub of: u64,
}

/// What would be, if what it assumes is so.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// What it assumes, in words.
    pub assumes: &'static str,
}

impl Figure {
    /// So many of something.
    pub fn count(name: impl Into<String>, count: u64) -> Self {
        Self::new(name, FigureValue::Count(count))
    }

    /// So many of all.
    pub fn share(name: impl Into<String>, part: u64, of: u64) -> Self {
        Self::new(name, FigureValue::Share(Share { part, of }))
    }

    /// A figure of this name.
    pub fn new(name: impl Into<String>, value: FigureValue) -> Self {
        Self { name: name.into(), value, headline: false }
    }

    /// The same as one of the few that say what the run has come to.
    pub fn headline(self) -> Self {
        Self { headline: true, ..self }
    }
}

/// How long something took, in nanoseconds.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Times {
    /// What people ask for first.
    #[serde(flatten)]
    pub summary: Summary,
    /// The largest time of each octave and how many were in it, from the first octave with any to the last.
    pub octaves: Vec<(u64, u64)>,
}

impl Times {
    /// What `histogram` holds.
    pub fn of(histogram: &Histogram) -> Self {
        Self { summary: histogram.summary(), octaves: histogram.octaves() }
    }
}

/// One source of frames.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SourceSnapshot {
    /// Name in the configuration.
    pub name: String,
    /// How packets are received, in words.
    pub engine: String,
    /// Whether a readout is there that takes it, where readouts are other processes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub has_readout: Option<bool>,
    /// Processor that its receiving thread keeps to, if it was given one.
    pub cpu: Option<usize>,
    /// Address at which its socket listens, if it has one.
    pub address: Option<SocketAddr>,
    /// Frames that arrived.
    pub frames: u64,
    /// Bytes of those frames.
    pub bytes: u64,
    /// Datagrams that the kernel dropped because the socket buffer was full; if `kernel_drops_max`
    /// is more, at least so many.
    pub kernel_drops: u64,
    /// Datagrams that it dropped at most, if they were frames: without `CAP_BPF` one drop may stand
    /// for several.
    pub kernel_drops_max: u64,
    /// How far the slowest reader of the ring is behind the newest frame, as a fraction of what the ring holds: windows that
    /// wait for data, what the trigger has not decided on yet, and frames to be recorded as they came. At 1 data are
    /// overwritten before they are read.
    pub buffer_fill: f64,
    /// Bytes of the ring.
    pub buffer_bytes: u64,
    /// Processor time of the receiving thread, in seconds.
    pub receive_cpu_s: f64,
    /// Part of that in which primitives were searched for, in seconds; estimated from one frame in
    /// 61.
    pub tpg_busy_s: f64,
    /// Time that the search of a frame takes, in nanoseconds.
    pub tpg_ns_per_frame: Option<f64>,
}

/// One stream.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StreamSnapshot {
    /// What people call it; of DUNE's `detector/crate/slot/stream`.
    pub name: String,
    /// Frames taken.
    pub frames: u64,
    /// Frames that never came, by its time stamps and, at the edges of the run, by those of the
    /// other streams. If `missing_max` is more, at least so many.
    pub missing: u64,
    /// Frames that never came, at most: more if frames with another time came in the place of some, which
    /// may be its own or somebody else's.
    pub missing_max: u64,
    /// Frames that came twice.
    pub duplicate: u64,
    /// Frames that came after a later one.
    pub late: u64,
    /// Frames off the grid of time stamps.
    pub out_of_step: u64,
    /// Frames taken that came from elsewhere while the stream went on where it was, as those of somebody who
    /// sends in its name.
    pub strange: u64,
    /// Frames whose sequence number disagreed with their time stamp.
    pub sequence_errors: u64,
    /// Times that the stream went on from another time.
    pub restarts: u64,
    /// Trigger primitives found.
    pub primitives: u64,
    /// Time stamp of the first frame, in ticks.
    pub first_timestamp: Option<u64>,
    /// Time stamp of the newest frame, in ticks.
    pub newest_timestamp: Option<u64>,
    /// Times that the stream fell silent.
    pub stalls: u64,
    /// Whether the stream is silent for longer than it may be.
    pub stalled: bool,
    /// Whether no readout is there for it, where readouts are other processes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub without_readout: bool,
    /// Whether its time is far from the time that most streams agree on, so that its primitives do
    /// not take part.
    pub set_apart: bool,
    /// By how much it is ahead of the agreed time, in seconds; negative when it is behind.
    pub time_offset_s: f64,
    /// Its channels together.
    pub channels: ChannelSummary,
}

/// The channels one by one, as of the last look at them; there is one a second and one at the end.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ChannelsSnapshot {
    /// Channels that make far more primitives than others of their plane.
    pub noisy: u64,
    /// Channels whose samples never change.
    pub dead: u64,
    /// Channels that the configuration masks.
    pub masked: u64,
    /// Those with the highest rates of primitives, the highest first, at most
    /// [`LOUDEST`](Self::LOUDEST).
    pub loudest: Vec<ChannelFigures>,
    /// The table of all channels.
    pub file: Option<PathBuf>,
    /// Why it could not be written the last time.
    pub trouble: Option<String>,
    /// All channels; none before the first look.
    #[serde(skip)]
    pub all: Arc<Vec<ChannelFigures>>,
    /// Whether metrics are to tell of all of them.
    #[serde(skip)]
    pub in_metrics: bool,
}

impl ChannelsSnapshot {
    /// Most channels that are ranked.
    pub const LOUDEST: usize = 10;
}

/// What the trigger did so far.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct TriggerSnapshot {
    /// Trigger primitives that came in.
    pub primitives: u64,
    /// Activities made of them.
    pub activities: u64,
    /// Candidates made of those.
    pub candidates: u64,
    /// Decisions taken.
    pub decisions: u64,
    /// Times that nothing was decided for a while, on command or by a fault that was put in.
    pub pauses: u64,
    /// Ticks during which no decision could be taken.
    pub dead_ticks: u64,
    /// Data time at which the trigger began, in ticks; later than `last_tick` if most clocks went back.
    pub first_tick: u64,
    /// Data time at which it is, in ticks.
    pub last_tick: u64,
    /// A recent primitive.
    pub latest_primitive: Option<PrimitiveSnapshot>,
}

/// A trigger primitive.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct PrimitiveSnapshot {
    /// Number of the channel.
    pub channel: u32,
    /// Start, in ticks.
    pub time_start: u64,
    /// Samples over threshold.
    pub samples_over_threshold: u16,
    /// Largest sample above the pedestal, in ADC counts.
    pub adc_peak: u16,
    /// Sum of the samples above the pedestal, in ADC counts.
    pub adc_integral: u32,
}

/// What the recorder did so far.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RecorderSnapshot {
    /// Trigger records that are safe in the log: they survive the end of this process.
    pub records: u64,
    /// Decisions without a record in the log.
    pub records_dropped: u64,
    /// Records that miss data of at least one stream, or of the trigger.
    pub incomplete: u64,
    /// Records that miss data which the run had: of a stream that never came, overwritten before they were asked for,
    /// or of a readout that was away.
    pub damaged: u64,
    /// Records of these that miss a stream because its readout was away, or did not answer in time.
    pub unreachable: u64,
    /// Trigger primitives that are safe in the log, in time slices.
    pub primitives: u64,
    /// Trigger primitives that should be there and are not.
    pub primitives_dropped: u64,
    /// Frames of streams that are recorded as they come, safe in the log.
    pub raw_frames: u64,
    /// Bytes of those frames.
    pub raw_bytes: u64,
    /// Frames of those streams that were dropped: overwritten before they were copied, or not
    /// written.
    pub raw_dropped: u64,
    /// Chunks of the log that are safe: they survive the end of this process.
    pub acknowledged: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Fraction of the queue in use.
    pub queue_fill: f64,
    /// Times that writing failed and had to be taken up again.
    pub outages: u64,
    /// Times that the disk did not answer for half a second or longer.
    pub silences: u64,
    /// Finished files, the last of them when there are very many.
    pub files: Vec<PathBuf>,
    /// Files that could not be finished; `gannet recover` looks at them.
    pub unfinished: Vec<PathBuf>,
    /// Exports of finished files that other people's tools read.
    pub exports: Vec<PathBuf>,
    /// Why exports of some file are not there.
    pub export_failures: Vec<String>,
    /// The list of all finished files with their digests, once it is begun.
    pub manifest: Option<PathBuf>,
    /// Why it cannot write at the moment.
    pub trouble: Option<String>,
    /// Which files were removed, replaced or truncated while they were written, and what is gone.
    pub losses: Vec<String>,
    /// Whether the end of the run was given up because the disk did not answer.
    pub stuck: bool,
}

/// How long things took, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct LatencySnapshot {
    /// From the arrival of a frame to its primitives.
    pub arrival_to_primitive: Summary,
    /// From the arrival of the frames in which a decision's first candidate lies to the decision;
    /// the waits that the trigger is configured to make are part of it.
    pub arrival_to_decision: Summary,
    /// From a decision to its finished record.
    pub decision_to_record: Summary,
}

impl Snapshot {
    /// What people call the process: `run 7`, or the part of a run that it is.
    pub fn title(&self) -> String {
        match self.role {
            Role::All => format!("run {}", self.run),
            Role::Readout => "readout".into(),
            Role::Builder => format!("builder of run {}", self.run),
        }
    }

    /// Frames that arrived at all sources.
    pub fn frames(&self) -> u64 {
        self.sources.iter().map(|source| source.frames).sum()
    }

    /// Bytes of those frames.
    pub fn bytes(&self) -> u64 {
        self.sources.iter().map(|source| source.bytes).sum()
    }

    /// Frames that were taken into a stream.
    pub fn frames_taken(&self) -> u64 {
        self.streams.iter().map(|stream| stream.frames).sum()
    }

    /// Time that the search of a frame takes, in nanoseconds, as a mean over the sources.
    pub fn tpg_ns_per_frame(&self) -> Option<f64> {
        let timed = || self.sources.iter().filter_map(|s| Some((s.frames, s.tpg_ns_per_frame?)));
        let frames: u64 = timed().map(|(frames, _)| frames).sum();
        let ns: f64 = timed().map(|(frames, ns)| frames as f64 * ns).sum();
        (frames > 0).then(|| ns / frames as f64)
    }

    /// Every condition that needs attention.
    pub(crate) fn alarms_now(&self) -> Vec<Alarm> {
        let recorder = &self.recorder;
        let mut alarms: Vec<_> = self.streams.iter().filter_map(silent).collect();
        alarms.extend(self.without_readout());
        alarms.extend(set_apart(self));
        alarms.extend(recorder.trouble.iter().map(|why| {
            Alarm::new(AlarmKind::Recorder, "the recorder", format!("cannot write: {why}"))
        }));
        alarms.extend(recorder.losses.iter().map(|what| Alarm {
            kind: AlarmKind::Recorder,
            subject: what.clone(),
            text: what.clone(),
        }));
        alarms.extend(recorder.export_failures.first().map(|why| {
            let what = format!("are missing: {why}");
            Alarm::new(AlarmKind::Exports, "exports", what + "; `gannet export` makes them later")
        }));
        alarms.extend(self.channels.trouble.iter().map(|why| {
            let what = format!("cannot be written: {why}");
            Alarm::new(AlarmKind::ChannelTable, "the table of channels", what)
        }));
        let failures = self.slow_control.iter().flat_map(|control| &control.failures);
        alarms.extend(failures.map(command_failed));
        alarms
    }

    /// The table of channels and the manifest, as far as they are there. The table is written anew until the run is over,
    /// and is not in the manifest before.
    pub fn tables(&self) -> impl Iterator<Item = &PathBuf> {
        let is_over = matches!(self.state, State::Stopped | State::Error);
        let table = self.channels.file.iter().filter(move |_| is_over);
        table.chain(&self.recorder.manifest)
    }

    /// Sources of which no readout has come yet, and those whose readout is gone.
    fn without_readout(&self) -> impl Iterator<Item = Alarm> {
        let alarm = |has_come: bool| {
            let is_meant = |source: &&SourceSnapshot| {
                source.has_readout == Some(false) && (source.frames > 0) == has_come
            };
            let sources = self.sources.iter().filter(is_meant);
            let names: Vec<_> = sources.map(|source| source.name.as_str()).collect();
            let is_due = self.state == State::Running && !names.is_empty();
            is_due.then(|| no_readout(&names, has_come))
        };
        [false, true].into_iter().filter_map(alarm)
    }

    /// A run that has ended without a frame: where it listened, what came instead, and what to check.
    pub(crate) fn no_frames(&self) -> Alarm {
        let sources = &self.sources;
        let places = sources.iter().take(PLACES_MAX).map(|source| {
            source.address.map_or_else(|| source.name.clone(), |address| address.to_string())
        });
        let mut text = format!("took no frame from {}", places.collect::<Vec<_>>().join(", "));
        if sources.len() > PLACES_MAX {
            text += &format!(" and {} more", sources.len() - PLACES_MAX);
        }
        let offered = self.ledger.iter().filter(|statement| statement.stage == "source");
        let has_sockets = sources.iter().any(|source| source.address.is_some());
        text += &match offered.map(|statement| statement.offered).sum() {
            _ if self.role == Role::Builder => {
                "; check that a readout runs for each source and can reach this builder, and what its \
                 own report says"
                    .into()
            }
            0_u64 if !has_sockets => {
                "; check that its sender runs, or that its file is not empty".into()
            }
            0_u64 => {
                "; check that the front ends send to this address and that no firewall is between \
                      (`tcpdump -n udp` shows what comes)"
                    .into()
            }
            offered => format!(
                "; {offered} datagrams came, none a frame of a configured stream: the ledger has the \
                 reasons, and `streams` in [[source]] must name what is sent"
            ),
        };
        Alarm::new(AlarmKind::NoFrames, "the run", text)
    }
}

fn command_failed(outcome: &Outcome) -> Alarm {
    Alarm {
        kind: AlarmKind::SlowControl,
        subject: format!("module {}: {}", outcome.module, outcome.key),
        text: format!("{outcome}; check the module, and set it anew by `gannet ctl`"),
    }
}

/// That no readout takes the sources with these names.
fn no_readout(names: &[&str], has_come: bool) -> Alarm {
    let sources = if names.len() == 1 { "source" } else { "sources" };
    let subject = format!("{sources} {}", names.join(", "));
    let what = if has_come { "no readout is left for" } else { "no readout has joined for" };
    let source = names.join(",");
    let text = format!(
        "{what} {subject}; start `gannet run --role readout --source {source:?}` where the frames come"
    );
    Alarm { kind: AlarmKind::NoReadout, subject, text }
}

fn silent(stream: &StreamSnapshot) -> Option<Alarm> {
    let what = match stream.frames {
        _ if !stream.stalled || stream.without_readout => return None,
        0 => "is silent: no frame has come".to_owned(),
        frames => format!("is silent: frames have stopped coming after {frames}"),
    };
    Some(Alarm::new(AlarmKind::StreamSilent, format!("stream {}", stream.name), what))
}

/// Streams whose time is wrong. One that is behind by no more than it can have been silent for is
/// silent, not wrong.
fn set_apart(snapshot: &Snapshot) -> impl Iterator<Item = Alarm> {
    let is_heard = |stream: &&StreamSnapshot| stream.frames > 0 && !stream.set_apart;
    let others = snapshot.streams.iter().filter(is_heard).filter(|stream| !stream.stalled).count();
    let explained = |stream: &StreamSnapshot| {
        let is_silent = stream.stalled || stream.without_readout;
        is_silent && (-snapshot.elapsed_s - 1.0..0.0).contains(&stream.time_offset_s)
    };
    let wrong = move |stream: &&StreamSnapshot| stream.set_apart && !explained(stream);
    snapshot.streams.iter().filter(wrong).map(move |stream| {
        let seconds = stream.time_offset_s.abs();
        let side = if stream.time_offset_s < 0.0 { "behind" } else { "ahead of" };
        let others = match others {
            0 => "the time that the streams agreed on".to_owned(),
            1 => "the other stream".to_owned(),
            others => format!("the other {others} streams"),
        };
        let what = format!("is set apart: its time is {seconds:.1} s {side} {others}");
        let subject = format!("stream {}", stream.name);
        Alarm::new(AlarmKind::StreamSetApart, subject, what + "; check its clock source")
    })
}
