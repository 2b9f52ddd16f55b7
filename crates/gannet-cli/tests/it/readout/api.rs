//! The interface for programs, asked of the real binary: what it tells, who may command, and what others make of its
//! description.

use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use serde_json::{Value, json};

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet};

/// How long anything may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Tokens of every role, as the environment gives them.
const TOKENS: &str = "view view-0123456789ab\noperate operate-012345678\nadmin admin-0123456789a";

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Waits until the run takes frames.
fn wait_until_running(demo: &Demo, header: &str) {
    let begin = Instant::now();
    while demo.json("state", header).1["state"] != "running"
        || demo.json("snapshot", header).1["sources"][0]["frames"] == 0
    {
        assert!(begin.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_is_known_of_a_run_is_told_in_parts() {
    let _alone = alone();
    let demo = Demo::start("60");
    let cookie = demo.cookie();
    wait_until_running(&demo, &cookie);
    let ask = |path: &str| demo.json(path, &cookie);
    let (status, streams) = ask("streams");
    let name = streams[0]["name"].as_str().unwrap();
    assert_eq!((status, streams.as_array().unwrap().len()), (200, 4));
    assert_eq!(ask(&format!("streams?stream={name}")).1[0]["name"], name);
    let (status, problem) = ask(&format!("streams?stream={name}x"));
    let detail = problem["detail"].as_str().unwrap();
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-stream")));
    assert!(detail.contains("the nearest is"), "{problem}");
    let (_, frames) = ask("ledger?stage=frames");
    assert!(frames[0]["offered"].as_u64() >= frames[0]["delivered"].as_u64(), "{frames}");
    let (status, problem) = ask("ledger?stage=frame");
    assert_eq!((status, &problem["code"]), (404, &json!("unknown-stage")), "{problem}");
    assert!(problem["detail"].as_str().unwrap().ends_with("the nearest is frames"), "{problem}");
    assert_eq!(ask("alarms").0, 200);

    let (status, config) = ask("config");
    let text = config["text"].as_str().unwrap();
    assert!(
        status == 200 && text.contains("[[source]]") && text.contains("seed = 2026"),
        "{config}"
    );
    let (status, checks) = ask("doctor");
    let all = checks.as_array().unwrap();
    let receiving = all.iter().find(|check| check["name"] == "busiest receiving thread").unwrap();
    assert!(
        status == 200 && receiving["value"].as_str().unwrap().contains("of a core so far"),
        "{receiving}"
    );
    // What the run has is no obstacle to it.
    assert!(
        all.iter().all(|check| !check["value"].as_str().unwrap().contains("in use")),
        "{checks}"
    );

    // A command is in the log, with who gave it.
    let order = r#"{"fault":"no-such"}"#;
    let (status, _) = demo.post("faults", &cookie, "a", order);
    assert_eq!(status, 404);
    let (_, log) = ask("log?last=5");
    let lines = log["lines"].as_array().unwrap();
    let line = lines.iter().filter_map(Value::as_str).find(|line| line.contains("no-such"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    assert!(
        line.contains("a command") && line.contains("role=admin") && line.contains("404"),
        "{line}"
    );
    assert_eq!(ask("log?last=0").1["code"], "too-little");
    for path in ["state?run=1", "ledger?stages=x", "log?last=few"] {
        let (status, problem) = ask(path);
        assert_eq!((status, &problem["code"]), (400, &json!("unreadable-query")), "{path}");
    }
    demo.interrupt();
    assert_eq!(demo.end().0, Some(130));
}

#[test]
fn the_description_is_that_in_the_documents() {
    let output = Command::new(gannet()).args(["check", "--openapi"]).output().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let committed = std::fs::read(root.join("docs/reference/openapi.json")).unwrap();
    assert!(output.stdout == committed, "write it anew by `cargo xtask docs`");
}

#[test]
fn nobody_changes_a_run_but_who_may() {
    let _alone = alone();
    let demo = Demo::with_tokens("60", TOKENS);
    let viewer = bearer("view-0123456789ab");
    wait_until_running(&demo, &viewer);
    let (_, description) = demo.json("openapi.json", &viewer);
    let before = demo.json("faults", &viewer).1;
    let paths = description["paths"].as_object().unwrap();
    let commands: Vec<_> =
        paths.iter().filter(|(_, methods)| methods["post"].is_object()).collect();
    assert!(!commands.is_empty());
    let host = demo.host.clone();
    for (path, methods) in commands {
        let path = path.strip_prefix("/api/v1/").unwrap();
        let is_admins = methods["post"]["x-role"] == "admin";
        for (token, refusal) in [
            ("", Some(401)),
            ("wrong-0123456789", Some(401)),
            ("view-0123456789ab", Some(403)),
            ("operate-012345678", is_admins.then_some(403)),
        ] {
            let token = if token.is_empty() { String::new() } else { bearer(token) };
            for origin in [format!("http://{host}"), "http://evil.example".into(), "null".into()] {
                for asked in [&*host, "evil.example"] {
                    let is_right = origin.ends_with(&host) && asked == host;
                    let expected = if is_right { refusal } else { Some(403) };
                    let Some(expected) = expected else { continue };
                    let headers = format!("{token}Origin: {origin}\r\n");
                    let order = r#"{"fault":"loss"}"#;
                    let (status, problem) = demo.post_to(asked, path, &headers, "k", order);
                    let told = format!("{path} with {headers} at {asked}: {problem}");
                    assert_eq!(status, expected, "{told}");
                    assert!(problem["code"].is_string(), "{told}");
                }
            }
        }
    }
    let (_, state) = demo.json("state", &viewer);
    assert_eq!(state["state"], "running");
    assert_eq!(demo.json("faults", &viewer).1["injections"], before["injections"]);
    assert_eq!(before["injections"], json!([]));
    let operator = bearer("operate-012345678");
    assert_eq!(demo.post("faults", &operator, "k", r#"{"fault":"duplicate"}"#).0, 201);
    demo.interrupt();
    demo.end();
}

#[test]
fn others_generate_a_client_and_read_arrow() {
    let test = "others_generate_a_client_and_read_arrow";
    let Some(python) = std::env::var_os("GANNET_JUDGE_PYTHON") else {
        return skipped(test, "set GANNET_JUDGE_PYTHON to a Python with openapi-python-client");
    };
    let imports = ["-c", "import openapi_python_client, openapi_spec_validator, pyarrow"];
    if !Command::new(&python).args(imports).status().is_ok_and(|status| status.success()) {
        return skipped(
            test,
            "openapi-python-client, openapi-spec-validator or pyarrow is missing",
        );
    }
    let _alone = alone();
    let demo = Demo::with_tokens("120", TOKENS);
    let directory = tempfile::tempdir().unwrap();
    let judge = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/judges/interface.py");
    let mut command = Command::new(&python);
    command.arg(judge).arg(format!("http://{}", demo.host)).arg("operate-012345678");
    let output = command.arg(directory.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    demo.interrupt();
    demo.end();
}
