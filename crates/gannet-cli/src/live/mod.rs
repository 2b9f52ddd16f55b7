//! Watching the runs of a station on a terminal until the program is to end, and telling what each came to.

mod notes;
mod patience;
mod teller;

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{Plan, Role};
use gannet_control::snapshot::Snapshot;
use gannet_control::station::{Command, Ending, State, Station, Underway};

use crate::display::LiveDisplay;
use crate::exit::Outcome;
use crate::log;
use crate::ready::{self, Readiness};
use crate::report::Report;
use crate::serving::{Listeners, Serving};
use crate::signals::Signals;
use notes::Notes;
use patience::{Patience, Turn};
pub use teller::{Alone, Heard, Teller};

/// Time between two looks at the run.
const LOOK: Duration = Duration::from_millis(20);
/// For how long nobody has to look on before all are believed to have left: a page that is loaded anew is away for a
/// moment.
const AWAY: Duration = Duration::from_secs(5);

/// When the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// With its run.
    Never,
    /// When its run has ended by itself, or somebody has ended it and nobody looks on any more.
    WhileLookedAt,
    /// By a signal only; it begins no run by itself.
    Always,
}

/// Watches the runs of a station.
pub struct Watch<'a> {
    station: &'a Arc<Station>,
    plan: &'a Plan,
    heard: Heard,
    signals: &'a Signals,
    stay: Stay,
    quiet: bool,
    readiness: Option<Readiness>,
    /// Where the runs are to be seen, until they are.
    listeners: Option<Listeners>,
    serving: Option<Serving>,
    /// When somebody looked on for the last time.
    looked_at: Option<Instant>,
    /// Runs whose end was seen.
    ended: u64,
    /// The present run ends by itself, and the program does not wait for it.
    abandons: bool,
}

impl<'a> Watch<'a> {
    /// Watches the runs that `station` makes of `plan`, until a signal or what `stay` says. They are shown, unless
    /// `quiet`, and to be seen at the `listeners`.
    pub fn new(
        (station, plan, heard): (&'a Arc<Station>, &'a Plan, Heard),
        signals: &'a Signals,
        listeners: Listeners,
        stay: Stay,
        quiet: bool,
    ) -> Self {
        Self {
            station,
            plan,
            heard,
            signals,
            stay,
            quiet,
            readiness: None,
            listeners: Some(listeners),
            serving: None,
            looked_at: None,
            ended: 0,
            abandons: false,
        }
    }

    /// Tells `readiness` when frames are taken, or commands.
    pub fn telling(self, readiness: Readiness) -> Self {
        Self { readiness: Some(readiness), ..self }
    }

    /// Shows run after run until the program is to end, and lets `print` tell what each came to. `is_over` is asked
    /// while a run takes frames, for how long it has and whether somebody looks on, and ends it.
    ///
    /// # Errors
    /// When the run that the program is for cannot start, or one failed.
    pub fn all(
        mut self,
        mut is_over: impl FnMut(&mut LiveDisplay, Duration, bool) -> bool,
        mut print: impl FnMut(&Report) -> anyhow::Result<()>,
    ) -> anyhow::Result<Outcome> {
        let mut worst = Ok(Outcome::Ok);
        let mut is_own = self.stay != Stay::Always;
        match is_own {
            // Nobody else commands before it is served.
            true => _ = self.station.command(Command::Start, None),
            false => self.wait_for_commands()?,
        }
        while is_own || self.rest() {
            let ended = self.one_run(&mut is_over)?;
            self.ended = self.station.status().ended.min(self.ended + 1);
            let trouble = self.heard.trouble();
            match trouble.or_else(|| self.station.take_error().map(Into::into)) {
                Some(error) if is_own => return Err(error),
                // Whoever commanded it is told, and may try again.
                Some(error) => log::say(format!("the run: {error:#}")),
                None => {}
            }
            is_own = false;
            let Some((report, ending)) = ended else { continue };
            print(&report)?;
            worst = worse(worst, report.outcome());
            // After a signal, whatever still runs is ended, and what has ended is told, before it rests.
            if !self.stays(ending) || self.abandons {
                break;
            }
        }
        // Lost data weigh more than the signal that ended the program.
        match (worst, self.signals.received()) {
            (Ok(Outcome::Ok), Some(signal)) => Ok(Outcome::Interrupted(signal)),
            (worst, _) => worst,
        }
    }

    /// Whether the program may go on when a run has ended so.
    fn stays(&self, ending: Ending) -> bool {
        match self.stay {
            Stay::Never => false,
            Stay::WhileLookedAt => ending != Ending::Over,
            Stay::Always => true,
        }
    }

    /// Serves, and says that the station waits.
    fn wait_for_commands(&mut self) -> anyhow::Result<()> {
        let mut display = LiveDisplay::open(self.quiet);
        self.serve(&mut display)?;
        display.note("the station is ready: start a run in the browser, or by `gannet ctl`");
        display.close();
        let ready = "the station waits for a command to start";
        self.readiness.take().into_iter().for_each(|it| it.announce(ready));
        Ok(())
    }

    fn serve(&mut self, display: &mut LiveDisplay) -> anyhow::Result<()> {
        if let Some(listeners) = self.listeners.take() {
            self.serving = Some(listeners.serve(self.station, display)?);
        }
        Ok(())
    }

    /// Waits while there is no run, and none whose end was not seen; false if none will be any more.
    fn rest(&mut self) -> bool {
        while self.is_at_rest() {
            let stays = match self.stay {
                Stay::Never => false,
                Stay::WhileLookedAt => self.is_looked_at(),
                Stay::Always => true,
            };
            if !stays || self.signals.received().is_some() {
                self.station.close();
                return !self.is_at_rest();
            }
            thread::sleep(LOOK);
        }
        true
    }

    /// Waits until the station has noted the end of a run whose report has come.
    fn wait_for_rest(&self) {
        while self.station.status().state == State::Stopping
            && self.station.status().ended == self.ended
        {
            self.station.wait(LOOK);
        }
    }

    fn is_at_rest(&self) -> bool {
        let status = self.station.status();
        status.state.is_at_rest() && status.ended == self.ended
    }

    /// Whether somebody looks on, or did a moment ago.
    fn is_looked_at(&mut self) -> bool {
        if self.serving.as_ref().is_some_and(Serving::is_looked_at) {
            self.looked_at = Some(Instant::now());
        }
        self.looked_at.is_some_and(|at| at.elapsed() < AWAY)
    }

    fn latest(&self) -> Arc<Snapshot> {
        self.station.present().views().figures.latest()
    }

    /// Shows a run from its set-up to its end, and gives its report; nothing if it could not start.
    fn one_run(
        &mut self,
        is_over: &mut impl FnMut(&mut LiveDisplay, Duration, bool) -> bool,
    ) -> anyhow::Result<Option<(Report, Ending)>> {
        let mut display = LiveDisplay::open(self.quiet);
        notes::memory(self.plan, &mut display);
        let (mut notes, mut patience) = (Notes::default(), None);
        let (mut begin, mut next_show) = (Instant::now(), Instant::now());
        loop {
            let (state, underway) = (self.station.status().state, self.station.underway());
            let ended = self.heard.report();
            ended.iter().for_each(|(report, _)| display.show(&report.snapshot));
            if ended.is_some() || state.is_at_rest() {
                display.close();
                self.wait_for_rest();
                return Ok(ended.or_else(|| self.heard.report()));
            }
            if self.signals.received().is_some() {
                self.station.close();
            }
            if let Some(run) = &underway {
                self.serve(&mut display)?;
                let snapshot = self.latest();
                notes.set_up(self.plan, run, &snapshot, &mut display);
                if state != State::Starting && Instant::now() >= next_show {
                    next_show = Instant::now() + display.interval();
                    display.show(&snapshot);
                }
                if matches!(state, State::Running | State::Paused) {
                    if notes.running(self.plan, run, &snapshot, &mut display) {
                        begin = Instant::now();
                        let status = notes::running(self.plan, &snapshot);
                        self.readiness.take().into_iter().for_each(|it| it.announce(&status));
                    }
                    if is_over(&mut display, begin.elapsed(), self.is_looked_at()) {
                        let _ends_already = self.station.command(Command::Stop, None);
                    }
                }
            }
            if state == State::Stopping {
                let patience = patience.get_or_insert_with(|| {
                    self.tell_draining(&mut display);
                    Patience::new(self.signals)
                });
                if let Some(report) = self.turn(patience.turn(), underway.as_ref(), &mut display) {
                    display.close();
                    return Ok(Some((report, Ending::Command)));
                }
            }
            self.station.wait(LOOK);
        }
    }

    fn tell_draining(&self, display: &mut LiveDisplay) {
        if self.stay == Stay::Never || self.signals.received().is_some() {
            ready::announce_stop();
        }
        let files = if self.plan.records() { ", and the files are finalised" } else { "" };
        let to = if self.plan.role == Role::Readout {
            "sent to the builder"
        } else {
            "processed to the end"
        };
        display.note(&format!("draining: what was taken is {to}{files}"));
    }

    /// Does what whoever sends signals during a drain wants; gives a report if that is not to wait for the files.
    fn turn(
        &mut self,
        turn: Turn,
        run: Option<&Underway>,
        display: &mut LiveDisplay,
    ) -> Option<Report> {
        match (turn, self.heard.is_reading()) {
            (Turn::Patient, _) => {}
            (Turn::Asks, true) => display.note(&asked("reading the files back")),
            (Turn::Asks, false) => {
                let waits_for = run.map(|run| run.drain.waits_for());
                display.note(&asked(waits_for.as_deref().unwrap_or("the run to be set up")));
            }
            (Turn::GivesUp, false) => {
                display.note("cutting the drain short: what is not written is counted as lost");
                self.heard.leave_unread();
                run.into_iter().for_each(|run| run.drain.cut_short());
            }
            (Turn::GivesUp, true) => {
                display.note("the files are not read back; `gannet verify` does it");
                self.station.abandon();
                self.abandons = true;
                return Some(Report::unread(Snapshot::clone(&self.latest())));
            }
        }
        None
    }
}

fn asked(what: &str) -> String {
    format!("still draining, waiting for {what}; the next signal cuts this short")
}

/// What weighs more: a failure, then a file that is not as it was written, then loss.
fn worse(before: anyhow::Result<Outcome>, now: anyhow::Result<Outcome>) -> anyhow::Result<Outcome> {
    let weight = |outcome: &anyhow::Result<Outcome>| match outcome {
        Ok(Outcome::Ok) => 0,
        Ok(Outcome::Degraded) => 1,
        Ok(_) => 2,
        Err(_) => 3,
    };
    if weight(&now) > weight(&before) { now } else { before }
}
