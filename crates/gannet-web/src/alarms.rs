//! Alarms: which are raised, by which rules, and acknowledging one.

use axum::http::StatusCode;
use gannet_control::alarm::board::{Board, Entry, NotAcknowledged};
use gannet_control::alarm::rule::{Limit, Rule};
use gannet_control::notes::{NAME_MAX, odd_character};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::calls::{Ask, Nothing, Reply};
use crate::commands::Peer;
use crate::history::watched;
use crate::problem::Problem;

/// The alarms of a process, and its rules.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Alarms")]
pub(crate) struct Listed<'a> {
    #[serde(flatten)]
    board: &'a Board,
    /// What raises alarms.
    rules: Vec<Ruled<'a>>,
    /// Whether alarms can be acknowledged.
    control: bool,
}

/// A rule.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "AlarmRule")]
struct Ruled<'a> {
    /// What it is called.
    name: &'a str,
    /// The figure that it looks at.
    figure: &'a str,
    /// Unit of the figure.
    unit: &'static str,
    /// It raises an alarm above this.
    above: Option<f64>,
    /// Or below this.
    below: Option<f64>,
    /// The alarm clears on the other side of this.
    clear: f64,
    /// Seconds for which the figure is beyond its limit before the alarm is raised.
    hold_s: f64,
    /// Seconds for which it is back before the alarm clears.
    quiet_s: f64,
    /// What it means that the alarm is raised.
    meaning: &'a str,
    /// What to do.
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
pub(crate) async fn list(ask: Ask<Nothing>) -> Result<Reply<Listed<'static>>, Problem> {
    let watched = watched(&ask.shared)?;
    let rules = watched.rules().iter().map(Ruled::from).collect();
    let (board, control) = (&*watched.board(), ask.may_command());
    Ok(Reply::json(Listed { board, rules, control }))
}

/// Who acknowledges an alarm.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Acknowledging {
    /// What people call them; the address that they come from where it is absent.
    by: Option<String>,
}

/// Notes who has seen an alarm.
pub(crate) async fn acknowledge(ask: Ask<Acknowledging>) -> Result<Entry, Problem> {
    let id = ask.place("id")?;
    let watched = watched(&ask.shared)?;
    let from = ask.peer.map_or_else(|| "somebody".into(), |Peer(peer)| peer.ip().to_string());
    let by = match ask.wanted.by.as_deref().map(str::trim) {
        None | Some("") => from,
        Some(name) if name.chars().count() > NAME_MAX => {
            let detail = format!("a name has at most {NAME_MAX} characters");
            return Err(Problem::new(StatusCode::BAD_REQUEST, "name-too-long", detail));
        }
        Some(name) if name.contains('\n') || odd_character(name).is_some() => {
            let detail = "a name is one line of characters that can be seen";
            return Err(Problem::new(StatusCode::BAD_REQUEST, "name-character", detail));
        }
        Some(name) => format!("{name} ({from})"),
    };
    watched.acknowledge(id, &by).map_err(|no| match &no {
        NotAcknowledged::Already(before) => {
            let problem = Problem::new(StatusCode::CONFLICT, "acknowledged", no.to_string());
            problem.while_it_is(json!({ "acknowledged": before }))
        }
        _ => Problem::new(StatusCode::NOT_FOUND, "unknown-alarm", no.to_string()),
    })
}
