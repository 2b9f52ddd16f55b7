//! Primitives, decisions, and the event display of a decision.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::finds::{
    Choice, Chosen, Decided, EventDisplay, Finds, Held, MARKS_MAX, Mark, NoFinds,
};
use serde::{Deserialize, Serialize};

use crate::api::{problem, unreadable};
use crate::limits::MARKS_PER_TURN;
use crate::site::Shared;

/// Which primitives are to be shown.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Number of the channel; all where it is absent.
    channel: Option<u32>,
    /// First tick.
    from: Option<u64>,
    /// First tick after.
    to: Option<u64>,
    /// The newest of them, so many at most.
    #[serde(default = "last_primitives")]
    last: usize,
}

fn last_primitives() -> usize {
    1000
}

/// How many decisions are to be listed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedDecisions {
    #[serde(default = "last_decisions")]
    last: usize,
}

fn last_decisions() -> usize {
    50
}

/// Primitives by columns: one is a number of each.
#[derive(Default, Serialize)]
struct Columns {
    /// First tick, after `from`.
    time: Vec<u64>,
    channel: Vec<u32>,
    /// Ticks.
    length: Vec<u32>,
    charge: Vec<u32>,
}

impl Columns {
    fn of(marks: &[Mark], from: u64) -> Self {
        let mut columns = Self::default();
        for mark in marks {
            columns.time.push(mark.time - from);
            columns.channel.push(mark.channel);
            columns.length.push(mark.length);
            columns.charge.push(mark.charge);
        }
        columns
    }
}

/// Primitives.
#[derive(Serialize)]
struct Primitives {
    /// Tick from which the times count.
    from: u64,
    ticks_per_s: u64,
    /// Ticks that are held.
    held: Option<Held>,
    /// How many were kept of those that came in their time.
    kept: u64,
    seen: u64,
    /// Those that nobody fetched in time, since the start.
    missed: u64,
    primitives: Columns,
}

impl Primitives {
    fn of(Chosen { held, marks, kept, seen, missed }: Chosen, from: u64, finds: &Finds) -> Self {
        let ticks_per_s = finds.ticks_per_s();
        let primitives = Columns::of(&marks, from);
        Self { from, ticks_per_s, held, kept, seen, missed, primitives }
    }
}

/// A decision.
#[derive(Serialize)]
struct Decision {
    number: u64,
    kind: String,
    time: u64,
    begin: u64,
    end: u64,
}

impl Decision {
    fn of(decided: &Decided, finds: &Finds) -> Self {
        let (number, kind, time) = (decided.number, finds.kind(decided), decided.time);
        Self { number, kind, time, begin: decided.window.begin, end: decided.window.end }
    }
}

/// The newest decisions.
#[derive(Serialize)]
struct Decisions {
    ticks_per_s: u64,
    /// Ticks whose primitives are held.
    held: Option<Held>,
    decisions: Vec<Decision>,
}

/// An activity, its times as those of the primitives.
#[derive(Serialize)]
struct Activity {
    begin: i64,
    end: i64,
    channel_first: u32,
    channel_last: u32,
}

/// What is seen of a decision.
#[derive(Serialize)]
struct Event {
    decision: Decision,
    /// Whether all of the window has come.
    is_complete: bool,
    activities: Vec<Activity>,
    #[serde(flatten)]
    primitives: Primitives,
}

/// Primitives of the last moments.
pub(crate) async fn primitives(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Wanted { channel, from, to, last } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(finds) = shared.present.views().finds else { return none() };
    shared.pace.take(last.min(MARKS_MAX) / MARKS_PER_TURN).await;
    match finds.primitives(&Choice { channel, from, to, last }) {
        Ok(chosen) => {
            let first = chosen.marks.first().map_or(0, |mark| mark.time);
            Json(Primitives::of(chosen, from.unwrap_or(first), &finds)).into_response()
        }
        Err(no) => refusal(&no),
    }
}

/// The newest decisions, oldest first.
pub(crate) async fn decisions(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<WantedDecisions>, QueryRejection>,
) -> Response {
    let WantedDecisions { last } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    let Some(finds) = shared.present.views().finds else { return none() };
    match finds.decisions(last) {
        Ok((decided, held)) => {
            let decisions = decided.iter().map(|each| Decision::of(each, &finds)).collect();
            let ticks_per_s = finds.ticks_per_s();
            Json(Decisions { ticks_per_s, held, decisions }).into_response()
        }
        Err(no) => refusal(&no),
    }
}

/// A decision with the primitives and activities in its window.
pub(crate) async fn record(
    State(shared): State<Arc<Shared>>,
    number: Result<Path<u64>, PathRejection>,
) -> Response {
    let Ok(Path(number)) = number else {
        let detail = "a record has a number: /api/v1/records/1";
        return problem(StatusCode::BAD_REQUEST, "unreadable-number", detail);
    };
    let Some(finds) = shared.present.views().finds else { return none() };
    shared.pace.take(MARKS_MAX / MARKS_PER_TURN).await;
    match finds.display(number) {
        Ok(EventDisplay { decided, chosen, activities, is_complete }) => {
            let from = decided.window.begin;
            let after = |tick: u64| tick.wrapping_sub(from).cast_signed();
            let activities = activities.iter().map(|activity| Activity {
                begin: after(activity.begin),
                end: after(activity.end),
                channel_first: activity.channel_first,
                channel_last: activity.channel_last,
            });
            Json(Event {
                decision: Decision::of(&decided, &finds),
                is_complete,
                activities: activities.collect(),
                primitives: Primitives::of(chosen, from, &finds),
            })
            .into_response()
        }
        Err(no) => refusal(&no),
    }
}

fn refusal(no: &NoFinds) -> Response {
    let (status, code) = match no {
        NoFinds::TooMuch { .. } => (StatusCode::PAYLOAD_TOO_LARGE, "too-much"),
        NoFinds::Reversed { .. } => (StatusCode::BAD_REQUEST, "reversed-window"),
        NoFinds::Nothing => (StatusCode::NOT_FOUND, "nothing-yet"),
        NoFinds::Overwritten { .. } | NoFinds::Gone { .. } => (StatusCode::GONE, "overwritten"),
        NoFinds::Unknown { .. } => (StatusCode::NOT_FOUND, "unknown-record"),
    };
    problem(status, code, &no.to_string())
}

fn none() -> Response {
    let detail = "this detector shows no primitives, or another process decides: the builder";
    problem(StatusCode::NOT_FOUND, "no-primitives", detail)
}
