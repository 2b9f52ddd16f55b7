//! Faults in an emulated front end: which there are, what they did, and putting one in.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::emulation::{Faults, Injectable, Injection, Refused};
use gannet_control::run_control::State as RunState;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::api::{busy, problem};
use crate::commands::conflict;
use crate::site::Shared;

/// Time for which a fault is on unless something else is asked for, in seconds.
const SECONDS: f64 = 5.0;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wanted {
    /// Name of the fault.
    fault: String,
    /// For how long, of the time in which the front end sends.
    #[serde(default = "seconds")]
    seconds: f64,
    /// The stream, if the fault is one of a single stream; the first when absent.
    stream: Option<String>,
}

fn seconds() -> f64 {
    SECONDS
}

/// The faults of a run.
#[derive(Serialize)]
struct Listed {
    /// Whether they can be put in.
    control: bool,
    faults: Vec<Entry>,
    /// The last that were put in, oldest first.
    injections: Vec<Injection>,
}

#[derive(Serialize)]
struct Entry {
    #[serde(flatten)]
    what: &'static Injectable,
    /// Frames that suffered it since the run began, as the front end knows.
    truth: u64,
    /// What the run has counted at its stage for its reason, from whatever cause.
    counted: u64,
}

/// Which faults can be put in, and what those did that were. None without an emulated front end.
pub(crate) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let faults = shared.present.views().faults;
    let Ok(snapshot) = shared.forms.snapshot() else {
        return busy();
    };
    let entry = |(what, truth): (&'static Injectable, u64)| {
        let counted = what.counted(&snapshot);
        Entry { what, truth, counted }
    };
    let injections = faults.iter().flat_map(|faults| faults.injections()).collect();
    let faults = faults.iter().flat_map(|faults| faults.all()).map(entry).collect();
    Json(Listed { control: shared.desk.commands.allowed, faults, injections }).into_response()
}

/// Puts a fault in.
pub(crate) async fn inject(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let desk = &shared.desk;
    let Some(faults) = shared.present.views().faults else {
        let detail =
            "the frames of this run come from no emulated front end, and nothing else is harmed";
        return problem(StatusCode::NOT_FOUND, "no-emulated-front-end", detail);
    };
    let command = match desk.take::<Wanted>(request).await {
        Ok(command) => command,
        Err(response) => return response,
    };
    let Ok(snapshot) = shared.forms.snapshot() else {
        return busy();
    };
    if !matches!(snapshot.state, RunState::Running | RunState::Paused) {
        let detail = "faults are put into a run that takes frames";
        let now = json!({ "state": snapshot.state });
        return desk.close(command, StatusCode::CONFLICT, conflict("not-running", detail, now));
    }
    match put_in(&faults, &command.body) {
        Ok(injection) => desk.close(command, StatusCode::CREATED, json!(injection)),
        Err(Refused::Busy(under_way)) => {
            let detail = "a fault is on already; wait until it is over";
            let now = json!({ "state": snapshot.state, "under_way": under_way });
            desk.close(command, StatusCode::CONFLICT, conflict("fault-under-way", detail, now))
        }
        Err(refused) => {
            let (status, code) = match refused {
                Refused::UnknownFault(_) => (StatusCode::NOT_FOUND, "unknown-fault"),
                Refused::UnknownStream(_) => (StatusCode::NOT_FOUND, "unknown-stream"),
                Refused::NoStream => (StatusCode::BAD_REQUEST, "no-single-stream"),
                _ => (StatusCode::BAD_REQUEST, "seconds-out-of-range"),
            };
            command.log(status);
            problem(status, code, &refused.to_string())
        }
    }
}

fn put_in(faults: &Faults, wanted: &Wanted) -> Result<Injection, Refused> {
    let time = Duration::try_from_secs_f64(wanted.seconds).map_err(|_| Refused::Time)?;
    faults.inject(&wanted.fault, wanted.stream.as_deref(), time)
}
