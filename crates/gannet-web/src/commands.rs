//! Commands: what has to be true of a request that changes something, and that it does so once.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{Extensions, HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use gannet_control::config::AccessRole;
use gannet_control::notes::Notes;
use gannet_control::station::Station;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::files::Verifier;
use crate::limits::{BODY_BYTES_MAX, KEY_BYTES_MAX, KEYS_MAX};
use crate::problem::{self, Problem};

/// The name of the header with the key of a command.
const KEY: &str = "idempotency-key";

/// What those who may see a run may change.
#[derive(Clone, Default)]
pub struct Commands {
    /// What makes the runs, if they can be started and stopped.
    pub station: Option<Arc<Station>>,
    /// What reads files back.
    pub verifier: Option<Verifier>,
    /// Where notes are written, if there is a place for them.
    pub notes: Option<Notes>,
    /// Whether commands are taken.
    pub allowed: bool,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Takes commands, and remembers what it answered.
pub(crate) struct Desk {
    pub commands: Commands,
    known: Arc<Mutex<VecDeque<Known>>>,
}

/// A command that was carried out, could not be, or is under way.
struct Known {
    key: String,
    command: String,
    answer: Option<(StatusCode, String)>,
}

/// A command that is being carried out; it is unknown again if that comes to no end.
pub(crate) struct Command {
    key: String,
    /// Where it was sent, and what was asked for.
    text: String,
    peer: Option<Peer>,
    role: Option<AccessRole>,
    known: Arc<Mutex<VecDeque<Known>>>,
}

impl Desk {
    pub fn new(commands: Commands) -> Self {
        Self { commands, known: Arc::default() }
    }

    /// What `request` asks for.
    ///
    /// # Errors
    /// Why nothing is to be done, or what was answered when it came first.
    pub async fn take<T>(&self, request: Request) -> Result<(T, Command), Response>
    where
        T: DeserializeOwned + Serialize,
    {
        let refused =
            |status, code, detail: &str| Problem::new(status, code, detail).into_response();
        if !self.commands.allowed {
            let detail = "commands are not taken here; set `control = true` in [web] to allow them";
            return Err(refused(StatusCode::FORBIDDEN, "control-off", detail));
        }
        let (parts, body) = request.into_parts();
        let key = key(&parts.headers).map_err(Problem::into_response)?;
        // Longer ones are refused before they come here, unless they do not say how long they are.
        let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| {
            let detail = format!("a body may have {BODY_BYTES_MAX} bytes");
            refused(StatusCode::PAYLOAD_TOO_LARGE, "body-too-long", &detail)
        })?;
        let body = parse::<T>(&body).map_err(Problem::into_response)?;
        let text = json!({ "path": parts.uri.path(), "wanted": &body }).to_string();
        let mut known = lock(&self.known);
        match known.iter().find(|before| before.key == key) {
            None => {}
            Some(before) if before.command != text => {
                let detail = "another command came with this Idempotency-Key; take a new one";
                return Err(refused(StatusCode::UNPROCESSABLE_ENTITY, "key-used", detail));
            }
            Some(Known { answer: Some((status, body)), .. }) => {
                return Err(answer(*status, body.clone()));
            }
            Some(_) => {
                let detail = "this command is being carried out; ask again with the same key";
                return Err(refused(StatusCode::CONFLICT, "under-way", detail));
            }
        }
        if known.len() == KEYS_MAX {
            known.pop_front();
        }
        known.push_back(Known { key: key.clone(), command: text.clone(), answer: None });
        let (peer, role) = (parts.extensions.get().copied(), parts.extensions.get().copied());
        Ok((body, Command { key, text, peer, role, known: Arc::clone(&self.known) }))
    }
}

impl Command {
    /// The answer, which has the status `good` if the command was carried out. It is the same when the command comes
    /// again, unless the command could never have been carried out.
    pub fn close(self, good: StatusCode, result: Result<impl Serialize, Problem>) -> Response {
        let (status, body) = match result {
            Ok(result) => (good, serde_json::to_string(&result).unwrap_or_default()),
            Err(problem) => (problem.status, problem.text()),
        };
        self.log(status);
        let stays = status.is_success() || status == StatusCode::CONFLICT;
        let mut known = lock(&self.known);
        if let Some(own) = known.iter_mut().find(|one| one.key == self.key && stays) {
            own.answer = Some((status, body.clone()));
        }
        drop(known);
        answer(status, body)
    }

    fn log(&self, result: StatusCode) {
        let Self { text, key, peer, role, .. } = self;
        note(*peer, *role, text, key, result);
    }
}

/// Writes who wanted what, and what came of it.
fn note(peer: Option<Peer>, role: Option<AccessRole>, text: &str, key: &str, result: StatusCode) {
    let who = peer.map_or_else(|| "somebody".into(), |Peer(peer)| peer.to_string());
    let role = role.map_or_else(String::new, |role| role.to_string());
    let text: String = text.chars().take(200).collect();
    // The level that logs show unless they are told otherwise: what people did explains what comes after.
    tracing::warn!(%who, %role, command = ?text, ?key, result = result.as_u16(), "a command");
}

/// Writes that a command to `path` was refused before it was read.
pub(crate) fn note_refused(extensions: &Extensions, path: &str, result: StatusCode) {
    note(extensions.get().copied(), extensions.get().copied(), path, "", result);
}

impl Drop for Command {
    fn drop(&mut self) {
        lock(&self.known).retain(|one| one.key != self.key || one.answer.is_some());
    }
}

fn lock(known: &Mutex<VecDeque<Known>>) -> MutexGuard<'_, VecDeque<Known>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An answer as JSON; that of a problem, if it is one.
fn answer(status: StatusCode, body: String) -> Response {
    let kind = if status.is_success() { "application/json" } else { problem::KIND };
    (status, [(CONTENT_TYPE, HeaderValue::from_static(kind))], body).into_response()
}

/// The key of a command with these headers, which no page of another site can have sent.
fn key(headers: &HeaderMap) -> Result<String, Problem> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Reading goes by the host alone; a command must come from this very port.
    let origin = text(ORIGIN.as_str()).and_then(|origin| Some(origin.split_once("://")?.1));
    if headers.contains_key(ORIGIN) && origin != text(HOST.as_str()) {
        let detail = "pages of other sites may command nothing";
        return Err(Problem::new(StatusCode::FORBIDDEN, "foreign-origin", detail));
    }
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        let detail = "send JSON: Content-Type: application/json";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no-json", detail));
    }
    let key = text(KEY).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    key.map(str::to_owned).ok_or_else(|| {
        let detail = format!(
            "give the command a key of its own, so that it is done once however often it comes: \
             Idempotency-Key, 1 to {KEY_BYTES_MAX} characters"
        );
        Problem::new(StatusCode::BAD_REQUEST, "no-key", detail)
    })
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Problem> {
    // What has no names of members would be taken by their order.
    if body.trim_ascii_start().starts_with(b"[") {
        let detail = "the body does not fit: it is a list, and an object is wanted";
        return Err(Problem::new(StatusCode::BAD_REQUEST, "bad-body", detail));
    }
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body does not fit: {error}");
        Problem::new(StatusCode::BAD_REQUEST, "bad-body", detail)
    })
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;
    use crate::server::runtime;

    fn take(desk: &Desk, key: &str) -> Result<Command, StatusCode> {
        let request = Request::post("/api/v1/x").header("Host", "localhost").header(KEY, key);
        let request = request.header(CONTENT_TYPE, "application/json").body(Body::from("7"));
        let taken = runtime().unwrap().block_on(desk.take::<u32>(request.unwrap()));
        taken.map(|(_, command)| command).map_err(|response| response.status())
    }

    #[test]
    fn a_command_under_way_is_not_begun_again_until_it_has_failed_to_end() {
        let desk = Desk::new(Commands { allowed: true, ..Commands::default() });
        let first = take(&desk, "a").unwrap();
        assert_eq!(take(&desk, "a").map(drop), Err(StatusCode::CONFLICT));
        let other = take(&desk, "b").unwrap();
        // Its client has gone, or it has taken too long.
        drop(first);
        let again = take(&desk, "a").unwrap();
        again.close(StatusCode::CREATED, Ok(1));
        other.close(StatusCode::OK, Err::<(), _>(Problem::busy()));
        assert_eq!(take(&desk, "a").map(drop), Err(StatusCode::CREATED));
        assert!(take(&desk, "b").is_ok(), "what could not be done may be tried again");
    }
}
