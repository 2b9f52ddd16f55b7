//! Parts of the newest snapshot: its ledger and streams.

use axum::http::StatusCode;
use gannet_control::config::nearest;
use gannet_control::snapshot::StreamSnapshot;
use gannet_measure::ledger::Statement;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::calls::{Ask, Reply};
use crate::problem::Problem;

/// Which stages are to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedStages {
    /// Name of the stage; all where it is absent.
    stage: Option<String>,
}

/// What each stage was offered, and what became of it.
pub(crate) async fn ledger(ask: Ask<WantedStages>) -> Result<Reply<Vec<Statement>>, Problem> {
    let snapshot = ask.shared.snapshot()?;
    let stages =
        chosen("stage", ask.wanted.stage.as_deref(), &snapshot.ledger, |stage| &*stage.stage)?;
    Ok(Reply::json(stages))
}

/// Which streams are to be shown.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedStreams {
    /// Name of the stream; all where it is absent.
    stream: Option<String>,
}

/// The streams and what came of them.
pub(crate) async fn streams(
    ask: Ask<WantedStreams>,
) -> Result<Reply<Vec<StreamSnapshot>>, Problem> {
    let snapshot = ask.shared.snapshot()?;
    let streams =
        chosen("stream", ask.wanted.stream.as_deref(), &snapshot.streams, |stream| &*stream.name)?;
    Ok(Reply::json(streams))
}

/// Those of `all` that are called `name`, or else all; `what` they are is told where none is.
fn chosen<'a, T>(
    what: &str,
    name: Option<&str>,
    all: &'a [T],
    name_of: impl Fn(&T) -> &str,
) -> Result<Vec<&'a T>, Problem> {
    let Some(name) = name else { return Ok(all.iter().collect()) };
    let found: Vec<_> = all.iter().filter(|one| name_of(one) == name).collect();
    if !found.is_empty() {
        return Ok(found);
    }
    let names: Vec<_> = all.iter().map(&name_of).collect();
    // Of names that have nothing in common with it, the first shows what such names look like.
    let near = nearest(name, &names).or(names.first().copied());
    let near =
        near.map_or_else(|| "there is none".to_owned(), |near| format!("the nearest is {near}"));
    let detail = format!("there is no {what} {name:?}; {near}");
    let code = if what == "stage" { "unknown-stage" } else { "unknown-stream" };
    Err(Problem::new(StatusCode::NOT_FOUND, code, detail))
}
