//! Pages, and what they ask: who may see them, files, events.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use gannet_control::config::Token;
use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_measure::testing::skipped;
use gannet_web::{Access, Content, Listener, Server, Site};

const SECRET: &str = "0123456789abcdef";

/// Snapshots with numbers from 0 on.
fn figures() -> Arc<Figures> {
    let made = AtomicU64::default();
    Arc::new(Figures::new(Arc::new(move || Snapshot {
        number: made.fetch_add(1, Ordering::Relaxed),
        ..Snapshot::default()
    })))
}

fn access(loopback: bool) -> Access {
    Access::Session { tokens: Token::new(SECRET).unwrap().into(), loopback, secure: false }
}

/// The answer to `line` with these headers, as head and body.
fn ask(site: &Site, line: &str, headers: &[&str]) -> (String, Vec<u8>) {
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let answer = site.answer(format!("{line} HTTP/1.1\r\n{lines}\r\n").as_bytes());
    let end = answer.windows(4).position(|it| it == b"\r\n\r\n").unwrap();
    (String::from_utf8(answer[..end].to_vec()).unwrap(), answer[end + 4..].to_vec())
}

fn status(head: &str) -> u16 {
    head.split(' ').nth(1).unwrap().parse().unwrap()
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn a_browser_that_was_opened_with_the_token_keeps_it_in_a_cookie() {
    let site = Site::new(figures(), access(true), Content::Pages);
    let host = "Host: localhost:8080";
    let (refused, text) = ask(&site, "GET /", &[host]);
    assert_eq!(status(&refused), 401);
    assert!(String::from_utf8(text).unwrap().contains("the terminal printed"));
    for wrong in [
        "/?token=",
        "/?token=0123456789abcdeF",
        "/?t=0123456789abcdef",
        "/index.html?token=0123456789abcdef",
    ] {
        let (head, _) = ask(&site, &format!("GET {wrong}"), &[host]);
        assert_eq!((status(&head), header(&head, "set-cookie")), (401, None), "{wrong}");
    }
    let (head, _) = ask(&site, &format!("HEAD /?token={SECRET}"), &[host]);
    assert_eq!(status(&head), 303, "{head}");
    let (head, _) = ask(&site, &format!("GET /?token={SECRET}"), &[host]);
    assert_eq!((status(&head), header(&head, "location")), (303, Some("/")), "{head}");
    let cookie = header(&head, "set-cookie").unwrap();
    assert_eq!(cookie, format!("gannet-8080={SECRET}; Path=/; HttpOnly; SameSite=Strict"));
    for path in ["/", "/index.html", "/api/v1/snapshot", "/metrics"] {
        let ask = |cookie: &str| ask(&site, &format!("GET {path}"), &[host, cookie]).0;
        assert_eq!(status(&ask(&format!("Cookie: a=b; gannet-8080={SECRET}"))), 200, "{path}");
        assert_eq!(status(&ask(&format!("Cookie: gannet-8081={SECRET}"))), 401, "{path}");
        assert_eq!(status(&ask("Cookie: gannet-8080=")), 401, "{path}");
    }
    let bearer = format!("Authorization: Bearer {SECRET}");
    assert_eq!(status(&ask(&site, "GET /api/v1/snapshot", &[host, &bearer]).0), 200);
    // Whatever it knows, a page of another name or site reads nothing.
    let right = format!("Cookie: gannet-8080={SECRET}");
    for foreign in ["Origin: http://evil.example", "Sec-Fetch-Site: cross-site"] {
        assert_eq!(status(&ask(&site, "GET /api/v1/snapshot", &[host, &right, foreign]).0), 403);
    }
    let (rebound, _) = ask(&site, "GET /", &["Host: evil.example:8080", &right]);
    assert_eq!(status(&rebound), 403);
    let open = Site::new(figures(), access(false), Content::Pages);
    assert_eq!(status(&ask(&open, "GET /", &["Host: daq.example:8080", &right]).0), 200);
}

#[test]
fn what_cannot_be_asked_is_a_problem_with_a_code() {
    let site = Site::new(figures(), Access::Loopback, Content::Pages);
    for (path, expected, code) in [
        ("channels", 404, "no-waveforms"),
        ("waveform?channel=1", 404, "no-waveforms"),
        ("primitives", 404, "no-primitives"),
        ("primitives?chanel=1", 400, "unreadable-query"),
        ("decisions?last=few", 400, "unreadable-query"),
        ("decisions", 404, "no-primitives"),
        ("records/1", 404, "no-primitives"),
        ("records/first", 400, "unreadable-query"),
        ("waveform?channel=x", 400, "unreadable-query"),
        ("waveform?channel=1&channel=2", 400, "unreadable-query"),
        ("events?topic=snapshot", 400, "unreadable-query"),
        ("events?topics=pictures", 400, "unknown-topic"),
    ] {
        let (head, body) = ask(&site, &format!("GET /api/v1/{path}"), &["Host: localhost"]);
        assert_eq!(status(&head), expected, "{path}");
        assert_eq!(header(&head, "content-type"), Some("application/problem+json"), "{path}");
        let body = String::from_utf8(body).unwrap();
        assert!(body.contains(&format!("\"code\":\"{code}\"")), "{path}: {body}");
    }
}

#[test]
fn files_of_the_pages_are_kept_by_their_tag_and_may_load_nothing_else() {
    let site = Site::new(figures(), Access::Loopback, Content::Pages);
    let host = "Host: localhost";
    let (head, plain) = ask(&site, "GET /", &[host]);
    assert_eq!(status(&head), 200);
    assert_eq!(header(&head, "content-type"), Some("text/html; charset=utf-8"));
    assert!(header(&head, "content-security-policy").unwrap().starts_with("default-src 'self';"));
    assert_eq!(header(&head, "x-frame-options"), Some("DENY"));
    let tag = header(&head, "etag").unwrap();
    assert_eq!(ask(&site, "GET /index.html", &[host]).1, plain);
    let (head, compressed) = ask(&site, "GET /", &[host, "Accept-Encoding: br, gzip"]);
    assert_eq!(header(&head, "content-encoding"), Some("gzip"));
    assert!(compressed.starts_with(&[0x1f, 0x8b]) && compressed != plain);
    let (head, nothing) = ask(&site, "GET /", &[host, &format!("If-None-Match: {tag}")]);
    assert_eq!((status(&head), nothing.len()), (304, 0), "{head}");
    let (head, _) = ask(&site, "GET /", &[host, "If-None-Match: \"another\""]);
    assert_eq!(status(&head), 200);
    for nowhere in
        ["/nothing.js", "/../Cargo.toml", "/%2e%2e/Cargo.toml", "/api/v1/nothing", "/a/b"]
    {
        let (head, _) = ask(&site, &format!("GET {nowhere}"), &[host]);
        assert_eq!(status(&head), 404, "{nowhere}");
    }
}

#[test]
fn what_is_asked_for_wrongly_is_refused_in_words() {
    let site = Site::new(figures(), Access::Loopback, Content::Pages);
    for (query, code) in [
        ("topics=snapshots", "unknown-topic"),
        ("rate=0", "rate-out-of-range"),
        ("rate=11", "rate-out-of-range"),
        ("rate=NaN", "rate-out-of-range"),
    ] {
        let (head, body) = ask(&site, &format!("GET /api/v1/events?{query}"), &["Host: localhost"]);
        assert_eq!(status(&head), 400);
        assert_eq!(header(&head, "content-type"), Some("application/problem+json"));
        let problem: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(problem["code"], code, "{problem}");
    }
    let (head, _) = ask(&site, "GET /api/v1/events?speed=3", &["Host: localhost"]);
    assert_eq!(status(&head), 400);
}

fn serve() -> Server {
    let listener = Listener::open("127.0.0.1:0".parse().unwrap(), Access::Loopback).unwrap();
    listener.serve(figures(), Content::Pages).unwrap()
}

/// A client that is told of each snapshot.
fn onlooker(server: &Server) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    client
        .write_all(b"GET /api/v1/events?topics=snapshot HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .unwrap();
    client
}

/// Numbers of the next snapshots that a client is told of.
fn numbers(client: &TcpStream, count: usize) -> Vec<u64> {
    let lines = BufReader::new(client).lines().map(Result::unwrap);
    lines.filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).take(count).collect()
}

#[test]
fn all_who_look_on_are_told_of_the_same_snapshots() {
    let server = serve();
    let clients = [onlooker(&server), onlooker(&server), onlooker(&server)];
    let told: Vec<_> = clients.iter().map(|client| numbers(client, 5)).collect();
    assert_eq!(server.onlookers(), 3);
    for numbers in &told {
        assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
    // Had each of them snapshots of its own, there would be three times as many.
    let last = told.iter().flatten().max().unwrap();
    assert!(told.iter().all(|numbers| numbers[4] + 4 > *last), "{told:?}");
    drop(clients);
    while server.onlookers() > 0 {
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn an_event_is_the_snapshot() {
    let server = serve();
    let mut client = onlooker(&server);
    let mut text = String::new();
    while !text.contains("\n\n") {
        let mut bytes = [0; 4096];
        let count = client.read(&mut bytes).unwrap();
        assert!(count > 0, "{text}");
        text.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
    }
    assert!(text.contains("content-type: text/event-stream"), "{text}");
    let data = text.lines().find_map(|line| line.strip_prefix("data: ")).unwrap();
    let snapshot: serde_json::Value = serde_json::from_str(data).unwrap();
    assert!(snapshot["number"].is_u64() && snapshot["ledger"].is_array());
}

/// Runs `program` in the folder of this crate; what it said, if it is here.
fn run(program: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let mut command = std::process::Command::new(program);
    let output = command.args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), text))
}

#[test]
fn what_pages_compute_is_right() {
    let (test, file) = ("what_pages_compute_is_right", "tests/pages/pages.test.mjs");
    match run("node", &["--test", file]) {
        Some((is_right, text)) => assert!(is_right, "{text}"),
        None => skipped(test, "node is not here"),
    }
}

#[test]
fn pages_fit_their_types() {
    match run("tsc", &["-p", "pages"]) {
        Some((is_right, text)) => assert!(is_right, "{text}"),
        None => {
            skipped("pages_fit_their_types", "tsc is not here (npm install --global typescript)")
        }
    }
}
