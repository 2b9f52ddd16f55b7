//! What a run rests on: its configuration, and the machine.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use gannet_control::doctor::Check;
use gannet_control::run::Basis;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;

use crate::calls::{Ask, Nothing, Reply};
use crate::problem::Problem;
use crate::site::Shared;

/// How long a look at the machine is shown before there is another.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The last look at the machine.
#[derive(Default)]
pub(crate) struct LastLook(Mutex<Option<(Instant, Arc<Vec<Check>>)>>);

/// The configuration of a run.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Configuration")]
pub(crate) struct Shown<'a> {
    /// The configuration as TOML, with every default filled in; secrets, and what may hold some, are withheld.
    text: &'a str,
}

/// The configuration of the run, or of the first that is to come.
pub(crate) async fn config(ask: Ask<Nothing>) -> Result<Reply<Shown<'static>>, Problem> {
    Ok(Reply::json(Shown { text: &basis(&ask.shared)?.configuration }))
}

/// How the machine suits the run.
pub(crate) async fn doctor(ask: Ask<Nothing>) -> Result<Reply<Vec<Check>>, Problem> {
    let (basis, snapshot) = (basis(&ask.shared)?, ask.shared.snapshot()?);
    // One looks at a time, and those who wait see what it saw.
    let mut last = ask.shared.last_look.0.lock().await;
    let checks = match &*last {
        Some((at, checks)) if at.elapsed() < LOOK_EVERY => Arc::clone(checks),
        _ => {
            let look = spawn_blocking(move || basis.examine(&snapshot)).await;
            let checks = Arc::new(look.map_err(|_defect| Problem::busy())?);
            *last = Some((Instant::now(), Arc::clone(&checks)));
            checks
        }
    };
    Ok(Reply::json(&*checks))
}

fn basis(shared: &Shared) -> Result<Arc<Basis>, Problem> {
    shared.present.views().basis.ok_or_else(|| {
        let detail = "this process does not tell what it was made of";
        Problem::new(StatusCode::NOT_FOUND, "no-configuration", detail)
    })
}
