//! Calls of the interface: each is a handler, of which both the route and the description are made.
//!
//! A handler takes what is asked for as one type and gives the answer as another. [`Routes`] reads and writes these,
//! and tests who asks; [`Document`](crate::document::Document) describes the same types. So there is no call that is
//! not described, and no description that is not true.

use std::fmt::Write;
use std::marker::PhantomData;
use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, RawPathParams, Request, State};
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing;
use gannet_control::config::AccessRole;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commands::{Peer, note_refused};
use crate::problem::Problem;
use crate::site::Shared;

/// JSON, which answers are unless a call says otherwise.
const JSON: &str = "application/json";

/// What is to be said of a call beside its types.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// What it does, in a sentence.
    pub summary: &'static str,
    /// Who may do it: this role, and those above it.
    pub role: AccessRole,
    /// Status of a good answer.
    pub status: StatusCode,
    /// Kinds of the answer, the usual one first.
    pub kinds: &'static [&'static str],
}

/// Something to be seen.
pub(crate) const fn seen(summary: &'static str) -> About {
    About { summary, role: AccessRole::View, status: StatusCode::OK, kinds: &[JSON] }
}

/// Something to be done.
pub(crate) const fn done(summary: &'static str) -> About {
    About { role: AccessRole::Operate, ..seen(summary) }
}

impl About {
    /// The same, of what makes something that then is there.
    pub const fn created(self) -> Self {
        Self { status: StatusCode::CREATED, ..self }
    }

    /// The same, of what is begun, and goes on after the answer.
    pub const fn accepted(self) -> Self {
        Self { status: StatusCode::ACCEPTED, ..self }
    }

    /// The same, with answers of these kinds, the usual one first.
    pub const fn of_kinds(self, kinds: &'static [&'static str]) -> Self {
        Self { kinds, ..self }
    }
}

/// A request that has been read.
pub(crate) struct Ask<T> {
    pub shared: Arc<Shared>,
    /// What is asked for: of a GET, what its address says; of a command, its body.
    pub wanted: T,
    pub headers: HeaderMap,
    /// Who asks.
    pub peer: Option<Peer>,
    /// What who asks may do.
    pub role: AccessRole,
    /// What stands at the places of the path of a command, by their names.
    places: Vec<(String, String)>,
}

impl<T> Ask<T> {
    /// Whether who asks may give the commands of an operator, and such are taken.
    pub fn may_command(&self) -> bool {
        self.shared.desk.commands.allowed && self.role >= AccessRole::Operate
    }

    /// What stands at the place of the path that is called `name`.
    pub fn place<P: FromStr>(&self, name: &str) -> Result<P, Problem> {
        let found = self.places.iter().find(|(own, _)| own == name);
        let read = found.and_then(|(_, text)| text.parse().ok());
        read.ok_or_else(|| {
            let detail = format!("what stands for {name} in the address cannot be read");
            Problem::new(StatusCode::BAD_REQUEST, "unreadable-place", detail)
        })
    }
}

/// Nothing is to be said in the address.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

/// A good answer to a GET, which is a `T`.
pub(crate) struct Reply<T> {
    response: Response,
    of: PhantomData<fn() -> T>,
}

impl<T> Reply<T> {
    /// This value as JSON; it may have borrowed what a `T` owns.
    pub fn json(value: impl Serialize) -> Self {
        Self::made(axum::Json(value).into_response())
    }

    /// These bytes, which are a `T` of the kind.
    pub fn bytes(kind: &'static str, bytes: impl Into<Body>) -> Self {
        let kind = [(CONTENT_TYPE, HeaderValue::from_static(kind))];
        Self::made((kind, bytes.into()).into_response())
    }

    /// The same with another line in its head.
    pub fn with(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.response.headers_mut().insert(name, value);
        self
    }

    /// An answer that is a `T`.
    pub fn made(response: Response) -> Self {
        Self { response, of: PhantomData }
    }
}

/// What takes calls.
pub(crate) trait Calls: Sized {
    /// Something to be seen. Its `wanted` comes from the query, and from the places in braces of the `path`.
    fn get<W, A, F, R>(self, path: &'static str, about: About, handler: F) -> Self
    where
        W: DeserializeOwned + JsonSchema + Send + 'static,
        A: JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Reply<A>, Problem>> + Send + 'static;

    /// Something to be done, once for each key, with what the body says.
    fn post<W, A, F, R>(self, path: &'static str, about: About, handler: F) -> Self
    where
        W: DeserializeOwned + Serialize + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A, Problem>> + Send + 'static;
}

/// Calls as routes.
#[derive(Default)]
pub(crate) struct Routes(pub Router<Arc<Shared>>);

impl Calls for Routes {
    fn get<W, A, F, R>(self, path: &'static str, about: About, handler: F) -> Self
    where
        W: DeserializeOwned + JsonSchema + Send + 'static,
        A: JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<Reply<A>, Problem>> + Send + 'static,
    {
        let serve = async move |State(shared): State<Arc<Shared>>,
                                path: RawPathParams,
                                request: Request| {
            let read = || -> Result<Ask<W>, Problem> {
                permit(&request, about.role)?;
                let wanted = wanted(request.uri(), &path)?;
                let headers = request.headers().clone();
                let peer = request.extensions().get().copied();
                let role = role(&request);
                Ok(Ask { shared, wanted, headers, peer, role, places: Vec::new() })
            };
            match read() {
                Ok(ask) => match handler(ask).await {
                    Ok(reply) => reply.response,
                    Err(problem) => problem.into_response(),
                },
                Err(problem) => problem.into_response(),
            }
        };
        Self(self.0.route(path, routing::get(serve)))
    }

    fn post<W, A, F, R>(self, path: &'static str, about: About, handler: F) -> Self
    where
        W: DeserializeOwned + Serialize + JsonSchema + Send + 'static,
        A: Serialize + JsonSchema + 'static,
        F: Fn(Ask<W>) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = Result<A, Problem>> + Send + 'static,
    {
        let serve = async move |State(shared): State<Arc<Shared>>,
                                path: RawPathParams,
                                request: Request| {
            let places =
                path.iter().map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
            let peer = request.extensions().get().copied();
            let (extensions, uri) = (request.extensions().clone(), request.uri().clone());
            let role = role(&request);
            let headers = request.headers().clone();
            let taken = match permit(&request, about.role) {
                Ok(()) => shared.desk.take::<W>(request).await,
                Err(problem) => Err(problem.into_response()),
            };
            let (wanted, command) = match taken {
                Ok(command) => command,
                Err(answer) => {
                    if answer.status() == StatusCode::FORBIDDEN {
                        note_refused(&extensions, uri.path(), answer.status());
                    }
                    return answer;
                }
            };
            let ask = Ask { shared, wanted, headers, peer, role, places };
            command.close(about.status, handler(ask).await)
        };
        Self(self.0.route(path, routing::post(serve)))
    }
}

/// The role of who sends `request`.
fn role(request: &Request) -> AccessRole {
    request.extensions().get().copied().unwrap_or(AccessRole::View)
}

/// Refuses who may not do what the role `needed` may.
fn permit(request: &Request, needed: AccessRole) -> Result<(), Problem> {
    let own = role(request);
    if own >= needed {
        return Ok(());
    }
    let detail = format!("this needs a token of the role {needed}, and yours has the role {own}");
    Err(Problem::new(StatusCode::FORBIDDEN, "wrong-role", detail))
}

/// What an address asks for: its query, and what stands at the places that have names in its path.
fn wanted<W: DeserializeOwned>(uri: &Uri, path: &RawPathParams) -> Result<W, Problem> {
    let unreadable = |detail: &str| {
        let detail = detail.trim_start_matches("Failed to deserialize query string: ");
        Problem::new(StatusCode::BAD_REQUEST, "unreadable-query", detail)
    };
    let mut query = String::new();
    for (name, value) in path {
        query.extend([name, "="]);
        value.bytes().for_each(|byte| _ = write!(query, "%{byte:02x}"));
        query.push('&');
    }
    query.push_str(uri.query().unwrap_or_default());
    let uri =
        Uri::try_from(format!("/?{query}")).map_err(|error| unreadable(&error.to_string()))?;
    let Query(wanted) =
        Query::try_from_uri(&uri).map_err(|rejection| unreadable(&rejection.body_text()))?;
    Ok(wanted)
}
