//! Those who play a front end, and whom answers go to, around the runs of a demonstration.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::Context;
use gannet_control::config::Plan;
use gannet_control::detector::Comparison;
use gannet_control::emulation::{
    Emulation, EmulationReport, EventSink, PlannedFrontEnd, Playing as PlayedRole, RoleReport,
    Target,
};
use gannet_control::run::Run;
use gannet_control::snapshot::{Figure, Snapshot};
use gannet_control::station::{Crew, Ending, Verified};

use crate::live::Teller;
use crate::report::Report;

/// What was played around a run.
pub struct Played {
    /// What the front end sent.
    pub sent: EmulationReport,
    /// What those were told whom answers go to.
    pub roles: Vec<(&'static str, RoleReport)>,
    /// What was found of what the front end put in.
    pub found: Vec<Figure>,
}

/// Those who play a front end, and whom answers go to, in each run.
pub struct Players {
    plan: Plan,
    teller: Teller,
    played: Arc<Mutex<Option<Played>>>,
    /// What is played at the moment.
    now: Playing,
}

/// What is played in one run.
#[derive(Default)]
struct Playing {
    front_end: Option<Box<dyn PlannedFrontEnd>>,
    emulation: Option<Emulation>,
    roles: Vec<(&'static str, PlayedRole)>,
    truth: Option<Truth>,
    sent: Option<EmulationReport>,
}

impl Players {
    /// They play in each run of `plan`, and leave what they did in `played` when it has ended.
    pub fn new(plan: Plan, teller: Teller, played: Arc<Mutex<Option<Played>>>) -> Self {
        Self { plan, teller, played, now: Playing::default() }
    }

    /// Begins to send, and to play those whom answers go to.
    fn play(&mut self, run: &Run) -> anyhow::Result<()> {
        // A port that is taken costs the demonstration a line, no more.
        for (name, listen, role) in self.plan.detector.roles() {
            match PlayedRole::start(listen, role) {
                Ok(role) => self.now.roles.push((name, role)),
                Err(error) => tracing::warn!("{name} is not played: {error}"),
            }
        }
        let truth = self.now.truth.insert(Truth::of(&self.plan));
        let front_end = self.now.front_end.take().context("no front end was prepared")?;
        let target = target(&self.plan, run)?;
        self.now.emulation = Some(front_end.start(&target, truth.sink())?);
        Ok(())
    }

    /// What was played in a run that ended with this report.
    fn told(playing: Playing, report: &Report) -> anyhow::Result<Option<Played>> {
        let stop = |(name, role): (_, PlayedRole)| {
            role.stop();
            Ok((name, role.join()?))
        };
        let roles = playing.roles.into_iter().map(stop).collect::<anyhow::Result<_>>()?;
        let (Some(sent), Some(truth)) = (playing.sent, playing.truth) else { return Ok(None) };
        let found = truth.compare(&sent, report)?;
        Ok(Some(Played { sent, roles, found }))
    }
}

impl Crew for Players {
    fn prepare(&mut self, _: &Run) -> Result<(), String> {
        // To make what it sends may take a while, in which no stream is to be told silent.
        let front_end = self.plan.detector.front_end().map_err(|error| self.teller.fail(error))?;
        self.now = Playing { front_end: Some(front_end), ..Playing::default() };
        Ok(())
    }

    fn begin(&mut self, run: &Run) -> Result<(), String> {
        self.play(run).map_err(|error| self.teller.fail(error))
    }

    fn stop(&mut self) {
        let Some(emulation) = self.now.emulation.take() else { return };
        emulation.stop();
        match emulation.join() {
            Ok(sent) => self.now.sent = Some(sent),
            Err(error) => _ = self.teller.fail(error),
        }
    }

    fn end(&mut self, snapshot: &Snapshot, ending: Ending) -> Vec<Verified> {
        let playing = mem::take(&mut self.now);
        self.teller.report(snapshot, ending, |report| match Self::told(playing, report) {
            Ok(told) => *self.played.lock().unwrap_or_else(PoisonError::into_inner) = told,
            Err(error) => _ = self.teller.fail(error),
        })
    }
}

/// Where the front end sends, held back to what the kernel gives the readout's sockets.
fn target(plan: &Plan, run: &Run) -> anyhow::Result<Target> {
    let to = *run.addresses().first().context("the readout has no socket")?;
    Ok(Target {
        receivers: vec![to.into(); plan.detector.emulated().len()],
        frames: None,
        flow_control: Some(run.flow_control()),
        faults: run.faults().map(|faults| faults.switch()),
    })
}

/// What compares what was put in with what is found, while it is told what was put in.
#[derive(Clone)]
struct Truth(Arc<Mutex<Option<Box<dyn Comparison>>>>);

impl Truth {
    fn of(plan: &Plan) -> Self {
        Self(Arc::new(Mutex::new(plan.detector.comparison())))
    }

    fn lock(&self) -> MutexGuard<'_, Option<Box<dyn Comparison>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is to be told of each event, if it wants to know.
    fn sink(&self) -> Option<EventSink> {
        let wants_events = self.lock().as_ref().is_some_and(|truth| truth.wants_events());
        let truth = self.clone();
        let sink: EventSink = Box::new(move |event| {
            truth.lock().iter_mut().for_each(|truth| truth.put_in(event));
        });
        wants_events.then_some(sink)
    }

    fn compare(&self, sent: &EmulationReport, report: &Report) -> anyhow::Result<Vec<Figure>> {
        let figures = self.lock().as_ref().map(|truth| truth.compare(sent, &report.snapshot));
        figures.transpose().map(Option::unwrap_or_default).map_err(anyhow::Error::msg)
    }
}
