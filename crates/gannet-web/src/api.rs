//! What programs and pages ask: `/api/v1`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use gannet_control::drops;
use gannet_measure::ledger::{Drop, Statement};
use serde::{Deserialize, Serialize};

use crate::events::{Events, SNAPSHOT, STATION};
use crate::faults;
use crate::finds::{decisions, primitives, record};
use crate::site::{Shared, snapshot};
use crate::station;
use crate::waveform::{channels, spectrum, waterfall, waveform};

/// What is pushed.
const TOPICS: [&str; 2] = [SNAPSHOT, STATION];
/// Most events a second: as many as there are snapshots.
const RATE_MAX: f64 = 10.0;
/// Fewest, so that a connection that is gone is noticed.
const RATE_MIN: f64 = 0.1;

pub(crate) fn router() -> Router<Arc<Shared>> {
    Router::new()
        .route("/snapshot", get(snapshot))
        .route("/events", get(events))
        .route("/reasons", get(reasons))
        .route("/channels", get(channels))
        .route("/waveform", get(waveform))
        .route("/waterfall", get(waterfall))
        .route("/spectrum", get(spectrum))
        .route("/primitives", get(primitives))
        .route("/decisions", get(decisions))
        .route("/records/{number}", get(record))
        .route("/state", get(station::state))
        .route("/runs", get(station::runs))
        .route("/run/{command}", post(station::command))
        .route("/faults", get(faults::list).post(faults::inject))
}

/// What is to be pushed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    /// Topics, with commas between them; there are `snapshot` and `station`.
    #[serde(default = "snapshots")]
    topics: String,
    /// Events a second at most.
    #[serde(default = "rate_max")]
    rate: f64,
}

fn snapshots() -> String {
    SNAPSHOT.into()
}

fn rate_max() -> f64 {
    RATE_MAX
}

async fn events(
    State(shared): State<Arc<Shared>>,
    wanted: Result<Query<Wanted>, QueryRejection>,
) -> Response {
    let Wanted { topics, rate } = match wanted {
        Ok(Query(wanted)) => wanted,
        Err(rejection) => return unreadable(&rejection),
    };
    if let Some(topic) = topics.split(',').find(|topic| !TOPICS.contains(topic)) {
        let detail = format!("there is no topic {topic:?}; there are {}", TOPICS.join(" and "));
        return problem(StatusCode::BAD_REQUEST, "unknown-topic", &detail);
    }
    if !(RATE_MIN..=RATE_MAX).contains(&rate) {
        let detail = format!("rate={rate} is not {RATE_MIN} to {RATE_MAX} events a second");
        return problem(StatusCode::BAD_REQUEST, "rate-out-of-range", &detail);
    }
    let period = Duration::from_secs_f64(rate.recip());
    let events = Events::new(shared, &topics, period);
    ([(CONTENT_TYPE, "text/event-stream")], Body::new(events)).into_response()
}

/// A stage of the ledger, and the reasons for which it drops.
#[derive(Serialize)]
struct Stage<'a> {
    stage: &'a str,
    reasons: Vec<Why<'a>>,
}

/// Why something is dropped.
#[derive(Serialize)]
struct Why<'a> {
    reason: &'a str,
    meaning: &'a str,
    advice: Option<&'a str>,
    /// Whether it is a loss of what the run is for.
    is_loss: bool,
}

/// What the names in the ledger of this run mean, and what can be done.
async fn reasons(State(shared): State<Arc<Shared>>) -> Response {
    let Ok(snapshot) = shared.forms.snapshot() else {
        return busy();
    };
    let stages = snapshot.ledger.iter().map(|Statement { stage, dropped, .. }| {
        let reasons = dropped.iter().map(|Drop { reason, meaning, .. }| {
            let (advice, is_loss) = (drops::advice(stage, reason), drops::is_loss(stage, reason));
            Why { reason, meaning, advice, is_loss }
        });
        Stage { stage, reasons: reasons.collect() }
    });
    Json(stages.collect::<Vec<_>>()).into_response()
}

/// There is no snapshot now.
pub(crate) fn busy() -> Response {
    problem(StatusCode::SERVICE_UNAVAILABLE, "busy", "ask again")
}

/// What is wrong with what follows the question mark.
pub(crate) fn unreadable(rejection: &QueryRejection) -> Response {
    problem(StatusCode::BAD_REQUEST, "unreadable-query", &rejection.body_text())
}

/// Why a request is not answered, as RFC 9457 has it: a `code` that stays, and a sentence.
pub(crate) fn problem(status: StatusCode, code: &'static str, detail: &str) -> Response {
    let title = status.canonical_reason().unwrap_or_default();
    let problem = serde_json::json!({
        "title": title, "status": status.as_u16(), "code": code, "detail": detail,
    });
    let kind = HeaderValue::from_static("application/problem+json");
    (status, [(CONTENT_TYPE, kind)], problem.to_string()).into_response()
}
