//! A station: holds a configuration, and makes one run after the other.
//!
//! ```text
//! commands ──▶ Machine ──▶ one thread: Run::configure, start, ... drain, files read back ──▶ History
//!              (state)        └──▶ Present: what browsers and the terminal show
//! ```
//!
//! A command is judged at once, by the state alone, and answered with the state that follows; the thread does the
//! work. So nobody who commands ever waits, and each answer is a state that the station had.

mod history;
mod machine;
mod work;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

pub use history::{Ending, Outcome, RUNS_MAX, RunSummary, Verified};
pub use machine::{Command, Event, Machine, Refused, State};

use crate::config::Plan;
use crate::figures::Figures;
use crate::run::{Basis, Drain, Pauser, Present, Run, RunError, Views};
use crate::snapshot::Snapshot;
use crate::watch::Watch;
use history::History;

/// What else belongs to each run in this process: who sends, who is answered, and what reads its files back.
pub trait Crew: Send {
    /// The run is set up, and is to take frames soon: what takes time is prepared now.
    ///
    /// # Errors
    /// Why there can be no run.
    fn prepare(&mut self, run: &Run) -> Result<(), String> {
        let _ = run;
        Ok(())
    }

    /// The run takes frames.
    ///
    /// # Errors
    /// Why it cannot go on.
    fn begin(&mut self, run: &Run) -> Result<(), String> {
        let _ = run;
        Ok(())
    }

    /// The run is to end: nobody has to send any more.
    fn stop(&mut self) {}

    /// The run has ended with this `snapshot`, and why. Reads its files back.
    fn end(&mut self, snapshot: &Snapshot, ending: Ending) -> Vec<Verified>;
}

/// What a station is about.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "StationStatus")]
pub struct Status {
    /// Its state.
    pub state: State,
    /// The commands that it would take now.
    pub possible: Vec<Command>,
    /// Number of the present run, or of the last that took frames.
    pub run: Option<u32>,
    /// Runs that have ended since the start.
    pub ended: u64,
    /// Why the last run failed or could not start, in the state `failed`.
    pub failure: Option<String>,
}

/// The present run, for those who watch it.
#[derive(Clone)]
pub struct Underway {
    /// Its number.
    pub number: u32,
    /// How far its drain is.
    pub drain: Drain,
    /// Where other processes may ask it, if they may.
    pub control_socket: Option<PathBuf>,
    begin_unix_s: f64,
    figures: Arc<Figures>,
    pauser: Option<Pauser>,
    joined: Option<Arc<AtomicBool>>,
}

impl Underway {
    /// Whether readout and builder are joined; nothing where they are one process.
    pub fn joined(&self) -> Option<bool> {
        self.joined.as_ref().map(|joined| joined.load(Ordering::Acquire))
    }
}

/// Makes one run after the other. Dropping it ends the present run, and waits until it has.
pub struct Station {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// Looks at one run after the other.
    _watch: Watch,
}

struct Shared {
    inner: Mutex<Inner>,
    /// Told when the state changes.
    changed: Condvar,
    present: Present,
}

#[derive(Default)]
struct Inner {
    machine: Machine,
    underway: Option<Underway>,
    history: History,
    /// Why the last run could not start, for whoever wants its kind.
    error: Option<RunError>,
}

/// The figures of no run.
fn nothing_yet() -> Figures {
    let made = AtomicU64::default();
    Figures::new(Arc::new(move || Snapshot {
        number: made.fetch_add(1, Ordering::Relaxed),
        ..Snapshot::default()
    }))
}

impl Station {
    /// A station for runs as `plan` has them, each with this `crew`, looked at by the rules of the plan. The first has the number of the plan, if that has
    /// one; each further one the next.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(plan: Plan, crew: impl Crew + 'static) -> Result<Self, RunError> {
        let present = Present::from(Arc::new(nothing_yet()));
        let looked_at = present.clone();
        let watch = Watch::start(move || looked_at.views().figures, &plan);
        let watch = watch.map_err(RunError::Thread)?;
        let watched = Some(watch.watched());
        let basis = Some(Arc::new(Basis::of(&plan)));
        present.turn_to(Views { watched, basis, ..present.views() });
        let (inner, changed) = Default::default();
        let shared = Arc::new(Shared { inner, changed, present });
        let conductor = work::Conductor { shared: Arc::clone(&shared), plan, crew };
        let thread = thread::Builder::new().name("gannet-station".into());
        let thread = thread.spawn(move || conductor.work()).map_err(RunError::Thread)?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)), _watch: watch })
    }

    /// Takes a command of somebody who believes the station in a state, if they say so, and gives the state that
    /// follows. Does not wait for what the command brings about.
    ///
    /// # Errors
    /// Why it is not carried out.
    pub fn command(&self, command: Command, believed: Option<State>) -> Result<State, Refused> {
        let mut inner = self.shared.lock();
        let state = inner.machine.command(command, believed)?;
        if let Some(pauser) = inner.underway.as_ref().and_then(|run| run.pauser.as_ref()) {
            match command {
                Command::Pause => pauser.pause(),
                Command::Resume => pauser.resume(),
                Command::Start | Command::Stop => {}
            }
        }
        self.shared.changed.notify_all();
        Ok(state)
    }

    /// Ends the present run and lets none begin any more, without waiting for it.
    pub fn close(&self) {
        self.shared.lock().machine.close();
        self.shared.changed.notify_all();
    }

    /// What it is about.
    pub fn status(&self) -> Status {
        let inner = self.shared.lock();
        let state = inner.machine.state();
        let last = inner.history.runs().last();
        let run = inner.underway.as_ref().map(|run| run.number);
        Status {
            state,
            possible: inner.machine.possible(),
            run: run.or(inner.history.last_number),
            ended: inner.history.count,
            failure: last.filter(|_| state == State::Failed).and_then(|run| run.failure.clone()),
        }
    }

    /// The present run, from when it is set up until it has ended.
    pub fn underway(&self) -> Option<Underway> {
        self.shared.lock().underway.clone()
    }

    /// What can be seen of the present run, and of those that follow.
    pub fn present(&self) -> Present {
        self.shared.present.clone()
    }

    /// The runs since the start, oldest first, the present one included; at most [`RUNS_MAX`] that have ended.
    pub fn runs(&self) -> Vec<RunSummary> {
        let inner = self.shared.lock();
        let mut runs: Vec<_> = inner.history.runs().cloned().collect();
        let underway = inner.underway.clone();
        // A snapshot may take a while.
        drop(inner);
        runs.extend(underway.map(|run| RunSummary::of(&run.figures.latest(), run.begin_unix_s)));
        runs
    }

    /// How the worst run went that has ended; none has where there is nothing.
    pub fn worst(&self) -> Option<Outcome> {
        self.shared.lock().history.worst
    }

    /// Why the last run could not start, once.
    pub fn take_error(&self) -> Option<RunError> {
        self.shared.lock().error.take()
    }

    /// Waits until something changes, or for `time`.
    pub fn wait(&self, time: Duration) {
        let inner = self.shared.lock();
        drop(self.shared.changed.wait_timeout(inner, time));
    }

    /// Leaves the present run to end by itself, for a process that will not wait for it.
    pub fn abandon(&self) {
        drop(self.thread());
    }

    fn thread(&self) -> Option<JoinHandle<()>> {
        self.thread.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Drop for Station {
    fn drop(&mut self) {
        self.close();
        // A panic of a run is caught and told where it happens.
        self.thread().into_iter().for_each(|thread| _ = thread.join());
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(&self, event: Event) {
        self.lock().machine.on(event);
        self.changed.notify_all();
    }
}
