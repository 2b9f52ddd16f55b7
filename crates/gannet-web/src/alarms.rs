//! Alarms: which are raised, by which rules, and acknowledging one.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::alarm::board::{Board, NotAcknowledged};
use gannet_control::alarm::rule::{Limit, Rule};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::problem;
use crate::commands::{Peer, conflict};
use crate::history::none;
use crate::site::Shared;

/// Longest name of somebody who acknowledges an alarm, in characters.
pub const NAME_MAX: usize = 64;

/// The alarms of a process, and its rules.
#[derive(Serialize)]
struct Listed<'a> {
    #[serde(flatten)]
    board: &'a Board,
    rules: Vec<Ruled<'a>>,
    /// Whether alarms can be acknowledged.
    control: bool,
}

/// A rule.
#[derive(Serialize)]
struct Ruled<'a> {
    name: &'a str,
    figure: &'a str,
    unit: &'static str,
    above: Option<f64>,
    below: Option<f64>,
    clear: f64,
    /// Seconds for which the figure is beyond its limit before the alarm is raised.
    hold_s: f64,
    /// Seconds for which it is back before the alarm clears.
    quiet_s: f64,
    meaning: &'a str,
    advice: &'a str,
    /// Whether a program is called or an address told.
    calls: bool,
}

impl<'a> From<&'a Rule> for Ruled<'a> {
    fn from(rule: &'a Rule) -> Self {
        let Rule { config, kind, limit, clear, .. } = rule;
        let (above, below) = match *limit {
            Limit::Above(limit) => (Some(limit), None),
            Limit::Below(limit) => (None, Some(limit)),
        };
        Self {
            name: &config.name,
            figure: &config.figure,
            unit: kind.unit,
            above,
            below,
            clear: *clear,
            hold_s: config.hold.duration().as_secs_f64(),
            quiet_s: config.quiet.duration().as_secs_f64(),
            meaning: &config.meaning,
            advice: &config.advice,
            calls: rule.calls(),
        }
    }
}

/// The alarms that are raised, those that were, and the rules.
pub(crate) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let Some(watched) = &shared.watched else { return none() };
    let rules = watched.rules().iter().map(Ruled::from).collect();
    let (board, control) = (&*watched.board(), shared.desk.commands.allowed);
    Json(Listed { board, rules, control }).into_response()
}

/// Who acknowledges an alarm.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acknowledging {
    /// The number of the alarm, once more: a command that comes again is the same only if all of it is.
    #[serde(skip_deserializing)]
    alarm: u64,
    /// What people call them; the address that they come from where it is absent.
    by: Option<String>,
}

/// Notes who has seen an alarm.
pub(crate) async fn acknowledge(
    State(shared): State<Arc<Shared>>,
    id: Result<Path<u64>, PathRejection>,
    request: Request,
) -> Response {
    let Ok(Path(id)) = id else {
        let detail = "the number of an alarm is a whole number";
        return problem(StatusCode::BAD_REQUEST, "unreadable-number", detail);
    };
    let Some(watched) = &shared.watched else { return none() };
    let peer = request.extensions().get::<Peer>().copied();
    let desk = &shared.desk;
    let name = |mut body: Acknowledging| {
        body.alarm = id;
        body
    };
    let command = match desk.take_as(request, name).await {
        Ok(command) => command,
        Err(response) => return response,
    };
    let from = peer.map_or_else(|| "somebody".into(), |Peer(peer)| peer.ip().to_string());
    let by = match command.body.by.as_deref().map(str::trim) {
        None | Some("") => from,
        Some(name) if name.chars().count() > NAME_MAX => {
            let detail = format!("a name has at most {NAME_MAX} characters");
            command.log(StatusCode::BAD_REQUEST);
            return problem(StatusCode::BAD_REQUEST, "name-too-long", &detail);
        }
        Some(name) => format!("{name} ({from})"),
    };
    match watched.acknowledge(id, &by) {
        Ok(entry) => desk.close(command, StatusCode::OK, json!(entry)),
        Err(NotAcknowledged::Already(before)) => {
            let why = NotAcknowledged::Already(before.clone());
            let now = json!({ "acknowledged": before });
            desk.close(command, StatusCode::CONFLICT, conflict("acknowledged", why, now))
        }
        Err(unknown) => {
            command.log(StatusCode::NOT_FOUND);
            problem(StatusCode::NOT_FOUND, "unknown-alarm", &unknown.to_string())
        }
    }
}
