//! What is served, and under which conditions.

use std::sync::Arc;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, Path, Request, State};
use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use axum::{Extension, Router};
use gannet_control::config::AccessRole;
use gannet_control::run::Present;
use gannet_control::snapshot::Snapshot;
use hyper::body::Body as _;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::time::timeout;

use crate::access::{Access, Refusal, cookie};
use crate::basis::LastLook;
use crate::commands::{Commands, Desk, Peer};
use crate::events::Onlookers;
use crate::files::Shelf;
use crate::forms::{Form, Forms, Unserved};
use crate::limits::{BODY_BYTES_MAX, BYTES_PER_TURN, REQUEST_TIME, REQUESTS_PER_S};
use crate::log::LogTail;
use crate::negotiation::text_format;
use crate::pace::Pace;
use crate::problem::Problem;
use crate::{api, assets, connection, server};

/// Headers of every answer: it is shown nowhere but where it was asked for, and never kept.
const HEADERS: [(HeaderName, HeaderValue); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (header::X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        header::CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'"),
    ),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
];

/// Everything that is served of a run, and of those that follow in its place.
#[derive(Clone)]
pub struct Site {
    router: Router,
    pub(crate) onlookers: Arc<Onlookers>,
}

/// What the handlers share.
pub(crate) struct Shared {
    pub forms: Forms,
    pub onlookers: Arc<Onlookers>,
    pub present: Present,
    pub last_look: LastLook,
    pub log: Option<&'static LogTail>,
    pub desk: Desk,
    pub shelf: Arc<Shelf>,
    pub pace: Pace,
    access: Access,
}

impl Shared {
    /// Why something of a run cannot be had: that there was none yet, or else `problem`.
    pub fn without(&self, problem: Problem) -> Problem {
        let station = self.desk.commands.station.as_ref();
        if station.is_some_and(|station| station.status().run.is_none()) {
            let detail = "there was no run yet; this is known when one has been started";
            return Problem::new(StatusCode::NOT_FOUND, "no-run", detail);
        }
        problem
    }

    /// The newest snapshot.
    pub fn snapshot(&self) -> Result<Arc<Snapshot>, Problem> {
        self.forms.snapshot().map_err(|_| Problem::busy())
    }
}

/// What a site has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Metrics, and the snapshot.
    Metrics,
    /// Pages for people, what they ask, and the metrics.
    Pages,
}

impl Site {
    /// A site that shows the `present` run to those who have `access`.
    pub fn new(present: impl Into<Present>, access: Access, content: Content) -> Self {
        Self::with_commands(present, access, content, Commands::default(), None)
    }

    /// The same, for those who may also give `commands`, and see the `log` of the process.
    pub fn with_commands(
        present: impl Into<Present>,
        access: Access,
        content: Content,
        commands: Commands,
        log: Option<&'static LogTail>,
    ) -> Self {
        let present = present.into();
        let onlookers = Arc::<Onlookers>::default();
        let shared = Arc::new(Shared {
            forms: Forms::new(present.clone()),
            onlookers: Arc::clone(&onlookers),
            present,
            last_look: LastLook::default(),
            log,
            desk: Desk::new(commands),
            shelf: Arc::default(),
            pace: Pace::new(REQUESTS_PER_S),
            access,
        });
        let router = match content {
            Content::Metrics => Router::new().route("/", get(index)).fallback(no_path),
            Content::Pages => Router::new()
                .route("/", get(front_page))
                .route("/{name}", get(asset))
                .nest(api::BASE, api::router())
                .fallback(no_page),
        };
        let router = router
            .route("/metrics", get(metrics))
            .route("/snapshot.json", get(snapshot))
            .method_not_allowed_fallback(not_that_way)
            .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
            .layer(from_fn_with_state(Arc::clone(&shared), admit))
            .with_state(shared);
        Self { router, onlookers }
    }

    pub(crate) fn router(&self) -> Router {
        self.router.clone()
    }

    /// What is served to one client.
    pub(crate) fn router_for(&self, peer: Peer) -> Router {
        self.router().layer(Extension(peer))
    }

    /// What a client gets that connects, sends `bytes` and no more, and reads to the end.
    ///
    /// # Panics
    /// When the system gives no event queue.
    pub fn answer(&self, bytes: &[u8]) -> Vec<u8> {
        let runtime = server::runtime().expect("an event queue");
        runtime.block_on(async {
            let (mut client, end) = duplex(1 << 16);
            let serving = tokio::spawn(connection::serve(end, None, self.router()));
            // A connection that is closed early takes and gives what it did until then.
            let _closed = client.write_all(bytes).await;
            let _closed = client.shutdown().await;
            let mut answer = Vec::new();
            let _closed = client.read_to_end(&mut answer).await;
            if let Err(panic) = serving.await {
                std::panic::resume_unwind(panic.into_panic());
            }
            answer
        })
    }
}

/// Lets a request pass that keeps the rules, in its turn, with the role that its sender has.
async fn admit(State(shared): State<Arc<Shared>>, mut request: Request, next: Next) -> Response {
    let refusal = match refusal(&shared.access, &request) {
        Ok(role) => {
            request.extensions_mut().insert(role);
            None
        }
        Err(refusal) => Some(refusal),
    };
    let lacks = refusal.as_ref().map(|refusal| refusal.status);
    let is_call = request.uri().path().starts_with(api::BASE);
    let mut response = match (refusal, cookie(&shared.access, &request)) {
        // The token is in the address, where it is not to stay.
        (_, Some(cookie)) if lacks.is_none_or(|it| it == StatusCode::UNAUTHORIZED) => {
            ([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response()
        }
        (Some(refusal), _) => refusal.answer(is_call),
        (None, _) => match timeout(REQUEST_TIME, next.run(request)).await {
            Ok(response) => response,
            Err(_late) => {
                Refusal::new(StatusCode::REQUEST_TIMEOUT, "too-slow", "too slow").answer(is_call)
            }
        },
    };
    HEADERS.into_iter().for_each(|(name, value)| {
        response.headers_mut().entry(name).or_insert(value);
    });
    let bytes = response.body().size_hint().lower() as usize;
    shared.pace.take(1 + bytes / BYTES_PER_TURN).await;
    response
}

/// The role of who sends `request`, or why that is not answered.
fn refusal(access: &Access, request: &Request) -> Result<AccessRole, Refusal> {
    let role = access.check(request.version(), request.headers())?;
    if request.body().size_hint().lower() > BODY_BYTES_MAX as u64 {
        let detail = format!("a body may have {BODY_BYTES_MAX} bytes");
        return Err(Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-long", detail));
    }
    Ok(role)
}

async fn index() -> &'static str {
    "Gannet. See /metrics or /snapshot.json\n"
}

async fn metrics(State(shared): State<Arc<Shared>>, headers: HeaderMap) -> Response {
    let format = text_format(&headers);
    let mut response = answer(&shared, Form::Metrics(format), format.content_type());
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept"));
    response
}

async fn snapshot(State(shared): State<Arc<Shared>>) -> Response {
    json_snapshot(&shared)
}

pub(crate) fn json_snapshot(shared: &Shared) -> Response {
    answer(shared, Form::Json, "application/json")
}

fn answer(shared: &Shared, form: Form, kind: &'static str) -> Response {
    match shared.forms.get(form) {
        Ok(bytes) => typed(bytes, kind),
        Err(Unserved::Busy) => {
            let again = [(header::RETRY_AFTER, HeaderValue::from_static("5"))];
            let text = "slow readers hold too many answers; ask again\n";
            (StatusCode::SERVICE_UNAVAILABLE, again, text).into_response()
        }
        Err(Unserved::Defect) => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal error; please report it\n")
                .into_response()
        }
    }
}

async fn front_page(headers: HeaderMap) -> Response {
    asset(Path("index.html".into()), headers).await
}

async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match assets::find(&name) {
        Some(asset) => asset.answer(&headers),
        None => no_page().await.into_response(),
    }
}

fn typed(bytes: Bytes, kind: &'static str) -> Response {
    let kind = [(header::CONTENT_TYPE, HeaderValue::from_static(kind))];
    (kind, Body::from(bytes)).into_response()
}

async fn no_page() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "there is no such page; / is the first one\n")
}

async fn no_path() -> (StatusCode, &'static str) {
    (StatusCode::NOT_FOUND, "there is /metrics and /snapshot.json\n")
}

async fn not_that_way(method: Method) -> (StatusCode, String) {
    let text = format!("{method} is not possible here; the header `Allow` tells what is\n");
    (StatusCode::METHOD_NOT_ALLOWED, text)
}
