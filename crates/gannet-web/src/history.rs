//! Figures over the last 24 hours.

use std::sync::Arc;

use axum::http::StatusCode;
use gannet_control::history::{Course, FIGURES_MAX};
use gannet_control::quantities::{KINDS, Kind, kind};
use gannet_control::watch::Watched;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calls::{Ask, Nothing, Reply};
use crate::problem::Problem;
use crate::site::Shared;

/// Time before the newest second from which a figure is told unless something else is asked for, in seconds.
const BACK_S: u64 = 600;

/// Which figure is to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Its name.
    figure: String,
    /// First second since 1970.
    from: Option<f64>,
    /// First second after.
    to: Option<f64>,
}

/// The figures that there are.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeptFigures")]
pub(crate) struct Listed<'a> {
    /// Each of them.
    figures: Vec<Named<'a>>,
    /// The newest second since 1970.
    newest: Option<u64>,
    /// Figures that are not kept, as there are too many.
    left_out: usize,
    /// Memory that all take, in bytes.
    bytes: usize,
}

#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KeptFigure")]
pub(crate) struct Named<'a> {
    /// Its name.
    name: &'a str,
    /// Its unit.
    unit: &'static str,
    /// What it is.
    meaning: &'static str,
}

/// A figure over some time.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "FigureCourse")]
pub(crate) struct Shown<'a> {
    /// Its name.
    figure: &'a str,
    /// Its unit.
    unit: &'static str,
    #[serde(flatten)]
    course: Course,
}

/// The figures whose course is kept.
pub(crate) async fn figures(ask: Ask<Nothing>) -> Result<Reply<Listed<'static>>, Problem> {
    let watched = watched(&ask.shared)?;
    let history = watched.history();
    let named = |name| Named { name, unit: of(name).unit, meaning: of(name).meaning };
    let figures = history.names().map(named).collect();
    let (newest, left_out) = (history.newest(), history.left_out());
    Ok(Reply::json(Listed { figures, newest, left_out, bytes: history.bytes() }))
}

/// A figure over some time.
pub(crate) async fn course(ask: Ask<Wanted>) -> Result<Reply<Shown<'static>>, Problem> {
    let Wanted { figure, from, to } = ask.wanted;
    let watched = watched(&ask.shared)?;
    let history = watched.history();
    let newest = history.newest().unwrap_or(0);
    let from = from.map_or(newest.saturating_sub(BACK_S), |from| from as u64);
    let to = to.map_or(u64::MAX, |to| to as u64);
    if to <= from {
        let detail = format!("the time from {from} to {to} is none");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "reversed-window", detail));
    }
    match history.course(&figure, from, to) {
        Some(course) => Ok(Reply::json(Shown { figure: &figure, unit: of(&figure).unit, course })),
        None => {
            let names: Vec<_> = history.names().collect();
            let meant = gannet_control::config::nearest(&figure, &names);
            let meant = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            let detail = format!("no figure {figure:?} is kept, of at most {FIGURES_MAX}{meant}");
            Err(Problem::new(StatusCode::NOT_FOUND, "unknown-figure", detail))
        }
    }
}

/// The kind of a figure.
fn of(name: &str) -> &'static Kind {
    kind(name.split(':').next().unwrap_or(name)).unwrap_or(&KINDS[0])
}

/// What is kept of a process that somebody looks at again and again.
pub(crate) fn watched(shared: &Shared) -> Result<Arc<Watched>, Problem> {
    shared.present.views().watched.ok_or_else(|| {
        let detail = "this process keeps no history, and no alarms";
        Problem::new(StatusCode::NOT_FOUND, "not-watched", detail)
    })
}
