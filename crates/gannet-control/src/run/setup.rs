//! Everything that a run needs, made in the order in which it is needed.

use std::fs;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gannet_log::files::{self, RunId};
use gannet_log::{Chunk, Kind, Label, Offer, RawStreams, Recorder, RunInfo};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_readout::items;
use gannet_readout::trigger::Trigger;
use gannet_trigger::Finder;

use super::decide::AnswerSender;
use super::launch::{Deciding, is_at_once, launch};
use super::parts::{Apart, Parts};
use super::recovery::Recovery;
use super::slow_control::{self, Link, Served, SlowControl};
use super::{Run, RunError};
use crate::config::{Plan, Role};
use crate::detector::Pipeline;
use crate::emulation::{Faults, TroubledDisk};
use crate::remote::ControlSocket;
use crate::run_control::Event;

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
