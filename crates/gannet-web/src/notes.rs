//! Notes of people on shift.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use gannet_control::notes::{NotKept, Notes};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::task::spawn_blocking;

use crate::api::{busy, problem};
use crate::site::Shared;

/// What somebody writes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    /// Number of the run that it is about.
    run: Option<u32>,
    /// Who writes.
    #[serde(default)]
    by: String,
    /// What it says.
    text: String,
}

/// The last notes, oldest first.
pub(crate) async fn list(State(shared): State<Arc<Shared>>) -> Response {
    let Some(notes) = notes(&shared) else { return none() };
    // A disk may not answer.
    match spawn_blocking(move || notes.last()).await {
        Ok(Ok(notes)) => Json(notes).into_response(),
        Ok(Err(error)) => {
            let detail = format!("the notes cannot be read: {error}");
            problem(StatusCode::INTERNAL_SERVER_ERROR, "notes", &detail)
        }
        Err(_defect) => busy(),
    }
}

/// Writes a note down.
pub(crate) async fn write(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let Some(notes) = notes(&shared) else { return none() };
    let desk = &shared.desk;
    let command = match desk.take::<Written>(request).await {
        Ok(command) => command,
        Err(response) => return response,
    };
    let Written { run, by, text } = &command.body;
    let (run, by, text) = (*run, by.clone(), text.clone());
    match spawn_blocking(move || notes.write(run, &by, &text)).await {
        Ok(Ok(note)) => desk.close(command, StatusCode::CREATED, json!(note)),
        Ok(Err(not)) => {
            let (status, code) = match not {
                NotKept::Length => (StatusCode::BAD_REQUEST, "note-length"),
                NotKept::Full(_) => (StatusCode::INSUFFICIENT_STORAGE, "notes-full"),
                NotKept::File { .. } => (StatusCode::INTERNAL_SERVER_ERROR, "notes"),
            };
            command.log(status);
            problem(status, code, &not.to_string())
        }
        Err(_defect) => busy(),
    }
}

fn notes(shared: &Shared) -> Option<Notes> {
    shared.desk.commands.notes.clone()
}

fn none() -> Response {
    let detail = "nothing is recorded, so there is no place for notes";
    problem(StatusCode::NOT_FOUND, "no-notes", detail)
}
