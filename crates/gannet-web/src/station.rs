//! Runs: which there were, and commands that start, stop, pause and resume them.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::station::{Command, Refused, State as StationState, Station, Status};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::problem;
use crate::commands::conflict;
use crate::site::Shared;

/// What comes with a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// The state that the station is believed to be in.
    believed: StationState,
}

/// What a station is about, for those who may command it or not.
#[derive(Serialize)]
pub(crate) struct Told {
    /// Whether commands are taken.
    control: bool,
    #[serde(flatten)]
    status: Status,
}

impl Told {
    /// What there is to tell at this moment; nothing without a station.
    pub fn of(shared: &Shared) -> Option<Self> {
        let commands = &shared.desk.commands;
        let status = commands.station.as_ref()?.status();
        Some(Self { control: commands.allowed, status })
    }
}

/// The state of the station.
pub(crate) async fn state(State(shared): State<Arc<Shared>>) -> Response {
    Told::of(&shared).map_or_else(none, |told| Json(told).into_response())
}

/// The runs since the start, oldest first.
pub(crate) async fn runs(State(shared): State<Arc<Shared>>) -> Response {
    match &shared.desk.commands.station {
        Some(station) => Json(station.runs()).into_response(),
        None => none(),
    }
}

/// Starts, stops, pauses or resumes.
pub(crate) async fn command(
    State(shared): State<Arc<Shared>>,
    command: Result<Path<Command>, PathRejection>,
    request: Request,
) -> Response {
    let Ok(Path(command)) = command else {
        let detail = "a run can be told: start, stop, pause, resume";
        return problem(StatusCode::NOT_FOUND, "unknown-command", detail);
    };
    let desk = &shared.desk;
    let Some(station) = &desk.commands.station else { return none() };
    let asked = match desk.take::<Wanted>(request).await {
        Ok(asked) => asked,
        Err(response) => return response,
    };
    match station.command(command, Some(asked.body.believed)) {
        Ok(state) => {
            let answer = json!({ "state": state, "possible": station.status().possible });
            desk.close(asked, StatusCode::ACCEPTED, answer)
        }
        Err(refused) => {
            let problem = conflict(code(&refused), refused, now(station, &refused));
            desk.close(asked, StatusCode::CONFLICT, problem)
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

/// The state in which the command was refused.
fn now(station: &Station, refused: &Refused) -> serde_json::Value {
    json!({ "state": refused.now(), "run": station.status().run })
}

fn none() -> Response {
    let detail = "this process makes a single run, which it began itself; a signal ends it";
    problem(StatusCode::NOT_FOUND, "no-station", detail)
}
