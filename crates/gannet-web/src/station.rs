//! Runs: which there were, and commands that start, stop, pause and resume them.

use std::sync::Arc;

use axum::http::StatusCode;
use gannet_control::station::{
    Command, Refused, RunSummary, State as StationState, Station, Status,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::calls::{Ask, Nothing, Reply};
use crate::problem::Problem;
use crate::site::Shared;

/// What comes with a command.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RunCommand")]
pub(crate) struct Wanted {
    /// The state that the station is believed to be in; in another one nothing is done.
    believed: StationState,
}

/// What a station is about, for those who may command it or not.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Station")]
pub(crate) struct Told {
    /// Whether commands are taken from who asks.
    control: bool,
    #[serde(flatten)]
    status: Status,
}

impl Told {
    /// What there is to tell at this moment to somebody who may command it or not; nothing without a station.
    pub fn of(shared: &Shared, control: bool) -> Option<Self> {
        let status = shared.desk.commands.station.as_ref()?.status();
        Some(Self { control, status })
    }
}

/// What a command has led to.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Obeyed {
    /// State of the station now.
    state: StationState,
    /// What it can be told next.
    possible: Vec<Command>,
}

/// The state of the station.
pub(crate) async fn state(ask: Ask<Nothing>) -> Result<Reply<Told>, Problem> {
    Told::of(&ask.shared, ask.may_command()).map(Reply::json).ok_or_else(none)
}

/// The runs since the start, oldest first.
pub(crate) async fn runs(ask: Ask<Nothing>) -> Result<Reply<Vec<RunSummary>>, Problem> {
    Ok(Reply::json(station(&ask.shared)?.runs()))
}

/// Starts the next run.
pub(crate) async fn start(ask: Ask<Wanted>) -> Result<Obeyed, Problem> {
    obey(Command::Start, &ask)
}

/// Ends the run.
pub(crate) async fn stop(ask: Ask<Wanted>) -> Result<Obeyed, Problem> {
    obey(Command::Stop, &ask)
}

/// Lets the run decide nothing.
pub(crate) async fn pause(ask: Ask<Wanted>) -> Result<Obeyed, Problem> {
    obey(Command::Pause, &ask)
}

/// Lets it decide again.
pub(crate) async fn resume(ask: Ask<Wanted>) -> Result<Obeyed, Problem> {
    obey(Command::Resume, &ask)
}

fn obey(command: Command, ask: &Ask<Wanted>) -> Result<Obeyed, Problem> {
    let station = station(&ask.shared)?;
    match station.command(command, Some(ask.wanted.believed)) {
        Ok(state) => Ok(Obeyed { state, possible: station.status().possible }),
        Err(refused) => {
            let problem = Problem::new(StatusCode::CONFLICT, code(&refused), refused.to_string());
            Err(problem.while_it_is(json!({ "state": refused.now(), "run": station.status().run })))
        }
    }
}

fn code(refused: &Refused) -> &'static str {
    match refused {
        Refused::Believed { .. } => "other-state",
        Refused::NotNow { .. } => "not-now",
        Refused::CannotPause { .. } => "cannot-pause",
        Refused::Closing { .. } => "closing",
    }
}

fn station(shared: &Shared) -> Result<&Arc<Station>, Problem> {
    shared.desk.commands.station.as_ref().ok_or_else(none)
}

fn none() -> Problem {
    let detail = "this process makes a single run, which it began itself; a signal ends it";
    Problem::new(StatusCode::NOT_FOUND, "no-station", detail)
}
