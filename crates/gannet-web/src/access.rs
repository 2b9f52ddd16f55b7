//! Who may read.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use axum::response::{IntoResponse, Response};
use gannet_control::config::{AccessRole, Token, Tokens};
use subtle::ConstantTimeEq;

use crate::problem::Problem;

/// Who may read what a [`Server`](crate::Server) serves.
#[derive(Clone, Debug)]
pub enum Access {
    /// Programs on this machine, by the names and addresses of loopback.
    Loopback,
    /// Who knows the token, and sends it as `Authorization: Bearer`.
    Token(Token),
    /// Anybody who reaches the address.
    Anybody,
    /// Browsers that were opened with a token in the address, which a cookie keeps from then on, and programs that
    /// send one as `Authorization: Bearer`.
    Session {
        /// What they have to know, and what they may do then.
        tokens: Tokens,
        /// Whether it is asked for by the names and addresses of loopback only.
        loopback: bool,
        /// Whether it is served by TLS, so that the cookie may never be sent in the clear.
        secure: bool,
    },
}

/// Why a request is not answered.
#[derive(Clone, Debug)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    code: &'static str,
    detail: String,
}

impl Refusal {
    pub fn new(status: StatusCode, code: &'static str, detail: impl Into<String>) -> Self {
        Self { status, code, detail: detail.into() }
    }

    /// The answer: a problem document to a call of the interface, a line of text otherwise.
    pub fn answer(self, is_call: bool) -> Response {
        let Self { status, code, detail } = self;
        let mut response = match is_call {
            true => Problem::new(status, code, detail).into_response(),
            false => (status, detail + "\n").into_response(),
        };
        if status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer realm=\"gannet\"");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
        }
        response
    }
}

impl Access {
    /// What the sender of a request with these headers may do.
    ///
    /// # Errors
    /// Why it may nothing.
    pub(crate) fn check(
        &self,
        version: Version,
        headers: &HeaderMap,
    ) -> Result<AccessRole, Refusal> {
        let host = host(version, headers)?;
        if from_another_site(host, headers) {
            let detail = "pages of other sites may not read this";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign-origin", detail));
        }
        // A browser whose page came from a name that now resolves to this machine still says
        // that name. Programs that are no browsers may leave the host out.
        let is_here = host.is_none_or(is_loopback);
        if matches!(self, Self::Loopback | Self::Session { loopback: true, .. }) && !is_here {
            let detail = "this address serves loopback only: ask for localhost or 127.0.0.1";
            return Err(Refusal::new(StatusCode::FORBIDDEN, "foreign-host", detail));
        }
        let (role, detail) = match self {
            Self::Anybody | Self::Loopback => return Ok(AccessRole::View),
            Self::Token(token) => (
                given(headers).filter(|given| is_same(given, token)).map(|_| AccessRole::View),
                "a token is needed: Authorization: Bearer TOKEN, with the text of the file that \
                 `token_file` names",
            ),
            Self::Session { tokens, .. } => (
                given(headers).or_else(|| kept(headers)).and_then(|given| role(given, tokens)),
                "open the whole address that the terminal printed: it has a token at its end",
            ),
        };
        role.ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "no-token", detail))
    }
}

/// The cookie to be set for a browser that opens `/` with a right token in the address: it holds the token, for
/// this port of the host only, and no script can read it.
pub(crate) fn cookie(access: &Access, request: &Request) -> Option<HeaderValue> {
    let Access::Session { tokens, secure, .. } = access else { return None };
    let (headers, uri) = (request.headers(), request.uri());
    if uri.path() != "/" || !matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let given = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
    role(given.as_bytes(), tokens)?;
    let name = cookie_name(headers);
    let secure = if *secure { "; Secure" } else { "" };
    let cookie = format!("{name}={given}; Path=/; HttpOnly; SameSite=Strict{secure}");
    HeaderValue::from_str(&cookie).ok()
}

/// The role of who gives this token. All are compared with it, so that the time does not tell which of them it is like.
fn role(given: &[u8], tokens: &Tokens) -> Option<AccessRole> {
    tokens.iter().fold(None, |found, (role, token)| {
        let is_it = is_same(given, token);
        if is_it { Some(role) } else { found }
    })
}

/// Whether they are the same; takes the same time wherever they differ.
fn is_same(given: &[u8], token: &Token) -> bool {
    given.ct_eq(token.as_bytes()).into()
}

/// The token that programs send.
fn given(headers: &HeaderMap) -> Option<&[u8]> {
    let given = headers.get(AUTHORIZATION)?.as_bytes();
    let (scheme, given) = given.split_at_checked(b"Bearer ".len())?;
    scheme.eq_ignore_ascii_case(b"Bearer ").then_some(given)
}

/// The token that a cookie of this server keeps.
fn kept(headers: &HeaderMap) -> Option<&[u8]> {
    let name = cookie_name(headers);
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut values = cookies
        .flat_map(|line| line.split(';'))
        .filter_map(|cookie| cookie.trim().strip_prefix(&*name)?.strip_prefix('='));
    values.next().map(str::as_bytes)
}

/// What the cookie is called: cookies are sent to all ports of a host.
fn cookie_name(headers: &HeaderMap) -> String {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
    format!("gannet-{}", port.unwrap_or(80))
}

/// The host that a request is for, without its port.
fn host(version: Version, headers: &HeaderMap) -> Result<Option<&str>, Refusal> {
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) if version < Version::HTTP_11 => Ok(None),
        (Some(host), None) => {
            let host = host.to_str().map_err(|_| {
                Refusal::new(StatusCode::BAD_REQUEST, "bad-host", "the host is no text")
            })?;
            Ok(Some(without_port(host)))
        }
        _ => Err(Refusal::new(StatusCode::BAD_REQUEST, "bad-host", "a request needs one Host")),
    }
}

/// A host without the port behind it; of an IPv6 address, what is between the brackets.
fn without_port(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

fn is_loopback(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.to_canonical().is_loopback())
}

/// Whether a browser says that a page of another site asks. A link there that a person follows is
/// nothing that the page could read.
fn from_another_site(host: Option<&str>, headers: &HeaderMap) -> bool {
    let says = |name: &str, what: &[&str]| {
        let value = headers.get(name).map(HeaderValue::as_bytes);
        value.map(|value| what.iter().any(|it| it.as_bytes() == value))
    };
    let is_ours = says("sec-fetch-site", &["same-origin", "none"]).unwrap_or(true);
    let is_followed = says("sec-fetch-mode", &["navigate"]) == Some(true)
        && says("sec-fetch-dest", &["document"]) == Some(true);
    let origin = headers.get(ORIGIN).map(|origin| {
        let origin = origin.to_str().ok()?.split_once("://")?.1;
        Some(without_port(origin))
    });
    !(is_ours || is_followed) || origin.is_some_and(|origin| origin.is_none() || origin != host)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef";

    fn status(access: &Access, headers: &[(&'static str, &str)]) -> u16 {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_str(value).unwrap());
        }
        access.check(Version::HTTP_11, &map).map_or_else(|refusal| refusal.status.as_u16(), |_| 200)
    }

    #[test]
    fn loopback_is_asked_for_by_its_names_only() {
        let ask = |host| status(&Access::Loopback, &[("host", host)]);
        for host in ["localhost", "LocalHost:9180", "127.0.0.1:9180", "127.9.9.9", "[::1]:80"] {
            assert_eq!(ask(host), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:9180", "10.0.0.1", "", "127.0.0.1.x"] {
            assert_eq!(ask(host), 403, "{host}");
        }
        assert_eq!(status(&Access::Loopback, &[]), 400);
        assert_eq!(status(&Access::Loopback, &[("host", "localhost"), ("host", "evil")]), 400);
        let old = Access::Loopback.check(Version::HTTP_10, &HeaderMap::new());
        assert!(old.is_ok());
    }

    #[test]
    fn pages_of_other_sites_are_refused() {
        for access in [Access::Loopback, Access::Anybody] {
            let ask = |name, value| status(&access, &[("host", "localhost:1"), (name, value)]);
            assert_eq!(ask("origin", "http://localhost:1"), 200);
            assert_eq!(ask("origin", "http://evil.example"), 403);
            assert_eq!(ask("origin", "null"), 403);
            assert_eq!(ask("sec-fetch-site", "none"), 200);
            assert_eq!(ask("sec-fetch-site", "same-origin"), 200);
            assert_eq!(ask("sec-fetch-site", "cross-site"), 403);
            assert_eq!(ask("sec-fetch-site", "same-site"), 403);
            let link = [
                ("host", "localhost"),
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ];
            assert_eq!(status(&access, &link), 200);
            assert_eq!(status(&access, &link[..3]), 403);
        }
    }

    #[test]
    fn a_token_opens_whatever_the_host_and_nothing_else_does() {
        let access = Access::Token(Token::new(SECRET).unwrap());
        let ask = |value: &str| status(&access, &[("host", "daq:9180"), ("authorization", value)]);
        assert_eq!(ask(&format!("Bearer {SECRET}")), 200);
        assert_eq!(ask(&format!("bearer {SECRET}")), 200);
        for wrong in ["", "Bearer", "Bearer ", "Bearer 0123456789abcdeF", "Basic 0123456789abcdef"]
        {
            assert_eq!(ask(wrong), 401, "{wrong}");
        }
        assert_eq!(ask(&format!("Bearer {SECRET}x")), 401);
        assert_eq!(status(&access, &[("host", "daq")]), 401);
        assert!(!format!("{access:?}").contains(SECRET));
    }
}
