//! Faults in a run whose front end is emulated: which there are, what they did, and putting one in.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::emulation::{FaultAccount, Faults, Injection, Refused};
use gannet_control::run_control::State as RunState;
use gannet_control::snapshot::Snapshot;
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
    faults: Vec<FaultAccount>,
    /// The last that were put in, oldest first.
    injections: Vec<Injection>,
}

/// Which faults can be put in, and what those did that were. None without an emulated front end.
pub(crate) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let commands = &shared.desk.commands;
    let Ok(snapshot) = shared.forms.snapshot() else {
        return busy();
    };
    let faults = commands.faults.iter().flat_map(|faults| faults.accounts(&snapshot)).collect();
    let injections = commands.faults.iter().flat_map(|faults| faults.injections()).collect();
    Json(Listed { control: commands.allowed, faults, injections }).into_response()
}

/// Puts a fault in.
pub(crate) async fn inject(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let desk = &shared.desk;
    let Some(faults) = &desk.commands.faults else {
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
    if snapshot.state != RunState::Running {
        let detail = "faults are put into a run that takes frames";
        let now = json!({ "state": snapshot.state });
        return desk.close(command, StatusCode::CONFLICT, conflict("not-running", detail, now));
    }
    match put_in(faults, &command.body, &snapshot) {
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

fn put_in(faults: &Faults, wanted: &Wanted, snapshot: &Snapshot) -> Result<Injection, Refused> {
    let time = Duration::try_from_secs_f64(wanted.seconds).map_err(|_| Refused::Time)?;
    faults.inject(&wanted.fault, wanted.stream.as_deref(), time, snapshot)
}
