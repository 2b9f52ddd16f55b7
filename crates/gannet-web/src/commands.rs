//! Commands: what has to be true of a request that changes something, and that it does so once.

use std::collections::VecDeque;
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Bytes, to_bytes};
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use gannet_control::station::Station;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::problem;
use crate::limits::{BODY_BYTES_MAX, KEY_BYTES_MAX, KEYS_MAX};

/// The name of the header with the key of a command.
const KEY: &str = "idempotency-key";

/// What those who may see a run may change.
#[derive(Clone, Default)]
pub struct Commands {
    /// What makes the runs, if they can be started and stopped.
    pub station: Option<Arc<Station>>,
    /// Whether commands are taken.
    pub allowed: bool,
}

/// Who sends a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer(pub SocketAddr);

/// Takes commands, and remembers what it answered.
pub(crate) struct Desk {
    pub commands: Commands,
    answered: Mutex<VecDeque<Answered>>,
}

/// A command that was carried out or could not be.
struct Answered {
    key: String,
    command: String,
    status: StatusCode,
    body: Value,
}

/// A command that may be carried out, if it was not before.
pub(crate) struct Command<T> {
    /// What is asked for.
    pub body: T,
    key: String,
    text: String,
    peer: Option<Peer>,
}

impl Desk {
    pub fn new(commands: Commands) -> Self {
        Self { commands, answered: Mutex::default() }
    }

    /// The command of `request`.
    ///
    /// # Errors
    /// Why there is none, or what was answered when it came first.
    pub async fn take<T>(&self, request: Request) -> Result<Command<T>, Response>
    where
        T: DeserializeOwned + Serialize,
    {
        if !self.commands.allowed {
            let detail = "commands are not taken here; set `control = true` in [web] to allow them";
            return Err(problem(StatusCode::FORBIDDEN, "control-off", detail));
        }
        let (parts, body) = request.into_parts();
        let key = key(&parts.headers).map_err(Wrong::answer)?;
        // Longer ones are refused before they come here, unless they do not say how long they are.
        let body = to_bytes(body, BODY_BYTES_MAX).await.map_err(|_| {
            let detail = format!("a body may have {BODY_BYTES_MAX} bytes");
            problem(StatusCode::PAYLOAD_TOO_LARGE, "body-too-long", &detail)
        })?;
        let body = parse::<T>(&body).map_err(Wrong::answer)?;
        let text = serde_json::to_string(&body).unwrap_or_default();
        let text = format!("{} {text}", parts.uri.path());
        let answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        match answered.iter().find(|before| before.key == key) {
            None => {
                let peer = parts.extensions.get().copied();
                Ok(Command { body, key, text, peer })
            }
            Some(before) if before.command == text => Err(answer(before.status, &before.body)),
            Some(_) => {
                let detail = "another command came with this Idempotency-Key; take a new one";
                Err(problem(StatusCode::UNPROCESSABLE_ENTITY, "key-used", detail))
            }
        }
    }

    /// The answer to `command`, which is the same when it comes again.
    pub fn close<T>(&self, command: Command<T>, status: StatusCode, body: Value) -> Response {
        command.log(status);
        let response = answer(status, &body);
        let Command { key, text, .. } = command;
        let mut answered = self.answered.lock().unwrap_or_else(PoisonError::into_inner);
        if answered.len() == KEYS_MAX {
            answered.pop_front();
        }
        answered.push_back(Answered { key, command: text, status, body });
        response
    }
}

impl<T> Command<T> {
    /// Writes who wanted what, and what came of it.
    pub fn log(&self, result: StatusCode) {
        let Self { text, key, peer, .. } = self;
        let who = peer.map_or_else(|| "somebody".into(), |Peer(peer)| peer.to_string());
        let text: String = text.chars().take(200).collect();
        // The level that logs show unless they are told otherwise: what people did explains what comes after.
        tracing::warn!(%who, command = ?text, ?key, result = result.as_u16(), "a command");
    }
}

/// An answer as JSON; that of a problem, if it is one.
fn answer(status: StatusCode, body: &Value) -> Response {
    let kind = match status.is_success() {
        true => "application/json",
        false => "application/problem+json",
    };
    (status, [(CONTENT_TYPE, kind)], body.to_string()).into_response()
}

/// The body of a problem that tells the present `state` beside why.
pub(crate) fn conflict(code: &str, detail: impl fmt::Display, state: Value) -> Value {
    json!({
        "title": "Conflict", "status": 409, "code": code, "detail": detail.to_string(), "now": state,
    })
}

/// What is wrong with a command: status, code and sentence.
struct Wrong(StatusCode, &'static str, String);

impl Wrong {
    fn answer(self) -> Response {
        let Self(status, code, detail) = self;
        problem(status, code, &detail)
    }
}

/// The key of a command with these headers, which no page of another site can have sent.
fn key(headers: &HeaderMap) -> Result<String, Wrong> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    // Reading goes by the host alone; a command must come from this very port.
    let origin = text(ORIGIN.as_str()).and_then(|origin| Some(origin.split_once("://")?.1));
    if headers.contains_key(ORIGIN) && origin != text(HOST.as_str()) {
        let detail = "pages of other sites may command nothing".into();
        return Err(Wrong(StatusCode::FORBIDDEN, "foreign-origin", detail));
    }
    let kind = text(CONTENT_TYPE.as_str()).unwrap_or_default();
    if kind.split(';').next().is_none_or(|kind| kind.trim() != "application/json") {
        let detail = "send JSON: Content-Type: application/json".into();
        return Err(Wrong(StatusCode::UNSUPPORTED_MEDIA_TYPE, "no-json", detail));
    }
    let key = text(KEY).filter(|key| (1..=KEY_BYTES_MAX).contains(&key.len()));
    key.map(str::to_owned).ok_or_else(|| {
        let detail = format!(
            "give the command a key of its own, so that it is done once however often it comes: \
             Idempotency-Key, 1 to {KEY_BYTES_MAX} characters"
        );
        Wrong(StatusCode::BAD_REQUEST, "no-key", detail)
    })
}

fn parse<T: DeserializeOwned>(body: &Bytes) -> Result<T, Wrong> {
    serde_json::from_slice(body).map_err(|error| {
        let detail = format!("the body does not fit: {error}");
        Wrong(StatusCode::BAD_REQUEST, "bad-body", detail)
    })
}
