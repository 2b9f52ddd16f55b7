//! The life of a run as a state machine: which command is allowed when, and what it leads to.
//!
//! ```text
//!                           paused
//!                            |  |
//! initial -> configured -> running -> draining -> stopped
//!    |           |            |          |           |
//!    |           '------------+----------+--> error <'   (any failure; what was taken is kept)
//! ```
//!
//! *Degraded* is not a state but a mark on the run: it goes on, and it has lost something.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

/// State of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// Nothing is set up.
    #[default]
    Initial,
    /// Buffers are allocated, sockets bound, files can be made.
    Configured,
    /// Frames are taken.
    Running,
    /// Frames are taken, and nothing is decided.
    Paused,
    /// No new frames are taken; what was taken is processed to the end.
    Draining,
    /// All is written and closed.
    Stopped,
    /// Something failed that the run cannot go on without.
    Error,
}

impl State {
    /// Every state, in the order of a run.
    pub const ALL: [Self; 7] = [
        Self::Initial,
        Self::Configured,
        Self::Running,
        Self::Paused,
        Self::Draining,
        Self::Stopped,
        Self::Error,
    ];

    /// Name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Configured => "configured",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Draining => "draining",
            Self::Stopped => "stopped",
            Self::Error => "error",
        }
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What happens to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Everything was set up.
    Configure,
    /// Frames are taken from now on.
    Start,
    /// Nothing is decided from now on.
    Pause,
    /// Decisions are made again.
    Resume,
    /// Somebody asked for the end, or the time is up.
    Stop,
    /// Everything that was taken is processed and written.
    Drained,
    /// Something failed for good.
    Fail,
}

/// An event that the state does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a run that is {state} cannot {event:?}")]
pub struct NotAllowed {
    state: State,
    event: Event,
}

/// One run: its state and whether it has lost anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunControl {
    state: State,
    degraded: bool,
}

impl Default for RunControl {
    fn default() -> Self {
        Self { state: State::Initial, degraded: false }
    }
}

impl RunControl {
    /// State now.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether the run has lost anything so far.
    pub fn is_degraded(&self) -> bool {
        self.degraded
    }

    /// Notes that something was lost; a run stays degraded to its end.
    pub fn degrade(&mut self) {
        self.degraded = true;
    }

    /// Takes an event and gives the new state.
    ///
    /// # Errors
    /// [`NotAllowed`] when the event has no place in the present state, which then stays.
    pub fn on(&mut self, event: Event) -> Result<State, NotAllowed> {
        use State::{Configured, Draining, Initial, Paused, Running, Stopped};
        self.state = match (self.state, event) {
            (Initial, Event::Configure) => Configured,
            (Configured, Event::Start) => Running,
            (Configured, Event::Stop) => Stopped,
            (Running, Event::Pause) => Paused,
            (Paused, Event::Resume) => Running,
            (Running | Paused, Event::Stop) => Draining,
            // Asked twice, a run still drains once.
            (Draining, Event::Stop) => Draining,
            (Draining, Event::Drained) => Stopped,
            (_, Event::Fail) => State::Error,
            (state, event) => return Err(NotAllowed { state, event }),
        };
        Ok(self.state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_run_goes_through_every_state_in_order() {
        let mut run = RunControl::default();
        let events = [Event::Configure, Event::Start, Event::Stop, Event::Stop, Event::Drained];
        let states = events.map(|event| run.on(event).unwrap());
        assert_eq!(
            states,
            [State::Configured, State::Running, State::Draining, State::Draining, State::Stopped]
        );
        assert!(!run.is_degraded());
    }

    #[test]
    fn a_run_pauses_only_while_it_takes_frames_and_drains_from_a_pause() {
        let mut run = RunControl::default();
        assert!(run.on(Event::Pause).is_err());
        [Event::Configure, Event::Start].iter().for_each(|event| _ = run.on(*event).unwrap());
        assert!(run.on(Event::Resume).is_err());
        for events in [[Event::Pause, Event::Resume], [Event::Pause, Event::Stop]] {
            assert_eq!(run.on(events[0]), Ok(State::Paused));
            assert!(run.on(Event::Pause).is_err());
            run.on(events[1]).unwrap();
        }
        assert_eq!(run.state(), State::Draining);
        assert!(run.on(Event::Resume).is_err());
    }

    #[test]
    fn an_event_out_of_place_changes_nothing_and_is_named() {
        let mut run = RunControl::default();
        let refused = run.on(Event::Start).unwrap_err();
        assert_eq!(refused.to_string(), "a run that is initial cannot Start");
        assert_eq!(run.state(), State::Initial);
    }

    #[test]
    fn failure_is_possible_everywhere_and_final() {
        for events in [&[][..], &[Event::Configure], &[Event::Configure, Event::Start]] {
            let mut run = RunControl::default();
            events.iter().for_each(|event| _ = run.on(*event).unwrap());
            assert_eq!(run.on(Event::Fail), Ok(State::Error));
            assert!(run.on(Event::Start).is_err());
        }
    }
}
