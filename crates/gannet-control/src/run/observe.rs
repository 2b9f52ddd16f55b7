//! What the threads of a run share with whoever watches it.

use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gannet_ingest::{Counters, Facts, SourceDrop};
use gannet_log::{Item, RecorderHandle, Status};
use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;
use gannet_measure::histogram::Histogram;
use gannet_measure::ledger::{Account, Reason, Statement};
use gannet_readout::items::ItemDrop;
use gannet_readout::raw_stream::RawDrop;
use gannet_readout::receiver::{FrameDrop, SearchTime, StreamStatus};
use gannet_readout::record::RecordDrop;
use gannet_readout::remote::{Accounts, Presence};
use gannet_trigger::merge::StreamTime;
use gannet_wire::Rhythm;
use gannet_wire::Step;

use super::apart::SourceNames;
use super::build::BuildStatus;
use super::channels::ChannelStatus;
use super::decide::AnswerAccount;
use super::drain::DrainState;
use super::exports::ExportStatus;
use super::flows;
use super::frames::{Edges, FrameAccount, Missing, StreamSpan, lost_unseen};
use super::lag::{ObservedRing, RingReaders};
use super::life::Life;
use super::recorded;
use super::slow_control::SlowControlStatus;
use crate::alarm::AlarmLog;
use crate::channels::ChannelSummary;
use crate::config::Role;
use crate::detector::Stages;
use crate::drops;
use crate::emulation::FrontEndTruth;
use crate::snapshot::{
    LatencySnapshot, RecorderSnapshot, Shows, Snapshot, SourceSnapshot, StreamSnapshot,
    TriggerSnapshot,
};

/// Longest message that the kernel makes of datagrams, in bytes.
const MESSAGE_LEN_MAX: usize = 65_535;

/// One source at work.
pub(super) struct ObservedSource {
    pub name: String,
    pub facts: Facts,
    /// Processor that its receiving thread keeps to.
    pub cpu: Option<usize>,
    pub account: Arc<Account<SourceDrop>>,
    pub counters: Arc<Counters>,
    pub frames: Arc<Account<FrameDrop>>,
    pub primitives: Arc<Account<ItemDrop>>,
    pub arrival_to_primitive_ns: Arc<Histogram>,
    pub search_time: Arc<SearchTime>,
    /// Processor time of the receiving thread.
    pub receive_cpu_ns: Arc<Counter>,
    pub ring: ObservedRing,
}

/// Readouts in other processes, which have the sources.
pub(super) struct ObservedReadouts {
    /// What joins them to this one, and where.
    pub place: String,
    /// Items that they find.
    pub items: Arc<Account<ItemDrop>>,
    /// Their sources.
    pub sources: Arc<SourceNames>,
    /// Bytes of a frame of each source, where all of it have as many.
    pub frame_bytes: Vec<Option<usize>>,
    /// Which streams have a readout.
    pub presence: Arc<Presence>,
}

/// One stream at work.
pub(super) struct ObservedStream {
    /// Its number in the whole run.
    pub number: usize,
    pub name: String,
    pub status: Arc<StreamStatus>,
    pub rhythm: Rhythm,
    /// Whether its frames come as they are made: a file has no edges that streams could agree on.
    pub is_live: bool,
}

/// Everything that can be seen of a run.
pub(super) struct Observed {
    pub run: AtomicU32,
    pub role: Role,
    /// Snapshots so far.
    pub snapshots: AtomicU64,
    pub clock: Arc<dyn Clock>,
    pub sources: Vec<ObservedSource>,
    pub streams: Vec<ObservedStream>,
    /// What the detector makes of frames.
    pub stages: Arc<dyn Stages>,
    /// What can be looked at.
    pub shows: Shows,
    /// From the arrival of the frames in which a decision's first candidate lies to the decision,
    /// in nanoseconds.
    pub arrival_to_decision_ns: Arc<Histogram>,
    /// Processor time of the deciding thread.
    pub decide_cpu_ns: Arc<Counter>,
    /// Times that nothing was decided for a while.
    pub pauses: Arc<Counter>,
    pub records: Arc<Account<RecordDrop>>,
    pub response_ns: Arc<Histogram>,
    /// The readouts, if these are other processes.
    pub readouts: Option<ObservedReadouts>,
    /// What is sent to another process that decides and builds.
    pub link: Option<Accounts>,
    /// Answers, where somebody waits for them.
    pub answers: Option<Arc<AnswerAccount>>,
    pub built: Arc<BuildStatus>,
    /// Who reads the rings of the sources.
    pub readers: RingReaders,
    /// Frames of streams that are recorded as they come, where there are any.
    pub raw: Option<Arc<Account<RawDrop>>>,
    /// Bytes of those that were handed to the recorder.
    pub raw_bytes: Arc<Counter>,
    /// What the front end made that is played in this process.
    pub front_end: FrontEndTruth,
    pub recorder: RecorderHandle,
    pub exports: Arc<ExportStatus>,
    pub channels: Arc<ChannelStatus>,
    /// Commands to modules, where there are any.
    pub slow_control: OnceLock<Arc<SlowControlStatus>>,
    pub life: Arc<Life>,
    pub alarm_log: AlarmLog,
    pub drain: Arc<DrainState>,
}

impl Observed {
    /// The run at this moment.
    pub fn snapshot(&self) -> Snapshot {
        let number = self.snapshots.fetch_add(1, Ordering::Relaxed);
        let now_ns = self.clock.now_ns();
        let status = self.recorder.status();
        if status.state == gannet_log::State::Failed {
            self.life.fail_by_defect("recorder");
        }
        let missing = self.missing();
        let account = self.frame_account(&missing);
        let (lost_frames, unsure) = (account.lost > account.open, account.unsure);
        let ledger = self.ledger(account, &status);
        let (channels, summaries) = self.channels.now();
        let streams = self.timed().zip(summaries).zip(missing);
        let streams: Vec<_> = streams
            .map(|(((stream, time), channels), missing)| {
                let without_readout = !self.is_attended(stream);
                let snapshot = stream.snapshot(time, channels, missing);
                StreamSnapshot { without_readout, ..snapshot }
            })
            .collect();
        let without_frames = self.life.is_over() && streams.iter().all(|stream| stream.frames == 0);
        if without_frames || lost_frames || self.lost_anything(&ledger, &status) {
            self.life.control().degrade();
        }
        let control = *self.life.control();
        let trigger = self.trigger(&ledger);
        let behind = |source: &ObservedSource| self.behind(&source.ring, trigger.last_tick);
        let sources = self.sources.iter().map(|source| source.snapshot(behind(source)));
        let sources: Vec<_> = sources.chain(self.far_sources()).collect();
        let frames_lost = ledger[0].dropped_total();
        let kernel_drops_max = sources.iter().map(|source| source.kernel_drops_max).sum();
        let decide_cpu_s = self.decide_cpu_ns.get() as f64 * 1e-9;
        let cpu_s = sources.iter().map(|source| source.receive_cpu_s).sum::<f64>() + decide_cpu_s;
        let mut snapshot = Snapshot {
            number,
            clock_s: now_ns as f64 * 1e-9,
            run: self.run.load(Ordering::Acquire),
            role: self.role,
            state: control.state(),
            degraded: control.is_degraded(),
            failure: self.life.failure().clone(),
            alarms: Vec::new(),
            elapsed_s: self.life.elapsed_s(now_ns),
            frames_lost,
            frames_lost_max: frames_lost + unsure + lost_unseen(&ledger, kernel_drops_max),
            tpg_share: tpg_share(&sources),
            sources,
            streams,
            trigger,
            specific: self.stages.specific(cpu_s),
            decide_cpu_s,
            front_end: self.front_end.get().cloned(),
            recorder: self.recorder(status, &ledger),
            flows: Vec::new(),
            shows: self.shows,
            latency: self.latency(),
            slow_control: self.slow_control.get().map(|status| status.snapshot()),
            channels,
            ledger,
        };
        snapshot.flows = flows::between(&snapshot, self.stages.flows());
        snapshot.alarms = snapshot.alarms_now();
        snapshot.alarms.extend(without_frames.then(|| snapshot.no_frames()));
        self.alarm_log.update(&snapshot.alarms);
        snapshot
    }

    /// Takes note of the number that the builder gives its run. Files of this process keep the one that they were begun
    /// with.
    pub fn belong_to(&self, number: u32) {
        let own = self.run.load(Ordering::Acquire);
        if self.raw.is_none() {
            self.run.store(number, Ordering::Release);
        } else if own != number {
            tracing::info!(
                "this is run {number} of the builder, and run {own} in the raw files of this readout; \
                 `number` in [run] or `--run` gives both the same"
            );
        }
    }

    /// How far the slowest reader of a ring is behind, as a part of the ring.
    fn behind(&self, ring: &ObservedRing, decided: u64) -> f64 {
        if self.life.has_ended() {
            return 0.0;
        }
        let times = &self.stages.times().streams;
        let is_set_apart =
            |it: &ObservedStream| times.get(it.number).is_some_and(StreamTime::is_set_apart);
        let streams = self.streams.iter().map(|it| (it, is_set_apart(it)));
        self.readers.behind(ring, streams, decided)
    }

    /// What each stream lacks.
    fn missing(&self) -> Vec<Missing> {
        let spans: Vec<_> = self.timed().map(|(stream, time)| stream.span(time)).collect();
        let sent: Vec<_> = spans.iter().flatten().copied().collect();
        let edges = Edges::agreed(&sent);
        let told = |stream: &ObservedStream| Missing {
            between: stream.status.missing.get(),
            ..Missing::default()
        };
        let missing = |span: &Option<_>| Some(edges?.missing(span.as_ref()?));
        let of = |(stream, span)| missing(span).unwrap_or_else(|| told(stream));
        self.streams.iter().zip(&spans).map(of).collect()
    }

    /// The streams with what is known of their time.
    fn timed(&self) -> impl Iterator<Item = (&ObservedStream, &StreamTime)> {
        let times = &self.stages.times().streams;
        self.streams.iter().filter_map(|stream| Some((stream, times.get(stream.number)?)))
    }

    /// Whether a process takes frames of a stream: this one, or a readout.
    fn is_attended(&self, stream: &ObservedStream) -> bool {
        self.readouts.as_ref().is_none_or(|readouts| readouts.presence.is_attended(stream.number))
    }

    /// The sources of other processes.
    fn far_sources(&self) -> Vec<SourceSnapshot> {
        let Some(ObservedReadouts { place, sources, frame_bytes, presence, .. }) = &self.readouts
        else {
            return Vec::new();
        };
        let source = |((name, streams), bytes): (&(String, Range<usize>), &Option<usize>)| {
            let of_stream = |stream: usize| self.streams[stream].status.frames.get();
            let frames = streams.clone().map(of_stream).sum();
            SourceSnapshot {
                name: name.clone(),
                engine: format!("by a readout, {place}"),
                has_readout: Some(streams.clone().all(|stream| presence.has(stream))),
                frames,
                bytes: frames * bytes.unwrap_or(0) as u64,
                ..SourceSnapshot::default()
            }
        };
        sources.iter().zip(frame_bytes).map(source).collect()
    }

    fn frame_account(&self, missing: &[Missing]) -> FrameAccount {
        let mut account = FrameAccount::default();
        for (stream, missing) in self.streams.iter().zip(missing) {
            let status = &stream.status;
            account.made += status.in_step.get() + missing.total();
            account.lost += missing.total();
            account.unsure += missing.unsure;
            account.open += if self.life.has_ended() { 0 } else { missing.end };
            account.unattended += status.unattended.get();
        }
        account.unattended += self.after_readouts(missing);
        account
    }

    /// Frames that came due since readouts are gone: what each stream of a source lacks at its end.
    fn after_readouts(&self, missing: &[Missing]) -> u64 {
        let sources = self.readouts.iter().flat_map(|readouts| readouts.sources.iter());
        let lacking = sources.map(|(_, streams)| {
            let unattended =
                streams.clone().filter(|stream| !self.is_attended(&self.streams[*stream]));
            let least = streams.clone().map(|stream| missing[stream].end).min();
            unattended.count() as u64 * least.unwrap_or(0)
        });
        lacking.sum()
    }

    /// Every stage in the order of the data.
    fn ledger(&self, account: FrameAccount, status: &Status) -> Vec<Statement> {
        let (sources, at_rest) = (|| self.sources.iter(), self.life.has_ended());
        let mut source =
            sum::<SourceDrop>("source", sources().map(|source| source.account.statement("source")));
        let frames =
            sum::<FrameDrop>("frames", sources().map(|source| source.frames.statement("frames")));
        let mut sent = account.statement(&mut source, &frames);
        if !at_rest {
            // Frames are counted as made after they are taken.
            sent.offered = sent.delivered + sent.dropped_total();
        }
        let mut ledger = match self.readouts {
            None => vec![sent, source, frames],
            Some(_) => {
                // The readouts' own ledgers tell how they were taken.
                sent.delivered = sent.offered.saturating_sub(sent.dropped_total());
                vec![sent]
            }
        };
        ledger.extend(self.stages.searched());
        ledger.push(sum::<ItemDrop>(
            "primitives",
            sources()
                .map(|source| &source.primitives)
                .chain(self.readouts.iter().map(|readouts| &readouts.items))
                .map(|items| items.statement("primitives")),
        ));
        if let Some(Accounts { items, fragments }) = &self.link {
            // What follows is the builder's to tell.
            ledger.extend([items.statement("to_builder"), fragments.statement("fragments")]);
        } else {
            ledger.extend(self.stages.statements());
        }
        ledger.extend(self.answers.iter().map(|answers| answers.datagrams.statement("answers")));
        let mut recorded = Vec::new();
        if self.link.is_none() {
            let records = self.records.statement("records");
            recorded.extend(self.stages.asks_for_records().then_some((Item::Record, records)));
            recorded.extend(self.stages.recorded());
        }
        recorded.extend(self.raw.as_ref().map(|raw| (Item::RawFrame, raw.statement("raw"))));
        let up_to_disk = |(item, made)| recorded::up_to_disk(made, status.account(item));
        ledger.extend(recorded.into_iter().map(up_to_disk));
        if self.role != Role::Readout || self.raw.is_some() {
            ledger.push(status.account(Item::Chunk).clone());
        }
        if !self.life.has_ended() {
            ledger = ledger.into_iter().map(Statement::at_work).collect();
        }
        // Those at stop are sent when all else has ended.
        let commands = self.slow_control.get();
        ledger.extend(commands.map(|status| status.account.statement("slow_control").at_work()));
        ledger
    }

    /// Whether anything was lost that the run is for, but for the frames that streams lack.
    fn lost_anything(&self, ledger: &[Statement], status: &Status) -> bool {
        let lossy = |statement: &Statement| {
            let is_loss = |reason: &str| drops::is_loss(&statement.stage, reason);
            statement.dropped.iter().any(|drop| drop.count > 0 && is_loss(&drop.reason))
        };
        ledger.iter().filter(|statement| statement.stage != "sent").any(lossy)
            || self.built.damaged.get() > 0
            || matches!(
                status.state,
                gannet_log::State::Degraded { .. } | gannet_log::State::Failed
            )
    }

    fn trigger(&self, ledger: &[Statement]) -> TriggerSnapshot {
        let delivered = |stage: &str| {
            ledger.iter().filter(|s| s.stage == stage).map(|s| s.delivered).sum::<u64>()
        };
        TriggerSnapshot {
            primitives: delivered("primitives"),
            activities: delivered("activity"),
            candidates: delivered("candidate"),
            pauses: self.pauses.get(),
            ..self.stages.figures()
        }
    }

    fn recorder(&self, status: Status, ledger: &[Statement]) -> RecorderSnapshot {
        let trouble = status.trouble();
        let exports = self.exports.made();
        let recorded = |item| status.account(item).delivered;
        let lost = |item: Item| {
            let statement = ledger.iter().find(|statement| statement.stage == item.stage());
            statement.map_or(0, Statement::dropped_total)
        };
        RecorderSnapshot {
            records: recorded(Item::Record),
            records_dropped: lost(Item::Record),
            incomplete: self.built.incomplete.get(),
            damaged: self.built.damaged.get(),
            unreachable: self.built.unreachable.get(),
            primitives: recorded(Item::Primitive),
            primitives_dropped: lost(Item::Primitive),
            raw_frames: recorded(Item::RawFrame),
            raw_bytes: self.raw_bytes_of(recorded(Item::RawFrame)),
            raw_dropped: lost(Item::RawFrame),
            acknowledged: status.acknowledged,
            bytes: status.payload_bytes,
            queue_fill: status.queue_bytes as f64 / status.queue_bytes_max.max(1) as f64,
            outages: status.outages,
            silences: status.silences,
            files: status.finished.into(),
            unfinished: status.unfinished,
            exports: exports.files,
            export_failures: exports.failures,
            manifest: exports.manifest,
            stuck: status.stuck,
            trouble,
            losses: status.losses,
        }
    }

    /// Bytes of so many of the raw frames that were handed to the recorder, by their mean length.
    fn raw_bytes_of(&self, frames: u64) -> u64 {
        let handed = self.raw.as_ref().map_or(0, |raw| raw.delivered()).max(1);
        (u128::from(frames) * u128::from(self.raw_bytes.get()) / u128::from(handed)) as u64
    }

    fn latency(&self) -> LatencySnapshot {
        let arrivals = Histogram::default();
        self.sources.iter().for_each(|source| arrivals.absorb(&source.arrival_to_primitive_ns));
        LatencySnapshot {
            arrival_to_primitive: arrivals.summary(),
            arrival_to_decision: self.arrival_to_decision_ns.summary(),
            decision_to_record: self.response_ns.summary(),
        }
    }
}

impl ObservedSource {
    /// Datagrams delivered or dropped since the start.
    pub fn seen(&self) -> u64 {
        // What is missing, or its sender had no leave for, never came.
        let unseen = [SourceDrop::BeforeStart, SourceDrop::Missing, SourceDrop::NoLeave];
        let since_start = SourceDrop::ALL.iter().filter(|reason| !unseen.contains(reason));
        let dropped = since_start.map(|reason| self.account.dropped(*reason));
        self.account.delivered() + dropped.sum::<u64>()
    }

    fn snapshot(&self, behind: f64) -> SourceSnapshot {
        let (frames, facts) = (self.account.delivered(), &self.facts);
        let kernel_drops = self.account.dropped(SourceDrop::KernelQueue);
        let frames_per_message_max =
            (MESSAGE_LEN_MAX / facts.lengths.start().max(&1)).max(1) as u64;
        let unsized_drops = self.counters.unsized_drops.get();
        SourceSnapshot {
            name: self.name.clone(),
            engine: facts.to_string(),
            has_readout: None,
            cpu: self.cpu,
            address: facts.address,
            frames,
            bytes: self.counters.bytes.get(),
            kernel_drops,
            kernel_drops_max: kernel_drops + unsized_drops * (frames_per_message_max - 1),
            buffer_fill: behind,
            buffer_bytes: facts.cells * *facts.lengths.end() as u64,
            receive_cpu_s: self.receive_cpu_ns.get() as f64 * 1e-9,
            tpg_busy_s: self.search_time.busy_ns.get() as f64 * 1e-9,
            tpg_ns_per_frame: self.search_time.ns_per_frame(),
        }
    }
}

impl ObservedStream {
    /// What the stream tells of its time, once it has sent. Where the step varies, time does not tell
    /// how many frames there were.
    fn span(&self, time: &StreamTime) -> Option<StreamSpan> {
        let status = &self.status;
        let told = |counter: &Counter| Some(counter.get()).filter(|timestamp| *timestamp > 0);
        let wild_ticks = self.rhythm.clock.per_s();
        let Step::Fixed(ticks_per_frame) = self.rhythm.step else { return None };
        (self.is_live && status.frames.get() > 0).then(|| StreamSpan {
            ticks_per_frame,
            wild_ticks,
            first: status.first_timestamp.get(),
            newest: status.newest_timestamp.get(),
            missing: status.missing.get(),
            outage: status.outage.get(),
            unsure: status.unsure.get(),
            early: told(&status.early_timestamp),
            settled: told(&status.settled_timestamp),
            taken: status.in_step.get(),
            home: status.home.get(),
            earlier_series: status.earlier_series.get(),
            away: status.away.get() == 1,
            agrees: !time.is_set_apart() && time.offset_ticks().unsigned_abs() <= wild_ticks,
        })
    }

    fn snapshot(
        &self,
        time: &StreamTime,
        channels: ChannelSummary,
        missing: Missing,
    ) -> StreamSnapshot {
        let status = &self.status;
        let frames = status.frames.get();
        let timestamp = |counter: &Counter| (frames > 0).then(|| counter.get());
        StreamSnapshot {
            name: self.name.clone(),
            frames,
            missing: missing.total(),
            missing_max: missing.total() + missing.unsure,
            duplicate: status.duplicate.get(),
            late: status.late.get(),
            out_of_step: status.out_of_step.get(),
            strange: status.strange.get(),
            sequence_errors: status.sequence_errors.get(),
            restarts: status.restarts.get(),
            primitives: status.items.get(),
            first_timestamp: timestamp(&status.first_timestamp),
            newest_timestamp: timestamp(&status.newest_timestamp),
            stalls: status.stalls.get(),
            stalled: status.stalled.get() == 1,
            without_readout: false,
            set_apart: time.is_set_apart(),
            time_offset_s: time.offset_ticks() as f64 / self.rhythm.clock.per_s() as f64,
            channels,
        }
    }
}

/// Fraction of the processor time of receiving that goes into the search for primitives.
fn tpg_share(sources: &[SourceSnapshot]) -> Option<f64> {
    let cpu_s: f64 = sources.iter().map(|source| source.receive_cpu_s).sum();
    let busy_s: f64 = sources.iter().map(|source| source.tpg_busy_s).sum();
    (cpu_s > 0.0 && busy_s > 0.0).then(|| busy_s / cpu_s)
}

/// The sum of statements of one stage.
fn sum<R: Reason>(stage: &str, statements: impl Iterator<Item = Statement>) -> Statement {
    statements.fold(Account::<R>::default().statement(stage), |mut total, statement| {
        total.absorb(&statement);
        total
    })
}
