//! The description of the interface, and that it is true: every call is described, and who may do what is as it says.

use std::collections::HashSet;
use std::sync::Arc;

use gannet_control::config::Tokens;
use gannet_control::emulation::{Breakable, Faults};
use gannet_control::figures::Figures;
use gannet_control::run::Views;
use gannet_control::run_control::State;
use gannet_control::snapshot::Snapshot;
use gannet_web::{Access, Commands, Content, Site, description};
use serde_json::Value;

const TOKENS: [(&str, &str); 3] = [
    ("view", "view-0123456789ab"),
    ("operate", "operate-012345678"),
    ("admin", "admin-0123456789a"),
];

/// A run whose front end is emulated, what is put into it, and tokens of every role.
fn site() -> (Site, Arc<Faults>) {
    let figures =
        Figures::new(Arc::new(|| Snapshot { state: State::Running, ..Snapshot::default() }));
    let lines = TOKENS.map(|(role, token)| format!("{role} {token}\n")).concat();
    let access =
        Access::Session { tokens: Tokens::parse(&lines).unwrap(), loopback: true, secure: false };
    let faults = Arc::new(Faults::new(vec!["0".into()], Breakable::default()));
    let views = Views { faults: Some(Arc::clone(&faults)), ..Arc::new(figures).into() };
    let commands = Commands { allowed: true, ..Commands::default() };
    (Site::with_commands(views, access, Content::Pages, commands, None), faults)
}

/// All that is described: method, path with something at each of its places, and what is said.
fn operations() -> Vec<(String, String, Value)> {
    let document = description();
    let paths = document["paths"].as_object().unwrap().clone();
    let operations = paths.into_iter().flat_map(|(path, methods)| {
        let parts = path.split('/').map(|part| if part.starts_with('{') { "1" } else { part });
        let path = parts.collect::<Vec<_>>().join("/");
        let methods = methods.as_object().unwrap().clone();
        methods.into_iter().map(move |(method, said)| (method.to_uppercase(), path.clone(), said))
    });
    operations.collect()
}

/// Status and code of the answer to a request with these headers, as JSON with a key of its own.
fn ask(site: &Site, method: &str, path: &str, headers: &[&str], key: &str) -> (u16, String) {
    let lines: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{lines}Content-Type: application/json\r\nIdempotency-Key: {key}\r\n\
         Content-Length: 2\r\n\r\n{{}}"
    );
    let answer = String::from_utf8_lossy(&site.answer(request.as_bytes())).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Value = serde_json::from_str(body).unwrap_or_default();
    (status, body["code"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn every_call_is_described_in_words() {
    let operations = operations();
    assert!(operations.len() > 10, "{}", operations.len());
    let mut names = HashSet::new();
    for (method, path, said) in &operations {
        assert!(names.insert(said["operationId"].to_string()), "{said}");
        assert!(said["summary"].as_str().unwrap().ends_with('.'), "{method} {path}");
        for parameter in said["parameters"].as_array().unwrap() {
            let is_place = parameter["in"] == "path";
            let told = parameter["description"].as_str().unwrap_or_default();
            assert!(is_place || !told.is_empty(), "{method} {path}: {parameter}");
        }
    }
    let document = description();
    for (name, schema) in document["components"]["schemas"].as_object().unwrap() {
        for (member, schema) in schema["properties"].as_object().into_iter().flatten() {
            // A member that is a type of its own has the words of the type.
            let is_told = schema["description"].is_string() || !schema["$ref"].is_null();
            assert!(is_told, "{name}.{member}: say in its doc comment what it is");
        }
    }
}

#[test]
fn what_is_described_is_there_and_nothing_else_is() {
    let (site, _) = site();
    let administrator = "Authorization: Bearer admin-0123456789a";
    let headers = ["Host: localhost", administrator];
    for (method, path, _) in operations() {
        // Events have no end.
        if !path.ends_with("/events") {
            let (status, code) = ask(&site, &method, &path, &headers, "a");
            assert!(code != "unknown-call" && status != 405, "{method} {path}: {status} {code}");
        }
        assert_eq!(ask(&site, "DELETE", &path, &headers, "a").0, 405, "{path}");
    }
    let nowhere = ask(&site, "GET", "/api/v1/nothing", &headers, "a");
    assert_eq!(nowhere, (404, "unknown-call".to_owned()));
}

/// Tokens, with the role that they give; none of the first two.
const SENDERS: [(&str, Option<usize>); 5] = [
    ("X-Nothing: 1", None),
    ("Authorization: Bearer admin-0123456789A", None),
    ("Authorization: Bearer view-0123456789ab", Some(0)),
    ("Authorization: Bearer operate-012345678", Some(1)),
    ("Authorization: Bearer admin-0123456789a", Some(2)),
];

#[test]
fn who_may_do_what_is_as_described() {
    let (site, faults) = site();
    for (method, path, said) in operations() {
        let needed = TOKENS.iter().position(|(role, _)| said["x-role"] == *role).unwrap();
        assert!(method == "GET" || needed > 0, "{method} {path} changes something");
        for (sender, role) in SENDERS {
            for origin in ["Origin: http://localhost:8080", "Origin: http://evil.example"] {
                for host in ["Host: localhost:8080", "Host: evil.example"] {
                    let is_right = origin.contains("localhost") && host.contains("localhost");
                    if is_right && role >= Some(needed) {
                        continue;
                    }
                    let (status, code) = ask(&site, &method, &path, &[sender, origin, host], "a");
                    let expected = match role {
                        _ if !is_right => (403, ["foreign-origin", "foreign-host"].as_slice()),
                        None => (401, ["no-token"].as_slice()),
                        Some(_) => (403, ["wrong-role"].as_slice()),
                    };
                    let told = format!("{method} {path} by {sender}, {origin}, {host}: {code}");
                    assert!(status == expected.0 && expected.1.contains(&&*code), "{told}");
                }
            }
        }
    }
    assert_eq!(faults.injections(), []);
    let operator = ["Host: localhost:8080", SENDERS[3].0];
    let (status, _) = ask(&site, "POST", "/api/v1/faults", &operator, "b");
    assert_eq!(status, 400, "the operator may, and `{{}}` names no fault");
}
