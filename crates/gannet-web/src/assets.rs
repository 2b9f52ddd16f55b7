//! The files of the pages, as they are in the program.

use axum::body::{Body, Bytes};
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

/// What a page may load: files of this server.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);

/// A file of the pages.
pub(crate) struct Asset {
    /// Its name in the address.
    name: &'static str,
    /// Its kind, for `Content-Type`.
    kind: &'static str,
    /// Hash of its bytes, in quotation marks.
    etag: &'static str,
    plain: &'static [u8],
    compressed: &'static [u8],
}

include!(concat!(env!("OUT_DIR"), "/assets.rs"));

/// The file that is called so.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    /// The answer to a request with these headers.
    pub fn answer(&'static self, request: &HeaderMap) -> Response {
        let has = |name, what: &str| {
            let values = request.get_all(name).iter().filter_map(|value| value.to_str().ok());
            values.flat_map(|value| value.split(',')).any(|it| it.trim() == what)
        };
        let is_known = has(IF_NONE_MATCH, self.etag);
        let mut response = match is_known {
            true => StatusCode::NOT_MODIFIED.into_response(),
            false if has(ACCEPT_ENCODING, "gzip") => {
                let mut response = Body::from(Bytes::from_static(self.compressed)).into_response();
                response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                response
            }
            false => Body::from(Bytes::from_static(self.plain)).into_response(),
        };
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.kind));
        headers.insert(ETAG, HeaderValue::from_static(self.etag));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers.insert(CONTENT_SECURITY_POLICY, POLICY);
        response
    }
}
