//! The thread of a station, which makes the runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::history::now_unix_s;
use super::{Crew, Ending, Event, RunSummary, Shared, State, Underway};
use crate::config::{Plan, Role};
use crate::run::{Run, RunError, Views};
use crate::run_control;

/// Time between two looks at the run.
const LOOK: Duration = Duration::from_millis(20);

/// What the thread works with.
pub(super) struct Conductor<C> {
    pub shared: Arc<Shared>,
    pub plan: Plan,
    pub crew: C,
}

/// Why a run did not come to take frames, or could not go on.
enum Trouble {
    /// The run itself.
    Run(RunError),
    /// Its crew.
    Crew(String),
}

impl Trouble {
    fn text(&self) -> String {
        match self {
            Self::Run(error) => error.to_string(),
            Self::Crew(why) => why.clone(),
        }
    }
}

impl<C: Crew> Conductor<C> {
    /// Makes runs until the station is closed.
    pub fn work(mut self) {
        while self.shared.wait_for_start() {
            let begin_unix_s = now_unix_s();
            let made = catch_unwind(AssertUnwindSafe(|| self.one_run(begin_unix_s)));
            let summary = made.unwrap_or_else(|_panic| {
                let why = "a run stopped on an internal error; please report it";
                RunSummary::refused(begin_unix_s, why.into())
            });
            if let Some(why) = &summary.failure {
                tracing::error!("{}", why);
            }
            self.shared.leave(summary);
        }
    }

    /// Makes a run, from its set-up to its files.
    fn one_run(&mut self, begin_unix_s: f64) -> RunSummary {
        // Two latency buffers at once may be more than the machine has.
        self.shared.present.let_go();
        let run = match Run::configure(&self.next_plan()) {
            Ok(run) => run,
            Err(error) => {
                let summary = RunSummary::refused(begin_unix_s, error.to_string());
                self.shared.lock().error = Some(error);
                return summary;
            }
        };
        let started = self.start(&run, begin_unix_s);
        let ending = match &started {
            Ok(true) => self.watch(&run),
            Ok(false) => Ending::Command,
            Err(_) => Ending::Failure,
        };
        self.shared.on(Event::Over);
        self.crew.stop();
        let mut snapshot = run.drain();
        if let Err(trouble) = started {
            snapshot.state = run_control::State::Error;
            snapshot.failure.get_or_insert(trouble.text());
            if let Trouble::Run(error) = trouble {
                self.shared.lock().error = Some(error);
            }
        }
        let failed = snapshot.state == run_control::State::Error;
        let ending = if failed { Ending::Failure } else { ending };
        let verified = self.crew.end(&snapshot, ending);
        RunSummary::ended(&snapshot, begin_unix_s, ending, verified)
    }

    /// The plan of the next run: its number is that of the configuration once, and then the next.
    fn next_plan(&self) -> Plan {
        let mut plan = self.plan.clone();
        if let Some(last) = self.shared.lock().history.last_number {
            plan.settings.run.number = None;
            plan.after = Some(last);
        }
        plan
    }

    /// Shows `run`, and lets it take frames; false if it was told to stop before.
    fn start(&mut self, run: &Run, begin_unix_s: f64) -> Result<bool, Trouble> {
        self.shared.enter(run, begin_unix_s);
        self.crew.prepare(run).map_err(Trouble::Crew)?;
        // A builder runs alone: readouts may come and go.
        let waits = self.plan.role == Role::Readout;
        while waits && run.joined() == Some(false) {
            if self.shared.is_to_stop() || run.state() == run_control::State::Error {
                return Ok(false);
            }
            thread::sleep(LOOK);
        }
        if self.shared.is_to_stop() {
            return Ok(false);
        }
        run.start().map_err(Trouble::Run)?;
        self.crew.begin(run).map_err(Trouble::Crew)?;
        self.shared.on(Event::Started { can_pause: run.pauser().is_some() });
        Ok(true)
    }

    /// Waits until the run is to end, and says why.
    fn watch(&self, run: &Run) -> Ending {
        let begin = Instant::now();
        let duration = self.plan.settings.run.duration.map(|span| span.duration());
        loop {
            if self.shared.is_to_stop() {
                return Ending::Command;
            }
            let is_over = duration.is_some_and(|duration| begin.elapsed() >= duration);
            if is_over || run.is_exhausted() || run.state() == run_control::State::Error {
                return Ending::Over;
            }
            let inner = self.shared.lock();
            drop(self.shared.changed.wait_timeout(inner, LOOK));
        }
    }
}

impl Shared {
    /// Waits until a run is to be made; false if none is any more.
    fn wait_for_start(&self) -> bool {
        let mut inner = self.lock();
        loop {
            match inner.machine.state() {
                State::Starting => return true,
                // It was told to stop before it was begun: nothing comes of it.
                State::Stopping => {
                    inner.machine.on(Event::Ended { failed: false });
                    self.changed.notify_all();
                }
                _ if inner.machine.is_closing() => return false,
                _ => inner = self.changed.wait(inner).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    /// Notes what the run came to, after which the next may begin.
    fn leave(&self, summary: RunSummary) {
        let mut inner = self.lock();
        inner.underway = None;
        inner.machine.on(Event::Ended { failed: summary.ending == Some(Ending::Failure) });
        inner.history.add(summary);
        drop(inner);
        self.changed.notify_all();
    }

    fn is_to_stop(&self) -> bool {
        self.lock().machine.state() == State::Stopping
    }

    /// Lets everybody look at `run`.
    fn enter(&self, run: &Run, begin_unix_s: f64) {
        let views = run.views();
        self.lock().underway = Some(Underway {
            number: run.number(),
            drain: run.watch_drain(),
            control_socket: run.control_socket().map(Into::into),
            begin_unix_s,
            figures: Arc::clone(&views.figures),
            pauser: run.pauser(),
            joined: run.joining(),
        });
        let watched = self.present.views().watched;
        self.present.turn_to(Views { watched, ..views });
    }
}
