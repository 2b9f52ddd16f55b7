//! Which command a station takes in which state, and what follows: a state machine without I/O.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// State of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "StationState")]
pub enum State {
    /// There is no run; the next may start.
    #[default]
    Idle,
    /// A run is being set up.
    Starting,
    /// A run takes frames.
    Running,
    /// A run takes frames, and decides nothing.
    Paused,
    /// A run processes what it took, closes its files, and they are read back.
    Stopping,
    /// There is no run, and the last one failed or could not start; the next may start.
    Failed,
}

impl State {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Idle, Self::Starting, Self::Running, Self::Paused, Self::Stopping, Self::Failed];

    /// Name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Stopping => "stopping",
            Self::Failed => "failed",
        }
    }

    /// Whether there is no run.
    pub const fn is_at_rest(self) -> bool {
        matches!(self, Self::Idle | Self::Failed)
    }
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What people and programs may ask of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "StationCommand")]
pub enum Command {
    /// Makes the next run.
    Start,
    /// Ends the run: it is drained, its files are closed and read back.
    Stop,
    /// Decides nothing for a while; frames are taken on.
    Pause,
    /// Decides again.
    Resume,
}

impl Command {
    /// Every command.
    pub const ALL: [Self; 4] = [Self::Start, Self::Stop, Self::Pause, Self::Resume];

    /// Name in snake case.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Resume => "resume",
        }
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Why a command is not carried out. The state stays as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Whoever sent it does not know the present state.
    #[error("the station is {now}, and not {believed} any more")]
    Believed {
        /// The state that it was thought to be in.
        believed: State,
        /// The state that it is in.
        now: State,
    },
    /// It has no place in the present state.
    #[error("the station is {now}: {}", why(*command, *now))]
    NotNow {
        /// The command.
        command: Command,
        /// The state that the station is in.
        now: State,
    },
    /// The detector decides on all that comes.
    #[error(
        "this detector cannot pause: its trigger has to answer all that comes; stop the run instead"
    )]
    CannotPause {
        /// The state that the station is in.
        now: State,
    },
    /// No run begins any more.
    #[error("the program is about to end, and starts no other run")]
    Closing {
        /// The state that the station is in.
        now: State,
    },
}

impl Refused {
    /// The state that the station was in, and stays in.
    pub fn now(&self) -> State {
        match self {
            Self::Believed { now, .. }
            | Self::NotNow { now, .. }
            | Self::CannotPause { now }
            | Self::Closing { now } => *now,
        }
    }
}

/// Why `command` has no place in the state `now`, in words.
fn why(command: Command, now: State) -> &'static str {
    match (command, now) {
        (Command::Start, State::Stopping) => "the next run can start when this one has ended",
        (Command::Start, _) => "a run is there already",
        (Command::Stop, State::Stopping) => "the run is ending already",
        (Command::Pause, State::Paused) => "it is paused already",
        (Command::Pause | Command::Resume, State::Starting) => "wait until the run takes frames",
        (Command::Resume, State::Running) => "it decides already",
        (_, State::Stopping) => "the run is ending",
        _ => "there is no run; start one first",
    }
}

/// What happens to the run of a station.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It takes frames.
    Started {
        /// Whether its decisions can be paused.
        can_pause: bool,
    },
    /// It takes no more frames: its time is over, its files are read, or it failed.
    Over,
    /// All is written and read back.
    Ended {
        /// Whether it failed, or could not start.
        failed: bool,
    },
}

/// The state of a station.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    state: State,
    can_pause: bool,
    is_closing: bool,
}

impl Machine {
    /// State now.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether no run begins any more.
    pub fn is_closing(&self) -> bool {
        self.is_closing
    }

    /// Takes a command of somebody who believes the station in a state, if they say so, and gives the new state.
    ///
    /// # Errors
    /// Why it is not carried out; the state stays then.
    pub fn command(&mut self, command: Command, believed: Option<State>) -> Result<State, Refused> {
        let now = self.state;
        if let Some(believed) = believed.filter(|believed| *believed != now) {
            return Err(Refused::Believed { believed, now });
        }
        self.state = match (command, now) {
            (Command::Start, State::Idle | State::Failed) if self.is_closing => {
                return Err(Refused::Closing { now });
            }
            (Command::Start, State::Idle | State::Failed) => State::Starting,
            (Command::Stop, State::Starting | State::Running | State::Paused) => State::Stopping,
            (Command::Pause, State::Running) if !self.can_pause => {
                return Err(Refused::CannotPause { now });
            }
            (Command::Pause, State::Running) => State::Paused,
            (Command::Resume, State::Paused) => State::Running,
            _ => return Err(Refused::NotNow { command, now }),
        };
        Ok(self.state)
    }

    /// The commands that would be carried out now.
    pub fn possible(&self) -> Vec<Command> {
        let is_possible = |command: &Command| { *self }.command(*command, None).is_ok();
        Command::ALL.into_iter().filter(is_possible).collect()
    }

    /// Takes note of what happened to the run. What has no place changes nothing: a run that was told to stop while it
    /// was set up is not running when it is.
    pub fn on(&mut self, event: Event) {
        use State::{Failed, Idle, Paused, Running, Starting, Stopping};
        self.state = match (self.state, event) {
            (Starting, Event::Started { can_pause }) => {
                self.can_pause = can_pause;
                Running
            }
            (Starting | Running | Paused, Event::Over) => Stopping,
            (Starting | Running | Paused | Stopping, Event::Ended { failed }) => {
                if failed {
                    Failed
                } else {
                    Idle
                }
            }
            (state, _) => state,
        };
    }

    /// Ends the run, if there is one, and lets none begin any more.
    pub fn close(&mut self) {
        self.is_closing = true;
        let _at_rest = self.command(Command::Stop, None);
    }
}

#[cfg(test)]
mod tests;
