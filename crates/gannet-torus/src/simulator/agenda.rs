//! What is to happen in a simulation, and what has.

use serde::Serialize;

use super::engine::Simulation;
use super::fault::{Event, Switched};
use super::script::Script;

/// Events to come, and the changes of routes that answer them.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    script: Script,
    /// Cycles from an event to the change of routes, if routes are to change.
    reroute_after: Option<u32>,
    reroute_at: Option<u32>,
    history: Vec<Happening>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Happening {
    /// Cycle before which it happened.
    pub cycle: u32,
    /// What it was.
    #[serde(flatten)]
    pub what: What,
}

/// What has happened.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A fault, or a repair.
    Event(Event),
    /// New routes are in use.
    Rerouted(Switched),
    /// No new routes were found, for this reason; the old ones stay.
    Refused(String),
}

impl Agenda {
    /// Cycle before which something is to happen.
    pub fn next_at(&self) -> Option<u32> {
        self.script.next_at().into_iter().chain(self.reroute_at).min()
    }

    pub fn history(&self) -> &[Happening] {
        &self.history
    }
}

impl Simulation {
    /// Lets these events happen at their cycles, and routes change `reroute_after` cycles after
    /// each: the time until the master knows and has planned. Without it they stay as they are.
    pub fn schedule(&mut self, script: Script, reroute_after: Option<u32>) {
        *self.agenda() = Agenda { script, reroute_after, ..Agenda::default() };
    }

    /// Does what is due.
    pub(super) fn keep_agenda(&mut self) {
        let now = self.now();
        while let Some(event) = self.agenda().script.take(now) {
            self.apply(event);
            self.note(What::Event(event));
            let agenda = self.agenda();
            if let (None, Some(after)) = (agenda.reroute_at, agenda.reroute_after) {
                agenda.reroute_at = Some(now.saturating_add(after));
            }
        }
        if self.agenda().reroute_at.is_some_and(|at| at <= now) {
            self.agenda().reroute_at = None;
            let what = match self.reroute() {
                Ok(switched) => What::Rerouted(switched),
                Err(refused) => What::Refused(refused.to_string()),
            };
            self.note(what);
        }
    }

    fn note(&mut self, what: What) {
        let cycle = self.now();
        self.agenda().history.push(Happening { cycle, what });
    }
}
