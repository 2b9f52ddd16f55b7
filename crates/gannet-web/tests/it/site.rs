//! What is answered to one request, byte for byte as clients see it.

use std::sync::Arc;

use gannet_control::config::Token;
use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_web::limits::{BODY_BYTES_MAX, HEADER_BYTES_MAX};
use gannet_web::{Access, Content, Site};

fn site(access: Access) -> Site {
    Site::new(
        Arc::new(Figures::new(Arc::new(|| Snapshot { run: 17, ..Snapshot::default() }))),
        access,
        Content::Metrics,
    )
}

/// The answer to `request` as head and body.
fn answer(request: &str) -> (String, String) {
    let answer = site(Access::Loopback).answer(request.as_bytes());
    let text = String::from_utf8(answer).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    (head.to_owned(), body.to_owned())
}

fn status(request: &str) -> u16 {
    let (head, _) = answer(request);
    head.split(' ').nth(1).unwrap_or_else(|| panic!("{head}")).parse().unwrap()
}

/// A request with lines of header behind its host.
fn request(line: &str, header: &str) -> String {
    format!("{line} HTTP/1.1\r\nHost: localhost\r\n{header}\r\n")
}

#[test]
fn metrics_come_in_the_format_that_is_asked_for() {
    let (head, body) = answer(&request("GET /metrics", ""));
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    assert!(head.contains("vary: accept"), "{head}");
    assert!(body.contains("# TYPE gannet_run_state gauge\n"), "{body}");
    assert!(body.contains("# TYPE gannet_trigger_decisions_total counter\n"), "{body}");
    assert!(!body.contains("# EOF"), "{body}");
    let open = request("GET /metrics", "Accept: application/openmetrics-text;version=1.0.0\r\n");
    let (head, body) = answer(&open);
    assert!(head.contains("content-type: application/openmetrics-text; version=1.0.0"), "{head}");
    assert!(body.contains("# TYPE gannet_trigger_decisions counter\n"), "{body}");
    assert!(body.ends_with("# EOF\n"), "{body}");
}

#[test]
fn the_snapshot_is_json_and_no_page_may_keep_or_frame_it() {
    let (head, body) = answer(&request("GET /snapshot.json", ""));
    assert!(body.contains("\"run\":17,"), "{body}");
    for expected in [
        "content-type: application/json",
        "x-content-type-options: nosniff",
        "cache-control: no-store",
        "content-security-policy: default-src 'none'",
        "cross-origin-resource-policy: same-origin",
    ] {
        assert!(head.contains(expected), "{expected}: {head}");
    }
    assert!(!head.contains("access-control-allow"), "{head}");
}

#[test]
fn a_head_is_the_same_without_the_body() {
    let length = |head: &str| {
        let line = head.lines().find(|line| line.starts_with("content-length: "));
        line.unwrap_or_else(|| panic!("{head}")).to_owned()
    };
    let (got, body) = answer(&request("GET /snapshot.json", ""));
    let (head, nothing) = answer(&request("HEAD /snapshot.json", ""));
    assert!(!body.is_empty() && nothing.is_empty());
    assert_eq!(length(&head), length(&got));
}

#[test]
fn other_methods_and_paths_are_refused_in_words() {
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH", "BREW"] {
        let (head, body) = answer(&request(&format!("{method} /metrics"), ""));
        assert!(head.starts_with("HTTP/1.1 405 "), "{method}: {head}");
        assert!(head.contains("allow: GET,HEAD"), "{method}: {head}");
        assert!(body.contains("`Allow` tells"), "{body}");
    }
    let (head, body) = answer(&request("GET /../etc/passwd", ""));
    assert!(head.starts_with("HTTP/1.1 404 ") && body.contains("/metrics"), "{head} {body}");
}

#[test]
fn what_is_too_long_is_refused_by_its_announcement() {
    for length in [BODY_BYTES_MAX + 1, 99_999_999_999] {
        let long = request("GET /metrics", &format!("Content-Length: {length}\r\n"));
        assert_eq!(status(&long), 413, "{length}");
    }
    let long = format!("X-Long: {}\r\n", "x".repeat(HEADER_BYTES_MAX));
    assert_eq!(status(&request("GET /metrics", &long)), 431);
    assert_eq!(status(&request("GET /metrics", &"A: b\r\n".repeat(1000))), 431);
    let fits = format!("X-Long: {}\r\n", "x".repeat(HEADER_BYTES_MAX / 2));
    assert_eq!(status(&request("GET /metrics", &fits)), 200);
}

#[test]
fn requests_in_one_go_are_answered_one_by_one() {
    let all = request("GET /snapshot.json", "").repeat(30);
    let answer = site(Access::Loopback).answer(all.as_bytes());
    let text = String::from_utf8(answer).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 30);
}

#[test]
fn an_old_client_need_not_name_a_host_and_a_new_one_must() {
    assert_eq!(status("GET /metrics HTTP/1.0\r\n\r\n"), 200);
    assert_eq!(status("GET /metrics HTTP/1.1\r\n\r\n"), 400);
    assert_eq!(status("GET /metrics HTTP/1.1\r\nHost: rebound.example\r\n\r\n"), 403);
}

#[test]
fn without_the_token_there_is_nothing_not_even_whether_a_path_exists() {
    let secret = "0123456789abcdef";
    let site = site(Access::Token(Token::new(secret).unwrap()));
    let ask = |path: &str, header: &str| {
        let answer = site.answer(request(&format!("GET {path}"), header).as_bytes());
        String::from_utf8(answer).unwrap()
    };
    for path in ["/metrics", "/snapshot.json", "/", "/nowhere"] {
        let refused = ask(path, "");
        assert!(refused.starts_with("HTTP/1.1 401 "), "{refused}");
        assert!(refused.contains("www-authenticate: Bearer realm=\"gannet\""), "{refused}");
        assert!(!refused.contains(secret), "{refused}");
    }
    let good = format!("Authorization: Bearer {secret}\r\n");
    assert!(ask("/metrics", &good).starts_with("HTTP/1.1 200 "));
}

#[test]
fn a_run_that_cannot_be_looked_at_is_an_answer() {
    let site = Site::new(
        Arc::new(Figures::new(Arc::new(|| panic!("on purpose")))),
        Access::Loopback,
        Content::Metrics,
    );
    let answer = site.answer(request("GET /metrics", "").as_bytes());
    assert!(answer.starts_with(b"HTTP/1.1 500 "), "{}", String::from_utf8_lossy(&answer));
}
