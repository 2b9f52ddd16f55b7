//! Notes of people on shift.

use axum::http::StatusCode;
use gannet_control::notes::{NotKept, Note, Notes};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;

use crate::calls::{Ask, Nothing, Reply};
use crate::problem::Problem;
use crate::site::Shared;

/// What somebody writes.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "NoteWritten")]
pub(crate) struct Written {
    /// Number of the run that it is about.
    run: Option<u32>,
    /// Who writes.
    #[serde(default)]
    by: String,
    /// What it says.
    #[schemars(example = &"The beam is back.")]
    text: String,
}

/// The last notes, oldest first.
pub(crate) async fn list(ask: Ask<Nothing>) -> Result<Reply<Vec<Note>>, Problem> {
    let notes = notes(&ask.shared)?;
    // A disk may not answer.
    let last = spawn_blocking(move || notes.last()).await.map_err(|_defect| Problem::busy())?;
    last.map(Reply::json).map_err(|error| {
        let detail = format!("the notes cannot be read: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "notes", detail)
    })
}

/// Writes a note down.
pub(crate) async fn write(ask: Ask<Written>) -> Result<Note, Problem> {
    let notes = notes(&ask.shared)?;
    let Written { run, by, text } = ask.wanted;
    let station = ask.shared.desk.commands.station.as_ref();
    let runs = station.map(|station| station.runs()).unwrap_or_default();
    let is_known = runs.iter().any(|known| known.number == run);
    let last = runs.iter().filter_map(|run| run.number).next_back();
    let written = spawn_blocking(move || match run {
        // One of an earlier process has its files at most.
        Some(run) if !is_known && !notes.lie_beside(run) => Err(unknown_run(run, last)),
        run => notes.write(run, &by, &text).map_err(problem),
    });
    written.await.map_err(|_defect| Problem::busy())?
}

fn unknown_run(run: u32, last: Option<u32>) -> Problem {
    let last = last.map(|last| format!("; the last one is {last}")).unwrap_or_default();
    Problem::new(StatusCode::NOT_FOUND, "unknown-run", format!("there is no run {run}{last}"))
}

fn problem(not: NotKept) -> Problem {
    let (status, code) = match not {
        NotKept::Length => (StatusCode::BAD_REQUEST, "note-length"),
        NotKept::Character(_) => (StatusCode::BAD_REQUEST, "note-character"),
        NotKept::Nowhere(_) => (StatusCode::NOT_FOUND, "no-notes"),
        NotKept::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "notes-full"),
        NotKept::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "notes"),
    };
    Problem::new(status, code, not.to_string())
}

fn notes(shared: &Shared) -> Result<Notes, Problem> {
    shared.desk.commands.notes.clone().ok_or_else(|| {
        let detail = "nothing is recorded, so there is no place for notes";
        Problem::new(StatusCode::NOT_FOUND, "no-notes", detail)
    })
}
