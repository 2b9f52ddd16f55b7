//! Why a request is not answered, as RFC 9457 has it.

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// The kind of such an answer.
pub(crate) const KIND: &str = "application/problem+json";

/// Why a request is not answered.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Problem {
    /// What the status means.
    title: &'static str,
    /// The status of the answer.
    #[serde(serialize_with = "number")]
    #[schemars(with = "u16")]
    pub status: StatusCode,
    /// What went wrong, as a word that stays the same from version to version.
    code: &'static str,
    /// What went wrong, where, and what to do about it, for people.
    detail: String,
    /// How it is now, where the request rests on something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    now: Option<Box<Value>>,
}

impl Problem {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        let title = status.canonical_reason().unwrap_or_default();
        Self { title, status, code, detail: detail.into(), now: None }
    }

    /// The same, for a request that rests on something else than what is `now`.
    pub fn while_it_is(self, now: Value) -> Self {
        Self { now: Some(Box::new(now)), ..self }
    }

    /// There is no snapshot now.
    pub fn busy() -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "busy", "ask again")
    }

    /// The body of the answer.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let kind = [(CONTENT_TYPE, HeaderValue::from_static(KIND))];
        (self.status, kind, self.text()).into_response()
    }
}

fn number<S: serde::Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}
