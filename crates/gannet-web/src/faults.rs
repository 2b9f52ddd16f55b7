//! Faults in a run whose front end is emulated: which there are, what they did, and putting one in.

use std::time::Duration;

use axum::http::StatusCode;
use gannet_control::emulation::{FaultAccount, Faults, Injection, Refused};
use gannet_control::run_control::State as RunState;
use gannet_control::snapshot::Snapshot;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::calls::{Ask, Nothing, Reply};
use crate::problem::Problem;

/// Time for which a fault is on unless something else is asked for, in seconds.
const SECONDS: f64 = 5.0;

/// What is asked for.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "FaultWanted")]
pub(crate) struct Wanted {
    /// Name of the fault.
    #[schemars(example = &"loss")]
    fault: String,
    /// For how long, in seconds of the time in which the front end sends.
    #[serde(default = "seconds")]
    seconds: f64,
    /// The stream, if the fault is one of a single stream; the first when absent.
    stream: Option<String>,
}

fn seconds() -> f64 {
    SECONDS
}

/// The faults of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Faults")]
pub(crate) struct Listed {
    /// Whether they can be put in.
    control: bool,
    /// Each of them.
    faults: Vec<FaultAccount>,
    /// The last that were put in, oldest first.
    injections: Vec<Injection>,
}

/// Which faults can be put in, and what those did that were. None without an emulated front end.
pub(crate) async fn list(ask: Ask<Nothing>) -> Result<Reply<Listed>, Problem> {
    let faults = ask.shared.present.views().faults;
    let snapshot = ask.shared.snapshot()?;
    let injections = faults.iter().flat_map(|faults| faults.injections()).collect();
    let faults = faults.iter().flat_map(|faults| faults.accounts(&snapshot)).collect();
    let control = ask.may_command();
    Ok(Reply::json(Listed { control, faults, injections }))
}

/// Puts a fault in.
pub(crate) async fn inject(ask: Ask<Wanted>) -> Result<Injection, Problem> {
    let Some(faults) = ask.shared.present.views().faults else {
        let detail =
            "the frames of this run come from no emulated front end, and nothing else is harmed";
        return Err(Problem::new(StatusCode::NOT_FOUND, "no-emulated-front-end", detail));
    };
    let snapshot = ask.shared.snapshot()?;
    let state = snapshot.state;
    if !matches!(state, RunState::Running | RunState::Paused) {
        let detail = "faults are put into a run that takes frames";
        let problem = Problem::new(StatusCode::CONFLICT, "not-running", detail);
        return Err(problem.while_it_is(json!({ "state": state })));
    }
    put_in(&faults, &ask.wanted, &snapshot).map_err(|refused| {
        let (status, code) = match refused {
            Refused::Busy(_) => (StatusCode::CONFLICT, "fault-under-way"),
            Refused::UnknownFault(_) => (StatusCode::NOT_FOUND, "unknown-fault"),
            Refused::UnknownStream(_) => (StatusCode::NOT_FOUND, "unknown-stream"),
            Refused::NoStream => (StatusCode::BAD_REQUEST, "no-single-stream"),
            Refused::Time => (StatusCode::BAD_REQUEST, "seconds-out-of-range"),
        };
        let problem = Problem::new(status, code, refused.to_string());
        match refused {
            Refused::Busy(under_way) => {
                problem.while_it_is(json!({ "state": state, "under_way": under_way }))
            }
            _ => problem,
        }
    })
}

fn put_in(faults: &Faults, wanted: &Wanted, snapshot: &Snapshot) -> Result<Injection, Refused> {
    let time = Duration::try_from_secs_f64(wanted.seconds).map_err(|_| Refused::Time)?;
    faults.inject(&wanted.fault, wanted.stream.as_deref(), time, snapshot)
}
