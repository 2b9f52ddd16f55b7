//! Putting faults into a run: who may, what is refused, and that a command is done once.

use std::sync::Arc;

use gannet_control::config::Token;
use gannet_control::emulation::{Breakable, Faults};
use gannet_control::figures::Figures;
use gannet_control::run::Views;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_web::limits::{BODY_BYTES_MAX, KEY_BYTES_MAX, KEYS_MAX};
use gannet_web::{Access, Commands, Content, Site};
use serde_json::{Value, json};

const SECRET: &str = "0123456789abcdef";
const LOSS: &str = r#"{"fault":"loss"}"#;

fn site_in(state: State, faults: Option<Arc<Faults>>, allowed: bool) -> Site {
    let figures = Figures::new(Arc::new(move || Snapshot { state, ..Snapshot::default() }));
    let access = Access::Session {
        tokens: Token::new(SECRET).unwrap().into(),
        loopback: true,
        secure: false,
    };
    let views = Views { faults, ..Arc::new(figures).into() };
    let commands = Commands { allowed, ..Commands::default() };
    Site::with_commands(views, access, Content::Pages, commands, None)
}

/// A run with the streams 0 and 1, and what is put into it.
fn site() -> (Site, Arc<Faults>) {
    let faults = Arc::new(Faults::new(vec!["0".into(), "1".into()], Breakable::default()));
    (site_in(State::Running, Some(Arc::clone(&faults)), true), faults)
}

/// Status and body of the answer to `method` at the faults, with these header lines.
fn ask(site: &Site, method: &str, headers: &[&str], body: &str) -> (u16, Value) {
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!(
        "{method} /api/v1/faults HTTP/1.1\r\n{lines}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = String::from_utf8(site.answer(request.as_bytes())).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_problem = head.contains("content-type: application/problem+json");
    let body = serde_json::from_str::<Value>(body).unwrap_or_default();
    assert_eq!(is_problem, body["code"].is_string(), "{answer}");
    (status, body)
}

const RIGHT: [&str; 3] = [
    "Host: localhost:8080",
    "Authorization: Bearer 0123456789abcdef",
    "Content-Type: application/json",
];

fn post(site: &Site, key: &str, body: &str) -> (u16, Value) {
    let key = format!("Idempotency-Key: {key}");
    ask(site, "POST", &[&RIGHT[..], &[&key]].concat(), body)
}

#[test]
fn a_fault_is_put_in_and_listed() {
    let (site, faults) = site();
    let (status, listed) = ask(&site, "GET", &RIGHT, "");
    assert_eq!((status, &listed["control"]), (200, &json!(true)));
    assert_eq!(listed["injections"], json!([]));
    assert_eq!(listed["faults"][0]["name"], "loss");
    let (status, told) = post(&site, "a", r#"{"fault":"cut","seconds":2.5,"stream":"1"}"#);
    assert_eq!(status, 201, "{told}");
    let expected = json!({
        "number": 1, "fault": "cut", "stream": "1", "channel": null, "seconds": 2.5, "suffered": 0,
        "under_way": true,
    });
    assert_eq!(told, expected);
    assert_eq!(ask(&site, "GET", &RIGHT, "").1["injections"], json!([expected]));
    assert_eq!(faults.injections().len(), 1);
}

#[test]
fn the_same_key_gives_the_same_answer_and_does_nothing_again() {
    let (site, faults) = site();
    let first = post(&site, "a", LOSS);
    assert_eq!(first.0, 201, "{}", first.1);
    assert_eq!(post(&site, "a", r#"{ "fault": "loss", "seconds": 5 }"#), first);
    let (status, other) = post(&site, "a", r#"{"fault":"cut"}"#);
    assert_eq!((status, &other["code"]), (422, &json!("key-used")));
    let busy = post(&site, "b", LOSS);
    assert_eq!((busy.0, &busy.1["code"]), (409, &json!("fault-under-way")));
    assert_eq!(busy.1["now"]["under_way"]["number"], 1);
    assert_eq!((post(&site, "b", LOSS), faults.injections().len()), (busy, 1));
    // So many later, the first is forgotten.
    (0..KEYS_MAX).for_each(|key| assert_eq!(post(&site, &key.to_string(), LOSS).0, 409));
    assert_eq!(post(&site, "a", LOSS).0, 409);
}

#[test]
fn nobody_else_commands() {
    let (site, faults) = site();
    let key = "Idempotency-Key: a";
    let [host, token, kind] = RIGHT;
    for (headers, status) in [
        (vec![host, kind, key], 401),
        (vec![host, kind, key, "Authorization: Bearer 0123456789abcdeF"], 401),
        (vec!["Host: evil.example", token, kind, key], 403),
        (vec![host, token, kind, key, "Origin: http://evil.example"], 403),
        (vec![host, token, kind, key, "Origin: http://localhost:8081"], 403),
        (vec![host, token, kind, key, "Origin: null"], 403),
        (vec![host, token, kind, key, "Sec-Fetch-Site: same-site"], 403),
        (vec![host, token, key], 415),
        (vec![host, token, key, "Content-Type: text/plain"], 415),
        (vec![host, token, kind], 400),
        (vec![host, token, kind, "Idempotency-Key:"], 400),
    ] {
        assert_eq!(ask(&site, "POST", &headers, LOSS).0, status, "{headers:?}");
    }
    let long = "k".repeat(KEY_BYTES_MAX + 1);
    assert_eq!(post(&site, &long, LOSS).1["code"], "no-key");
    for method in ["PUT", "DELETE", "PATCH"] {
        assert_eq!(ask(&site, method, &RIGHT, LOSS).0, 405, "{method}");
    }
    assert_eq!(faults.injections(), []);
    let own = [&RIGHT[..], &[key, "Origin: http://localhost:8080"]].concat();
    assert_eq!(ask(&site, "POST", &own, LOSS).0, 201);
}

#[test]
fn what_does_not_fit_is_told_with_its_place() {
    let (site, faults) = site();
    for (body, status, code, told) in [
        ("", 400, "bad-body", "line 1 column 0"),
        (r#"{"fault":"loss","for":5}"#, 400, "bad-body", "unknown field `for`"),
        ("{\"fault\":\n 7}", 400, "bad-body", "line 2 column 2"),
        (r#"{"seconds":5}"#, 400, "bad-body", "missing field `fault`"),
        (r#"{"fault":"los"}"#, 404, "unknown-fault", "did you mean loss?"),
        (r#"{"fault":"cut","stream":"11"}"#, 404, "unknown-stream", "did you mean 1?"),
        (r#"{"fault":"loss","stream":"1"}"#, 400, "no-single-stream", "leave `stream` out"),
        (r#"{"fault":"loss","seconds":-1}"#, 400, "seconds-out-of-range", "0.1 to 60"),
        (r#"{"fault":"loss","seconds":1e300}"#, 400, "seconds-out-of-range", "0.1 to 60"),
    ] {
        let (got, problem) = post(&site, "a", body);
        assert_eq!((got, &problem["code"]), (status, &json!(code)), "{body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(told), "{problem}");
    }
    let long = format!("{{\"fault\":\"{}\"}}", "x".repeat(BODY_BYTES_MAX));
    assert_eq!(post(&site, "a", &long).0, 413);
    assert_eq!(faults.injections(), []);
    assert_eq!(faults.switch().order(), None);
}

#[test]
fn a_run_that_cannot_be_broken_says_why() {
    let none = site_in(State::Running, None, true);
    let (status, problem) = post(&none, "a", LOSS);
    assert_eq!((status, &problem["code"]), (404, &json!("no-emulated-front-end")));
    assert_eq!(ask(&none, "GET", &RIGHT, "").1["faults"], json!([]));

    let faults = || Some(Arc::new(Faults::new(vec!["0".into()], Breakable::default())));
    let off = site_in(State::Running, faults(), false);
    let (status, problem) = post(&off, "a", LOSS);
    assert_eq!((status, &problem["code"]), (403, &json!("control-off")));
    assert!(problem["detail"].as_str().unwrap().contains("control = true"), "{problem}");
    assert_eq!(ask(&off, "GET", &RIGHT, "").1["control"], json!(false));

    for state in [State::Configured, State::Draining, State::Stopped] {
        let site = site_in(state, faults(), true);
        let (status, problem) = post(&site, "a", LOSS);
        assert_eq!((status, &problem["code"]), (409, &json!("not-running")), "{state:?}");
        assert_eq!(problem["now"]["state"], json!(state));
    }
}
