//! Commands to a station: which are taken, what is answered, and that pages follow from run to run.

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_control::config::{self, Token};
use gannet_control::figures::Figures;
use gannet_control::snapshot::Snapshot;
use gannet_control::station::{Crew, Ending, Station, Verified};
use gannet_dune::detector::DUNE_TPC;
use gannet_web::{Access, Commands, Content, Site};
use serde_json::{Value, json};

/// How long anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

const TOKEN: &str = "0123456789abcdef";

const CONFIG: &str = r#"
[[source]]
streams = { count = 2 }
emulated = true
depth = "100 ms"

[emulate]
streams = { count = 2 }
pace = { rate_scale = 0.05 }
"#;

/// Nobody reads anything back.
struct Nobody;

impl Crew for Nobody {
    fn end(&mut self, _: &Snapshot, _: Ending) -> Vec<Verified> {
        Vec::new()
    }
}

fn station() -> Arc<Station> {
    let mut plan = config::parse("test.toml", CONFIG, Path::new("."), &[&DUNE_TPC]).unwrap();
    plan.settings.recorder.enabled = false;
    Arc::new(Station::new(plan, Nobody).unwrap())
}

fn site(station: &Arc<Station>, allowed: bool) -> Site {
    let commands = Commands { station: Some(Arc::clone(station)), allowed, ..Commands::default() };
    Site::with_commands(station.present(), access(), Content::Pages, commands, None)
}

/// That of those who have a token, as [`ask`] sends it.
fn access() -> Access {
    Access::Session { tokens: Token::new(TOKEN).unwrap().into(), loopback: true, secure: false }
}

/// The status of the answer to a request with these lines, and what it says.
fn ask(site: &Site, line: &str, headers: &str, body: &str) -> (u16, Value) {
    let length = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    let answer = String::from_utf8(site.answer(request.as_bytes())).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}")))
}

fn get(site: &Site, path: &str) -> Value {
    let (status, told) = ask(site, &format!("GET /api/v1/{path}"), "", "");
    assert_eq!(status, 200, "{told}");
    told
}

/// Gives a command with this key, by somebody who believes in this state.
fn post(site: &Site, key: &str, command: &str, believed: &str) -> (u16, Value) {
    let headers = format!("Idempotency-Key: {key}\r\n");
    let body = json!({ "believed": believed }).to_string();
    ask(site, &format!("POST /api/v1/run/{command}"), &headers, &body)
}

/// Waits until the station is in this state.
fn wait_for(site: &Site, state: &str) -> Value {
    let begin = Instant::now();
    loop {
        let told = get(site, "state");
        if told["state"] == state {
            return told;
        }
        assert!(begin.elapsed() < PATIENCE, "{told}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn runs_are_started_paused_resumed_and_stopped_and_pages_follow() {
    let station = station();
    let site = site(&station, true);
    assert_eq!(get(&site, "state")["possible"], json!(["start"]));
    assert_eq!(get(&site, "runs"), json!([]));
    assert_eq!(get(&site, "snapshot")["state"], "initial");
    // The first run is planned: what it will rest on is known.
    assert!(get(&site, "config")["text"].as_str().unwrap().contains("[[source]]"));
    assert!(!get(&site, "doctor").as_array().unwrap().is_empty());
    let (status, none) = ask(&site, "GET /api/v1/waveform?channel=1", "", "");
    assert_eq!((status, &none["code"]), (404, &json!("no-run")));
    for run in 0..2_u64 {
        let key = |command: &str| format!("{command}-{run}");
        let rest = wait_for(&site, "idle");
        assert_eq!(rest["ended"], run);
        let (status, told) = post(&site, &key("start"), "start", "idle");
        assert_eq!((status, &told["state"]), (202, &json!("starting")));
        let running = wait_for(&site, "running");
        assert_eq!(
            (&running["run"], &running["possible"]),
            (&json!(run), &json!(["stop", "pause"]))
        );
        assert_eq!(get(&site, "channels").as_array().unwrap().len(), 2);
        for (command, before, after) in
            [("pause", "running", "paused"), ("resume", "paused", "running")]
        {
            let (status, told) = post(&site, &key(command), command, before);
            assert_eq!((status, &told["state"]), (202, &json!(after)), "{told}");
        }
        // Once more, and it is done once.
        let (status, told) = post(&site, &key("start"), "start", "idle");
        assert_eq!((status, &told["state"]), (202, &json!("starting")));
        assert_eq!(get(&site, "state")["state"], "running");
        let (status, told) = post(&site, &key("stop"), "stop", "running");
        assert_eq!((status, &told["state"]), (202, &json!("stopping")));
        wait_for(&site, "idle");
        let snapshot = get(&site, "snapshot");
        assert_eq!((&snapshot["run"], &snapshot["state"]), (&json!(run), &json!("stopped")));
        let runs = get(&site, "runs");
        let last = runs.as_array().unwrap().last().unwrap();
        assert_eq!((&last["number"], &last["ending"]), (&json!(run), &json!("command")));
        assert!(last["end_unix_s"].as_f64() >= last["begin_unix_s"].as_f64(), "{last}");
    }
}

#[test]
fn what_does_not_fit_is_refused_with_the_present_state() {
    let station = station();
    let site = site(&station, true);
    let (status, problem) = post(&site, "a", "stop", "idle");
    assert_eq!((status, &problem["code"]), (409, &json!("not-now")));
    assert_eq!(problem["now"]["state"], "idle");
    let (status, problem) = post(&site, "b", "start", "running");
    assert_eq!((status, &problem["code"]), (409, &json!("other-state")));
    assert_eq!(problem["now"]["state"], "idle");
    let (status, problem) = post(&site, "c", "fly", "idle");
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-call")));
    for (body, says) in [
        ("{}", "believed"),
        (r#"{"believed":"asleep"}"#, "asleep"),
        (r#"{"believed":"idle","force":true}"#, "force"),
        ("start", "line 1 column 1"),
    ] {
        let key = "Idempotency-Key: d\r\n";
        let (status, problem) = ask(&site, "POST /api/v1/run/start", key, body);
        assert_eq!((status, &problem["code"]), (400, &json!("bad-body")), "{body}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{problem}");
    }
    let body = r#"{"believed":"idle"}"#;
    let (status, problem) = ask(&site, "POST /api/v1/run/start", "", body);
    assert_eq!((status, &problem["code"]), (400, &json!("no-key")));
    // The same words to another command are another one.
    let (status, problem) = post(&site, "a", "pause", "idle");
    assert_eq!((status, &problem["code"]), (422, &json!("key-used")));
    assert_eq!(get(&site, "state")["state"], "idle");
}

#[test]
fn commands_that_are_off_and_runs_without_a_station_say_so() {
    let station = station();
    let off = site(&station, false);
    assert_eq!(get(&off, "state")["control"], false);
    let (status, problem) = post(&off, "a", "start", "idle");
    assert_eq!((status, &problem["code"]), (403, &json!("control-off")));
    assert_eq!(get(&off, "state")["state"], "idle");
    let figures = Arc::new(Figures::new(Arc::new(Snapshot::default)));
    let commands = Commands { allowed: true, ..Commands::default() };
    let single = Site::with_commands(figures, access(), Content::Pages, commands, None);
    let (key, body) = ("Idempotency-Key: e\r\n", r#"{"believed":"idle"}"#);
    for line in ["GET /api/v1/state", "GET /api/v1/runs", "POST /api/v1/run/start"] {
        let (status, problem) = ask(&single, line, key, body);
        assert_eq!((status, &problem["code"]), (404, &json!("no-station")), "{line}");
    }
}
