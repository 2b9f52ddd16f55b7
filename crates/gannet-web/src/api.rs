//! What programs and pages ask: `/api/v1`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use gannet_control::drops;
use gannet_control::snapshot::Snapshot;
use gannet_measure::ledger::{Drop, Statement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::calls::{Ask, Calls, Nothing, Reply, Routes, done, seen};
use crate::document::Document;
use crate::events::{Events, SNAPSHOT, STATION};
use crate::finds::{decisions, primitives, record};
use crate::problem::Problem;
use crate::site::{self, Shared};
use crate::waveform::{channels, spectrum, waterfall, waveform};
use crate::{alarms, arrow, basis, faults, files, history, log, notes, station, status};

/// Where it is.
pub(crate) const BASE: &str = "/api/v1";

/// What is pushed.
const TOPICS: [&str; 2] = [SNAPSHOT, STATION];
/// Most events a second: as many as there are snapshots.
const RATE_MAX: f64 = 10.0;
/// Fewest, so that a connection that is gone is noticed.
const RATE_MIN: f64 = 0.1;

/// The kind of events that the server pushes.
const EVENT_STREAM: &str = "text/event-stream";

/// Kinds of answers that are columns of numbers.
const COLUMNS: &[&str] = &["application/json", arrow::KIND];

/// All calls. Who may do what is said here: whatever changes something is for `operate`, unless it says otherwise.
fn calls<C: Calls>(calls: C) -> C {
    calls
        .get("/state", seen("What the station is doing, and what it can be told."), station::state)
        .get("/runs", seen("The runs since the start, oldest first."), station::runs)
        .post("/run/start", done("Starts the next run.").accepted(), station::start)
        .post(
            "/run/stop",
            done("Ends the run, when all that was taken is written.").accepted(),
            station::stop,
        )
        .post(
            "/run/pause",
            done("Decides nothing until the run is resumed.").accepted(),
            station::pause,
        )
        .post("/run/resume", done("Decides again.").accepted(), station::resume)
        .get("/snapshot", seen("Everything that is known of the run."), snapshot)
        .get(
            "/events",
            seen("Each new snapshot, and what the station is doing, pushed.")
                .of_kinds(&[EVENT_STREAM]),
            events,
        )
        .get("/reasons", seen("What each reason for a drop means, and what can be done."), reasons)
        .get("/ledger", seen("What each stage was offered, and what became of it."), status::ledger)
        .get("/streams", seen("The streams, and what came of them."), status::streams)
        .get("/channels", seen("The channels whose samples can be seen, by stream."), channels)
        .get("/waveform", seen("The samples of a channel.").of_kinds(COLUMNS), waveform)
        .get("/waterfall", seen("Time against channel of a stream."), waterfall)
        .get("/spectrum", seen("The spectrum of a channel."), spectrum)
        .get("/primitives", seen("Primitives of the last moments.").of_kinds(COLUMNS), primitives)
        .get("/decisions", seen("The newest decisions, oldest first."), decisions)
        .get("/records/{number}", seen("What is in the window of a decision."), record)
        .get("/faults", seen("Faults of an emulated front end, and what they did."), faults::list)
        .post("/faults", done("Puts a fault into an emulated front end.").created(), faults::inject)
        .get("/figures", seen("The figures whose course is kept."), history::figures)
        .get("/history", seen("A figure over some time."), history::course)
        .get(
            "/alarms",
            seen("The alarms that are raised, those that were, and the rules."),
            alarms::list,
        )
        .post("/alarms/{id}/acknowledge", done("Notes who has seen an alarm."), alarms::acknowledge)
        .get("/files", seen("The files of all runs, oldest first."), files::list)
        .get(
            "/files/{id}/content",
            seen("A copy of a file.").of_kinds(&[files::KIND]),
            files::content,
        )
        .post(
            "/files/{id}/verify",
            done("Reads a file back, to see whether it is as it was written.").accepted(),
            files::verify,
        )
        .get("/notes", seen("The last notes, oldest first."), notes::list)
        .post("/notes", done("Writes a note down.").created(), notes::write)
        .get("/doctor", seen("How the machine suits the run."), basis::doctor)
        .get("/config", seen("The configuration of the run, without secrets."), basis::config)
        .get("/log", seen("The last lines of the log."), log::log)
        .get("/openapi.json", seen("This description."), openapi)
}

pub(crate) fn router() -> Router<Arc<Shared>> {
    let routes = calls(Routes::default()).0;
    routes.fallback(no_call).method_not_allowed_fallback(no_method)
}

/// The description of the interface: an OpenAPI document.
pub fn description() -> Value {
    calls(Document::new(BASE)).finish()
}

async fn no_call() -> Problem {
    let detail = format!("there is no such call; {BASE}/openapi.json lists all");
    Problem::new(StatusCode::NOT_FOUND, "unknown-call", detail)
}

async fn no_method(method: Method) -> Problem {
    let detail = format!("{method} is not possible here; the header `Allow` tells what is");
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", detail)
}

async fn openapi(_: Ask<Nothing>) -> Result<Reply<Map<String, Value>>, Problem> {
    static TEXT: LazyLock<Bytes> = LazyLock::new(|| description().to_string().into());
    Ok(Reply::bytes("application/json", TEXT.clone()))
}

async fn snapshot(ask: Ask<Nothing>) -> Result<Reply<Snapshot>, Problem> {
    Ok(Reply::made(site::json_snapshot(&ask.shared)))
}

/// What is to be pushed.
#[derive(Deserialize, JsonSchema)]
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

async fn events(ask: Ask<Wanted>) -> Result<Reply<String>, Problem> {
    let control = ask.may_command();
    let Wanted { topics, rate } = ask.wanted;
    if let Some(topic) = topics.split(',').find(|topic| !TOPICS.contains(topic)) {
        let detail = format!("there is no topic {topic:?}; there are {}", TOPICS.join(" and "));
        return Err(Problem::new(StatusCode::BAD_REQUEST, "unknown-topic", detail));
    }
    if !(RATE_MIN..=RATE_MAX).contains(&rate) {
        let detail = format!("rate={rate} is not {RATE_MIN} to {RATE_MAX} events a second");
        return Err(Problem::new(StatusCode::BAD_REQUEST, "rate-out-of-range", detail));
    }
    let period = Duration::from_secs_f64(rate.recip());
    let events = Events::new(ask.shared, &topics, period, control);
    Ok(Reply::bytes(EVENT_STREAM, Body::new(events)))
}

/// A stage of the ledger, and the reasons for which it drops.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "StageReasons")]
struct Stage<'a> {
    /// Name of the stage.
    stage: &'a str,
    /// Its reasons.
    reasons: Vec<Why<'a>>,
}

/// Why something is dropped.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Reason")]
struct Why<'a> {
    /// Name of the reason.
    reason: &'a str,
    /// What it means, in a sentence.
    meaning: &'a str,
    /// What can be done about it.
    advice: Option<&'a str>,
    /// Whether it is a loss of what the run is for.
    is_loss: bool,
}

/// What the names in the ledger of this run mean, and what can be done.
async fn reasons(ask: Ask<Nothing>) -> Result<Reply<Vec<Stage<'static>>>, Problem> {
    let snapshot = ask.shared.snapshot()?;
    let stages = snapshot.ledger.iter().map(|Statement { stage, dropped, .. }| {
        let reasons = dropped.iter().map(|Drop { reason, meaning, .. }| {
            let (advice, is_loss) = (drops::advice(stage, reason), drops::is_loss(stage, reason));
            Why { reason, meaning, advice, is_loss }
        });
        Stage { stage, reasons: reasons.collect() }
    });
    Ok(Reply::json(stages.collect::<Vec<_>>()))
}
