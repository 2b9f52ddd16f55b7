//! Everything that a run needs, made in the order in which it is needed.

use std::convert::Infallible;
use std::fs;
use std::io::ErrorKind;
use std::iter::repeat;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gannet_fabric::clop;
use gannet_ingest::roce::RoceSource;
use gannet_ingest::udp;
use gannet_ingest::xdp::XdpSource;
use gannet_ingest::{Datagrams, Landing, MemorySource, PcapConfig, PcapSource, Source};
use gannet_log::files::{self, RunId};
use gannet_log::{Chunk, Kind, Label, Offer, RawStreams, Recorder, RunInfo};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::ledger::Account;
use gannet_readout::items::{self, ItemDrop, ItemReceiver, ItemSender};
use gannet_readout::latency::{IntakeLag, IntakeReader, IntakeWriter, StreamBuffer, index, intake};
use gannet_readout::receiver::{Receiver, StreamPool, StreamSetup, StreamStatus};
use gannet_readout::record::RecordBuilder;
use gannet_readout::remote::{BuilderEnd, ReadoutEnd, RemoteWindows};
use gannet_readout::trigger::Trigger;
use gannet_readout::windows::{BufferWindows, Windows};
use gannet_trigger::Finder;
use gannet_wire::FrameFormat;

use super::apart::{self, BuilderLink, Listening, Meeting, ReadoutLink, SourceNames};
use super::build::Builder;
use super::channels::{ChannelMonitor, ChannelStatus};
use super::decide::{AnswerSender, Decider, ORDERS_PER_DECISION, Outlet, Pauser, Stoppage};
use super::exports::Exporter;
use super::lag::{ObservedRing, RingReaders};
use super::life::spawn;
use super::observe::{Observed, ObservedReadouts, ObservedSource, ObservedStream};
use super::raw::RawRecorder;
use super::receive::{self, Gate, Waiting};
use super::recovery::Recovery;
use super::slow_control::{self, Link, Served, SlowControl};
use super::{Run, RunError, placement};
use crate::config::{Plan, PlannedSource, PlannedStream, Role, SourceInput};
use crate::detector::{Pipeline, Stages};
use crate::doctor::System;
use crate::emulation::{Faults, FrontEndTruth, TroubledDisk};
use crate::finds::finds;
use crate::remote::ControlSocket;
use crate::run_control::Event;
use crate::snapshot::Shows;
use crate::sys;
use crate::waveform::Waveforms;

/// What is found in the frames of a pipeline.
type ItemOf<P> = <<P as Pipeline>::Finder as Finder>::Item;
/// What parts of its records are.
type OriginOf<P> = <<P as Pipeline>::Trigger as Trigger>::Origin;
/// What takes its frames.
type ReceiverOf<P> = Receiver<<P as Pipeline>::Format, <P as Pipeline>::Finder>;
/// The streams of one of its sources.
type PoolOf<P> = Arc<StreamPool<<P as Pipeline>::Finder>>;

/// Longest time that a run waits for the disk to take its first file.
const FIRST_FILE_WITHIN: Duration = Duration::from_secs(5);

/// Sets up the run of `plan`, with the stages of `pipeline`; its threads wait until they may begin.
///
/// What takes time or may be refused comes first, then the ports, then files and threads: a run
/// that cannot be had leaves nothing behind, and the time between port and start is short.
pub(super) fn configure<P: Pipeline>(plan: &Plan, mut pipeline: P) -> Result<Run, RunError> {
    let plan = &of_role(plan);
    if plan.role != Role::All {
        pipeline.may_be_apart().map_err(|why| {
            RunError::Builder(format!("this detector cannot be two processes: {why}"))
        })?;
    }
    check_file_size_limit(plan)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut parts = Parts::<P>::new(
        plan.is_emulated().then(|| Arc::new(Faults::of(plan, P::Trigger::CAN_PAUSE))),
    );
    for (place, source) in plan.sources.iter().enumerate() {
        parts.add_source(plan, (place, source), &mut pipeline, &clock)?;
    }
    parts.place(plan)?;
    let flush_ns = if is_at_once(&pipeline) { 0 } else { items::FLUSH_NS };
    // As many batches as if they were found here; a builder fills them by one sender.
    let finding = if plan.role == Role::Builder { plan.sources.len() } else { parts.sources.len() };
    let (senders, found) = items::channel(finding, P::Finder::ITEMS_MAX, flush_ns);
    // Listed before the recorder makes a file of its own there. A directory that cannot be read is
    // the recorder's to report.
    let earlier = match plan.settings.recorder.enabled {
        true => gannet_log::unfinished_in(&plan.settings.recorder.directory).unwrap_or_default(),
        false => Vec::new(),
    };
    let slow_control = match plan.role {
        Role::Readout => None,
        Role::All | Role::Builder => link_to_modules(plan, &clock)?,
    };
    parts.apart = Apart::new::<P>(plan)?;
    let bound_ns = clock.now_ns();
    parts.bind()?;
    let to = pipeline.answering().and_then(|answering| answering.to);
    let answers = to.filter(|_| plan.role != Role::Readout).map(AnswerSender::connect);
    let answers = answers.transpose().map_err(RunError::Answers)?;
    let (plan, started_unix_ns) = &number(plan)?;
    let trigger = pipeline.trigger(plan.run_number(), host_epoch_ns(&*clock));
    let (trigger, stages) = trigger.map_err(RunError::Trigger)?;
    let deciding = Deciding { trigger, stages, answers };
    let recorder = start_recorder(plan, *started_unix_ns, parts.faults.as_deref())?;
    let start = pipeline.run_start(plan, *started_unix_ns);
    // The queue is empty: it takes the first chunk, or counts it as dropped.
    let _: Offer = recorder.handle().offer(Chunk::new(Label::new(Kind::RUN_START), start));
    let items = (senders, found);
    let mut run = launch(plan, clock, pipeline, parts, items, deciding, recorder)?;
    run.observed.life.mark_bound(bound_ns);
    if let Some((socket, link)) = slow_control {
        start_slow_control(plan, &mut run, socket, link)?;
    }
    run.recovery = Recovery::start(earlier)?;
    Ok(run)
}

/// The plan of a process with a part of a run.
fn of_role(plan: &Plan) -> Plan {
    let records = plan.records();
    let mut plan = plan.clone();
    let recorder = &mut plan.settings.recorder;
    recorder.enabled = records;
    if plan.role == Role::Builder {
        recorder.raw_streams = RawStreams::None;
    }
    plan
}

/// What joins this process to the other one of the run.
enum Apart {
    Nothing,
    Readout(Meeting),
    Builder(Meeting, Listening),
}

impl Apart {
    fn new<P: Pipeline>(plan: &Plan) -> Result<Self, RunError> {
        let meeting = || Meeting::new::<ItemOf<P>>(plan, P::Finder::ITEMS_MAX);
        Ok(match plan.role {
            Role::All => Self::Nothing,
            Role::Readout => Self::Readout(meeting()?.prepared()?),
            Role::Builder => Self::Builder(meeting()?, Listening::at(&plan.settings.builder)?),
        })
    }
}

/// The link to the modules of a run that has slow control, after the commands at configure, and the socket
/// for other processes.
fn link_to_modules(
    plan: &Plan,
    clock: &Arc<dyn Clock>,
) -> Result<Option<(ControlSocket, Link)>, RunError> {
    let config = &plan.slow_control;
    let Some(socket) = slow_control::control_socket(config, &plan.settings.recorder.directory)?
    else {
        return Ok(None);
    };
    let mut link = Link::open(config, Arc::clone(clock))?;
    let performed = link.perform(&config.configure);
    match slow_control::failures(config, &performed).filter(|_| config.required) {
        Some(why) => Err(RunError::SlowControl { when: "configure", why }),
        None => Ok(Some((socket, link))),
    }
}

/// Starts the thread of slow control.
fn start_slow_control(
    plan: &Plan,
    run: &mut Run,
    socket: ControlSocket,
    link: Link,
) -> Result<(), RunError> {
    let (gate, life) = (Arc::clone(&run.gate), Arc::clone(&run.observed.life));
    let stop = move || {
        life.on(Event::Stop);
        gate.stop.store(true, Ordering::Release);
    };
    let served =
        Served { socket, snapshot: super::snapshot_source(&run.observed), stop: Box::new(stop) };
    let life = &run.observed.life;
    let thread = SlowControl::start(plan.slow_control.clone(), link, served, life)?;
    // It is set once, here.
    let _: Result<(), _> = run.observed.slow_control.set(thread.status());
    run.slow_control = Some(thread);
    Ok(())
}

/// Whether answers are due so soon that the threads on their way do not sleep.
fn is_at_once<P: Pipeline>(pipeline: &P) -> bool {
    pipeline.answering().is_some_and(|answering| answering.at_once)
}

/// Whether there are processors for so many threads that spin, and one more for all others.
fn may_spin(threads: usize) -> bool {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    if processors <= threads {
        tracing::info!(processors, threads, "the threads on the way of answers sleep");
    }
    processors > threads
}

/// Refuses to record where no file may be as large as a log, and says how small files will be.
fn check_file_size_limit(plan: &Plan) -> Result<(), RunError> {
    let config = &plan.settings.recorder;
    let limit = gannet_log::file_size_limit();
    if config.enabled && config.required {
        gannet_log::check_file_size_limit(limit).map_err(RunError::NotRecorded)?;
    }
    if config.enabled && limit < config.file_size_max.bytes() {
        tracing::info!("files end before {limit} B, as `ulimit -f` has it");
    }
    Ok(())
}

/// The plan with the number of the run, and the time at which it begins in the names of its files, in
/// nanoseconds since 1970.
fn number(plan: &Plan) -> Result<(Plan, u64), RunError> {
    let now_unix_ns =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as u64);
    let wanted = plan.settings.run.number;
    let recorder = &plan.settings.recorder;
    let next = plan.after.map(|after| after.saturating_add(1));
    let uncounted = RunId { number: wanted.or(next).unwrap_or(0), started_unix_ns: now_unix_ns };
    let take = || match files::take_run(&recorder.directory, wanted, now_unix_ns) {
        // Somebody removed the counter meanwhile.
        Ok(id) if wanted.is_none() && next.is_some_and(|next| id.number < next) => {
            files::take_run(&recorder.directory, next, now_unix_ns)
        }
        taken => taken,
    };
    let id = match if recorder.enabled { take() } else { Ok(uncounted) } {
        Ok(id) => id,
        // Without a directory nothing is recorded, which the recorder says; there is nothing to count.
        Err(error)
            if wanted.is_some()
                || error.source.kind() == ErrorKind::NotFound
                || !recorder.required =>
        {
            tracing::warn!(%error, number = uncounted.number, "the run is not counted");
            uncounted
        }
        Err(error) => return Err(RunError::Number(error)),
    };
    let mut plan = plan.clone();
    plan.settings.run.number = Some(id.number);
    Ok((plan, id.started_unix_ns))
}

/// Nanoseconds since 1970 at which `clock` showed 0, by the clock of this host.
fn host_epoch_ns(clock: &dyn Clock) -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (since_1970.as_nanos() as u64).saturating_sub(clock.now_ns())
}

/// Sources and streams, as far as they are made.
struct Parts<P: Pipeline> {
    sources: Vec<PartSource<P>>,
    origins: Vec<OriginOf<P>>,
    buffers: Vec<StreamBuffer>,
    /// The same buffers, for those who look on.
    views: Vec<StreamBuffer>,
    observed: Vec<ObservedStream>,
    /// Streams that are recorded as they come.
    raw: Vec<(P::Format, IntakeReader)>,
    /// How far whoever records them is behind, by the place of the stream.
    raw_lags: Vec<(usize, IntakeLag)>,
    /// What the front end made that is played in this process.
    front_end: FrontEndTruth,
    /// What puts faults into a run whose front end is emulated.
    faults: Option<Arc<Faults>>,
    /// What joins this process to the other one of the run.
    apart: Apart,
}

/// A socket or file, not yet joined to its thread.
struct PartSource<P: Pipeline> {
    name: String,
    format: P::Format,
    source: Box<dyn Source>,
    pool: PoolOf<P>,
    /// Whether it is the first of its pool.
    watcher: bool,
    /// Processor that its thread keeps to.
    cpu: Option<usize>,
    ring: ObservedRing,
}

impl<P: Pipeline> Parts<P> {
    fn new(faults: Option<Arc<Faults>>) -> Self {
        Self {
            sources: Vec::new(),
            origins: Vec::new(),
            buffers: Vec::new(),
            views: Vec::new(),
            observed: Vec::new(),
            raw: Vec::new(),
            raw_lags: Vec::new(),
            front_end: FrontEndTruth::default(),
            faults,
            apart: Apart::Nothing,
        }
    }

    fn add_source(
        &mut self,
        plan: &Plan,
        (place, planned): (usize, &PlannedSource),
        pipeline: &mut P,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), RunError> {
        let first = self.origins.len();
        let numbers = first..first + planned.streams.len();
        self.origins.extend(numbers.clone().map(|number| pipeline.origin(number)));
        let streams = numbers.zip(&planned.streams);
        if plan.role == Role::Builder {
            streams.for_each(|stream| _ = self.observe_stream(planned, stream));
            return Ok(());
        }
        if !plan.takes(planned) {
            return Ok(());
        }
        let format = pipeline.format(place);
        let first = self.observed.len();
        let setups = streams
            .map(|stream| self.add_stream(plan, planned, stream, &format, pipeline))
            .collect::<Result<_, _>>()?;
        let pool = Arc::new(StreamPool::new(setups));
        let datagrams = match (&planned.input, &self.faults) {
            (SourceInput::Emulated, Some(faults)) => {
                let truth = Arc::clone(&self.front_end);
                Some(plan.detector.front_end()?.in_process(truth, faults.switch())?)
            }
            _ => None,
        };
        let opened = open(planned, datagrams, clock)
            .map_err(|cause| RunError::Source { source_name: planned.name.clone(), cause })?;
        for (index, (source, name)) in opened.into_iter().zip(planned.receivers()).enumerate() {
            self.sources.push(PartSource {
                name,
                format: format.clone(),
                source,
                pool: Arc::clone(&pool),
                watcher: index == 0,
                cpu: None,
                ring: ObservedRing {
                    streams: first..self.observed.len(),
                    depth_ticks: planned.depth_ticks(),
                },
            });
        }
        Ok(())
    }

    /// Gives every receiving thread its processor, if it is to have one.
    fn place(&mut self, plan: &Plan) -> Result<(), RunError> {
        if self.sources.is_empty() {
            return Ok(());
        }
        let own = || plan.sources.iter().filter(|source| plan.takes(source));
        let listen: Vec<_> = own().flat_map(PlannedSource::listen).collect();
        let (wanted, system) = (&plan.receive_cpus(), System::default());
        let (allowed, interfaces) = (sys::allowed_cpus(), gannet_ingest::interface_addresses());
        let placement = placement::place(wanted, &listen, &system, &allowed, &interfaces);
        let placed = self.sources.iter_mut().zip(placement.map_err(RunError::Cpus)?);
        placed.for_each(|(part, cpu)| part.cpu = cpu);
        Ok(())
    }

    /// Gives every socket its port.
    fn bind(&mut self) -> Result<(), RunError> {
        self.sources.iter_mut().try_for_each(|part| {
            let source_name = || part.name.clone();
            part.source
                .bind()
                .map_err(|cause| RunError::Source { source_name: source_name(), cause })
        })
    }

    fn add_stream(
        &mut self,
        plan: &Plan,
        planned: &PlannedSource,
        (number, stream): (usize, &PlannedStream),
        format: &P::Format,
        pipeline: &mut P,
    ) -> Result<StreamSetup<P::Finder>, RunError> {
        let finder = pipeline.finder(number);
        let finder =
            finder.map_err(|cause| RunError::Finder { stream: stream.name.clone(), cause })?;
        let (writer, [buffer, view]) = index(planned.index_frames(), planned.rhythm.step);
        let is_one_length = planned.lengths.start() == planned.lengths.end();
        let buffer = if is_one_length { buffer } else { buffer.with_lengths() };
        self.buffers.push(buffer);
        self.views.push(view);
        let status = self.observe_stream(planned, (number, stream));
        let raw = plan.settings.recorder.raw_streams.contains(&stream.name);
        let intake = raw.then(|| self.add_raw(format.clone(), planned.index_frames()));
        Ok(StreamSetup {
            key: stream.key,
            number: number as u32,
            rhythm: planned.rhythm,
            frame_len_max: *planned.lengths.end(),
            index: writer,
            intake,
            finder,
            status,
        })
    }

    /// Takes note of a stream, and gives where its figures are to be told.
    fn observe_stream(
        &mut self,
        planned: &PlannedSource,
        (number, stream): (usize, &PlannedStream),
    ) -> Arc<StreamStatus> {
        let status = Arc::<StreamStatus>::default();
        self.observed.push(ObservedStream {
            number,
            name: stream.name.clone(),
            status: Arc::clone(&status),
            rhythm: planned.rhythm,
            is_live: !matches!(planned.input, SourceInput::Capture(_)),
        });
        status
    }

    /// Lets the last stream, which keeps `frames` frames, be recorded as it comes.
    fn add_raw(&mut self, format: P::Format, frames: usize) -> IntakeWriter {
        let (writer, reader) = intake(frames);
        self.raw_lags.push((self.observed.len() - 1, reader.lag()));
        self.raw.push((format, reader));
        writer
    }
}

/// Opens every socket of a source, UDP sockets yet without a port, or its file; `datagrams` are those of a
/// front end in this process.
fn open(
    planned: &PlannedSource,
    datagrams: Option<Box<dyn Datagrams>>,
    clock: &Arc<dyn Clock>,
) -> Result<Vec<Box<dyn Source>>, gannet_ingest::Error> {
    let landing = |sockets: usize| Landing {
        lengths: planned.lengths.clone(),
        cells: planned.cells.div_ceil(sockets as u64),
    };
    match &planned.input {
        SourceInput::Udp(config) => {
            let sockets = config.listen.len() * config.sockets as usize;
            let sources = udp::prepare(config, landing(sockets), planned.spread.as_ref(), clock)?;
            Ok(sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect())
        }
        SourceInput::Xdp(config) => {
            Ok(vec![Box::new(XdpSource::open(config, landing(1), Arc::clone(clock))?)])
        }
        SourceInput::Roce(config) => {
            Ok(vec![Box::new(RoceSource::open(config, landing(1), clock)?)])
        }
        SourceInput::Fabric(config) => Ok(vec![clop::open(config, landing(1), clock)?]),
        SourceInput::Capture(path) => {
            let config = PcapConfig {
                path: path.clone(),
                ports: Vec::new(),
                allow: Vec::new(),
                verify_checksums: false,
            };
            Ok(vec![Box::new(PcapSource::open(&config, landing(1), Arc::clone(clock))?)])
        }
        SourceInput::Emulated => datagrams
            .into_iter()
            .map(|datagrams| {
                let source = MemorySource::new(landing(1), Arc::clone(clock), datagrams)?;
                Ok(Box::new(source) as Box<dyn Source>)
            })
            .collect(),
    }
}

/// What the recorder writes into every file.
fn run_info(plan: &Plan, started_unix_ns: u64) -> RunInfo {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    RunInfo {
        run: plan.run_number(),
        application: format!("{} {}", plan.settings.run.application, env!("CARGO_PKG_VERSION")),
        host: host.trim().to_owned(),
        config_digest: gannet_log::digest(&plan.text),
        ticks_hz: plan.clock().per_s(),
        started_unix_ns,
    }
}

/// Starts to record, unless the run is to go without. What can record nothing is refused, unless that
/// is allowed.
fn start_recorder(
    plan: &Plan,
    started_unix_ns: u64,
    faults: Option<&Faults>,
) -> Result<Recorder, RunError> {
    let config = &plan.settings.recorder;
    if !config.enabled {
        return Ok(Recorder::off());
    }
    let (config, info) = (config.clone(), run_info(plan, started_unix_ns));
    let recorder = match faults {
        Some(faults) => {
            let disk = Arc::new(TroubledDisk::new(faults.switch()));
            Recorder::start_on(disk, config, info)?
        }
        None => Recorder::start(config, info)?,
    };
    match recorder.wait_for_first_file(FIRST_FILE_WITHIN) {
        Err(error) if plan.settings.recorder.required => Err(RunError::NotRecorded(error)),
        _ => Ok(recorder),
    }
}

/// What decides, what can be seen of it, and where its answers leave.
struct Deciding<P: Pipeline> {
    trigger: P::Trigger,
    stages: Arc<dyn Stages>,
    answers: Option<AnswerSender>,
}

/// Joins the parts to threads.
fn launch<P: Pipeline>(
    plan: &Plan,
    clock: Arc<dyn Clock>,
    mut pipeline: P,
    parts: Parts<P>,
    (mut senders, found): (Vec<ItemSender<ItemOf<P>>>, ItemReceiver<ItemOf<P>>),
    Deciding { trigger, stages, answers }: Deciding<P>,
    recorder: Recorder,
) -> Result<Run, RunError> {
    let at_once = is_at_once(&pipeline);
    let workers = pipeline.workers();
    let spins = at_once && may_spin(parts.sources.len() + 1 + workers.len());
    let waiting = match (at_once, spins) {
        (_, true) => Waiting::Spins,
        (true, false) => Waiting::Gathers,
        (false, false) => Waiting::Sleeps,
    };
    let in_flight_max = pipeline.records_in_flight_max();
    let statuses: Vec<_> = parts.observed.iter().map(|stream| Arc::clone(&stream.status)).collect();
    let window_ticks_max = plan.settings.record.window_ticks_max;
    let windows = BufferWindows::new(window_ticks_max, parts.buffers);
    let readers = RingReaders { oldest_window: windows.oldest(), raw: parts.raw_lags };
    let names = parts.observed.iter().map(|stream| stream.name.clone());
    let views: Vec<_> = names.zip(parts.views).collect();
    let samples = pipeline.samples().filter(|_| !views.is_empty());
    let waveforms = samples.map(|samples| Arc::new(Waveforms::new(samples, views)));
    let looks = pipeline.looks().filter(|_| plan.role != Role::Readout);
    let (windows, end): (Box<dyn Windows>, End<P>) = match parts.apart {
        Apart::Nothing => (Box::new(windows), End::Decides(found)),
        Apart::Readout(meeting) => {
            let numbers = parts.observed.iter().map(|stream| stream.number as u32).collect();
            let known_by = (apart::digest(plan), apart::epoch());
            let end = ReadoutEnd::new(known_by, numbers, found, statuses.clone(), windows);
            let none = BufferWindows::new(window_ticks_max, Vec::new());
            (Box::new(none), End::Readout(meeting, end))
        }
        Apart::Builder(meeting, listening) => {
            let (windows, orders) = RemoteWindows::new(statuses.len(), meeting.deadline());
            let (sender, items_max) = (senders.remove(0), P::Finder::ITEMS_MAX);
            let streams = parts.observed.iter().map(|it| (Arc::clone(&it.status), it.rhythm.step));
            let (welcoming, items) = (meeting.welcoming(plan), sender.account());
            let end = BuilderEnd::new(welcoming, sender, items_max, streams, orders);
            (Box::new(windows), End::Builder { meeting, listening, end, found, items })
        }
    };
    let record = plan.settings.record.clone();
    let records = RecordBuilder::new(record, in_flight_max, parts.origins, windows);
    let (built, arrival_to_decision_ns) = (Arc::default(), Arc::default());
    let (orders, ordered) = sync_channel(in_flight_max * ORDERS_PER_DECISION);
    let (receivers, sources): (Vec<_>, Vec<_>) = parts
        .sources
        .into_iter()
        .zip(senders)
        .map(|(source, sender)| join(source, sender, &clock))
        .unzip();
    let (receiving, at_work) = channel();
    let raw = RawRecorder::new(parts.raw, recorder.handle(), Arc::clone(&clock), at_work);
    let times = Arc::clone(stages.times());
    let source_names = Arc::new(SourceNames::of(plan));
    let observed = Arc::new(Observed {
        run: AtomicU32::new(plan.run_number()),
        role: plan.role,
        snapshots: Default::default(),
        clock: Arc::clone(&clock),
        sources,
        channels: Arc::new(ChannelStatus::new(parts.observed.len())),
        slow_control: Default::default(),
        streams: parts.observed,
        stages,
        shows: Shows { samples: waveforms.is_some(), decisions: looks.is_some() },
        arrival_to_decision_ns: Arc::clone(&arrival_to_decision_ns),
        records: records.account(),
        response_ns: records.response_ns(),
        built: Arc::clone(&built),
        readers,
        readouts: match &end {
            End::Builder { items, end, .. } => Some(ObservedReadouts {
                place: plan.settings.builder.to_string(),
                items: Arc::clone(items),
                frame_bytes: plan.sources.iter().map(frame_bytes).collect(),
                sources: Arc::clone(&source_names),
                presence: end.presence(),
            }),
            End::Decides(_) | End::Readout(..) => None,
        },
        link: match &end {
            End::Readout(_, end) => Some(end.accounts()),
            End::Decides(_) | End::Builder { .. } => None,
        },
        answers: answers.as_ref().map(AnswerSender::account),
        raw: raw.account(),
        raw_bytes: raw.bytes(),
        front_end: parts.front_end,
        recorder: recorder.handle(),
        exports: Arc::default(),
        life: Default::default(),
        drain: Default::default(),
        alarm_log: Default::default(),
        decide_cpu_ns: Arc::default(),
        pauses: Arc::default(),
    });
    let builder = Builder {
        records,
        streams: statuses,
        times,
        recorder: recorder.handle(),
        clock: Arc::clone(&clock),
        status: Arc::clone(&built),
    };
    let (writer, looked_at) =
        looks.map(|looks| finds(looks, Arc::clone(&clock), plan.clock().per_s())).unzip();
    let outlet = Outlet::new(observed.recorder.clone());
    let pauser = Pauser::default();
    let decider = Decider {
        trigger,
        outlet,
        answers,
        finds: writer,
        at_once,
        spins,
        pauser: pauser.clone(),
        stoppage: Stoppage::new(parts.faults.as_ref().map(|faults| faults.switch())),
        pauses: Arc::clone(&observed.pauses),
        life: Arc::clone(&observed.life),
        orders,
        clock,
        built,
        arrival_to_decision_ns,
        cpu_ns: Arc::clone(&observed.decide_cpu_ns),
    };
    let (started, starts) = channel();
    let mut run = Run::new(Arc::clone(&observed), starts, recorder);
    run.waveforms = waveforms;
    run.finds = looked_at.map(Arc::new);
    run.faults = parts.faults;
    run.pauser = (P::Trigger::CAN_PAUSE && plan.role != Role::Readout).then_some(pauser);
    let gate = Arc::clone(&run.gate);
    let decide = |run: &mut Run, found: ItemReceiver<ItemOf<P>>| -> Result<(), RunError> {
        run.threads.push(spawn("build", &observed.life, move || builder.run(&ordered))?);
        for worker in workers {
            run.threads.push(spawn("work", &observed.life, move || worker(spins))?);
        }
        run.threads.push(spawn("decide", &observed.life, move || decider.run(&found))?);
        Ok(())
    };
    let shared = |run: &mut Run| apart::Shared {
        clock: Arc::clone(&observed.clock),
        gate: Arc::clone(&run.gate),
        life: Arc::clone(&observed.life),
        drain: Arc::clone(&observed.drain),
        joined: Arc::clone(run.joined.get_or_insert_default()),
    };
    let at_work = if matches!(end, End::Builder { .. }) { 1 } else { receivers.len() };
    gate.at_work.store(at_work, Ordering::Release);
    match end {
        End::Decides(found) => decide(&mut run, found)?,
        End::Readout(meeting, end) => {
            let joined = Arc::clone(&observed);
            let numbered = move |number| joined.belong_to(number);
            let link = ReadoutLink { meeting, end, shared: shared(&mut run), numbered };
            run.threads.push(spawn("link", &observed.life, move || link.run())?);
        }
        End::Builder { meeting, listening, end, found, .. } => {
            decide(&mut run, found)?;
            let shared = shared(&mut run);
            let link = BuilderLink { meeting, end, sources: source_names, shared };
            run.threads.push(spawn("link", &observed.life, move || link.run(&listening))?);
        }
    }
    if observed.raw.is_some() {
        run.threads.push(spawn("raw", &observed.life, move || raw.run())?);
    }
    let receivers = receivers.into_iter().zip(repeat(receiving)).enumerate();
    for (place, ((pool, receiver), receiving)) in receivers {
        if let Some(pool) = pool {
            run.expect.push(Box::new(move |now_ns| pool.begin(now_ns)));
        }
        run.receivers
            .push(receive_on(receiver, place, &gate, &started, &observed, waiting, receiving)?);
    }
    if let Some((survey, config)) = pipeline.survey() {
        run.channels = Some(ChannelMonitor::start(
            survey,
            config,
            &observed.channels,
            &observed.recorder,
            &observed.life,
        )?);
    }
    let (export, manifest) = (pipeline.export(), pipeline.manifest());
    if export.is_some() || manifest {
        run.exports = Some(Exporter::start(
            export,
            manifest,
            (&observed.exports, &observed.channels),
            &observed.recorder,
            &observed.life,
        )?);
    }
    Ok(run)
}

/// Bytes of a frame of a source, if all have as many.
fn frame_bytes(source: &PlannedSource) -> Option<usize> {
    let longest = *source.lengths.end();
    (*source.lengths.start() == longest).then_some(longest)
}

/// Where the items go that are found in this process or come to it.
enum End<P: Pipeline> {
    /// To the trigger.
    Decides(ItemReceiver<ItemOf<P>>),
    /// To the builder.
    Readout(Meeting, ReadoutEnd<ItemOf<P>>),
    /// From readouts to the trigger.
    Builder {
        meeting: Meeting,
        listening: Listening,
        end: BuilderEnd<ItemOf<P>>,
        found: ItemReceiver<ItemOf<P>>,
        items: Arc<Account<ItemDrop>>,
    },
}

/// A receiver, with the pool of streams that it is the first to share.
type Joined<P> = (Option<PoolOf<P>>, ReceiverOf<P>);

/// A source with its receiver.
fn join<P: Pipeline>(
    part: PartSource<P>,
    sender: ItemSender<ItemOf<P>>,
    clock: &Arc<dyn Clock>,
) -> (Joined<P>, ObservedSource) {
    let PartSource { name, format, source, pool, watcher, cpu, ring } = part;
    let landed = source.landed();
    let (facts, account) = (landed.facts().clone(), landed.account());
    let (counters, primitives) = (landed.counters(), sender.account());
    let kept = watcher.then(|| Arc::clone(&pool));
    let receiver = Receiver::new(format, source, pool, watcher, sender, Arc::clone(clock));
    let observed = ObservedSource {
        name,
        facts,
        cpu,
        account,
        counters,
        frames: receiver.account(),
        primitives,
        arrival_to_primitive_ns: receiver.arrival_to_primitive_ns(),
        search_time: receiver.search_time(),
        receive_cpu_ns: Arc::default(),
        ring,
    };
    ((kept, receiver), observed)
}

/// Starts the thread of the receiver of source `place`.
fn receive_on<T: FrameFormat, F: Finder>(
    receiver: Receiver<T, F>,
    place: usize,
    gate: &Arc<Gate>,
    started: &Sender<Result<(), gannet_ingest::Error>>,
    observed: &Arc<Observed>,
    waiting: Waiting,
    receiving: Sender<Infallible>,
) -> Result<JoinHandle<()>, RunError> {
    let (gate, started) = (Arc::clone(gate), started.clone());
    let (life, clock) = (Arc::clone(&observed.life), Arc::clone(&observed.clock));
    let cpu_ns = Arc::clone(&observed.sources[place].receive_cpu_ns);
    let cpu = observed.sources[place].cpu;
    spawn("receive", &observed.life, move || {
        if let Some(Err(error)) = cpu.map(sys::keep_to) {
            tracing::warn!(%error, cpu, "a receiving thread cannot keep to its processor");
        }
        receive::run(receiver, &gate, &started, &cpu_ns, waiting, &life, &*clock);
        drop(receiving);
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::parse;
    use crate::run_control::State;

    #[test]
    fn a_thread_that_panics_fails_the_run_which_still_drains() {
        let directory = tempfile::tempdir().unwrap();
        let text = "[[source]]\nstreams = { count = 1 }\ndepth = \"10 ms\"\n\
                    udp = { listen = [\"127.0.0.1:0\"] }\n";
        let mut plan = parse(text).unwrap();
        plan.settings.recorder.directory = directory.path().into();
        let run = Run::configure(&plan).unwrap();
        run.start().unwrap();
        assert_eq!(run.snapshot().state, State::Running);
        let thread = spawn("odd", &run.observed.life, || panic!("on purpose")).unwrap();
        assert!(thread.join().is_err());
        assert_eq!(run.snapshot().state, State::Error);
        let last = run.drain();
        assert_eq!(last.state, State::Error);
        let failure = last.failure.unwrap();
        assert!(failure.contains("\"odd\" stopped on an internal error"), "{failure}");
    }
}
