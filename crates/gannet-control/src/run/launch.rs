//! The threads of a run, joined to what they work on.

use std::convert::Infallible;
use std::iter::repeat;
use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::thread::{self, JoinHandle};

use gannet_log::Recorder;
use gannet_measure::clock::Clock;
use gannet_measure::ledger::Account;
use gannet_readout::items::{ItemDrop, ItemReceiver, ItemSender};
use gannet_readout::receiver::Receiver;
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
use super::lag::RingReaders;
use super::life::spawn;
use super::observe::{Observed, ObservedReadouts, ObservedSource};
use super::parts::{Apart, ItemOf, PartSource, Parts, PoolOf};
use super::raw::RawRecorder;
use super::receive::{self, Gate, Waiting};
use super::{Run, RunError};
use crate::config::{Plan, PlannedSource, Role};
use crate::detector::{Pipeline, Stages};
use crate::finds::finds;
use crate::snapshot::Shows;
use crate::sys;
use crate::waveform::Waveforms;

/// What takes the frames of a pipeline.
type ReceiverOf<P> = Receiver<<P as Pipeline>::Format, <P as Pipeline>::Finder>;

/// Whether answers are due so soon that the threads on their way do not sleep.
pub(super) fn is_at_once<P: Pipeline>(pipeline: &P) -> bool {
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

/// What decides, what can be seen of it, and where its answers leave.
pub(super) struct Deciding<P: Pipeline> {
    pub trigger: P::Trigger,
    pub stages: Arc<dyn Stages>,
    pub answers: Option<AnswerSender>,
}

/// Joins the parts to threads.
pub(super) fn launch<P: Pipeline>(
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
