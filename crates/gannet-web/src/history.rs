//! Figures over the last 24 hours.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::history::{Course, FIGURES_MAX};
use gannet_control::quantities::{KINDS, Kind, kind};
use serde::{Deserialize, Serialize};

use crate::api::{problem, unreadable};
use crate::site::Shared;

/// Time before the newest second from which a figure is told unless something else is asked for, in seconds.
const BACK_S: u64 = 600;

/// Which figure is to be shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Its name.
    figure: String,
    /// First second since 1970.
    from: Option<u64>,
    /// First second after.
    to: Option<u64>,
}

/// The figures that there are.
#[derive(Serialize)]
struct Listed<'a> {
    figures: Vec<Named<'a>>,
    /// The newest second since 1970.
    newest: Option<u64>,
    /// Figures that are not kept, as there are too many.
    left_out: usize,
    /// Memory that all take, in bytes.
    bytes: usize,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    unit: &'static str,
    meaning: &'static str,
}

/// A figure over some time.
#[derive(Serialize)]
struct Shown<'a> {
    figure: &'a str,
    unit: &'static str,
    #[serde(flatten)]
    course: Course,
}

/// The figures whose course is kept.
pub(crate) async fn figures(State(shared): State<Arc<Shared>>) -> Response {
    let Some(watched) = &shared.watched else { return none() };
    let history = watched.history();
    let named = |name| Named { name, unit: of(name).unit, meaning: of(name).meaning };
    let figures = history.names().map(named).collect();
    let (newest, left_out) = (history.newest(), history.left_out());
    Json(Listed { figures, newest, left_out, bytes: history.bytes() }).into_response()
}

/// A figure over some time.
pub(crate) async fn course(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Wanted { figure, from, to } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(watched) = &shared.watched else { return none() };
    let history = watched.history();
    let newest = history.newest().unwrap_or(0);
    let from = from.unwrap_or(newest.saturating_sub(BACK_S));
    match history.course(&figure, from, to.unwrap_or(u64::MAX)) {
        Some(course) => {
            Json(Shown { figure: &figure, unit: of(&figure).unit, course }).into_response()
        }
        None => {
            let names: Vec<_> = history.names().collect();
            let meant = gannet_control::config::nearest(&figure, &names);
            let meant = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
            let detail = format!("no figure {figure:?} is kept, of at most {FIGURES_MAX}{meant}");
            problem(StatusCode::NOT_FOUND, "unknown-figure", &detail)
        }
    }
}

/// The kind of a figure.
fn of(name: &str) -> &'static Kind {
    kind(name.split(':').next().unwrap_or(name)).unwrap_or(&KINDS[0])
}

/// Nobody looks at this process again and again.
pub(crate) fn none() -> Response {
    let detail = "this process keeps no history, and no alarms";
    problem(StatusCode::NOT_FOUND, "not-watched", detail)
}
