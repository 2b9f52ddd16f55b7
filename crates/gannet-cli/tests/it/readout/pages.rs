//! A run in a browser: the address that is printed, who it lets in, and figures that are those of the report.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::readout::process::{alone, gannet};

/// How long anything may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demonstration, and where it said that it can be seen.
struct Demo {
    child: Child,
    host: String,
    token: String,
    _directory: tempfile::TempDir,
}

impl Demo {
    fn start(seconds: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new(gannet());
        command.args(["demo", "--json", "--seconds", seconds, "--directory"]);
        command.arg(directory.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let printed = lines.find_map(|line| {
            let address = line.unwrap().split_once("http://")?.1.to_owned();
            let (host, token) = address.split_once("/?token=")?;
            Some((host.to_owned(), token.trim().to_owned()))
        });
        let (host, token) = printed.expect("an address");
        thread::spawn(move || lines.for_each(drop));
        Self { child, host, token, _directory: directory }
    }

    /// A connection on which `line` was asked, with `header`.
    fn ask(&self, line: &str, header: &str) -> TcpStream {
        let mut client = TcpStream::connect(&self.host).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = &self.host;
        let request =
            format!("{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{header}\r\n");
        client.write_all(request.as_bytes()).unwrap();
        client
    }

    /// The whole answer.
    fn answer(&self, line: &str, header: &str) -> String {
        let mut text = String::new();
        self.ask(line, header).read_to_string(&mut text).unwrap();
        text
    }

    /// The header that a browser sends which was let in.
    fn cookie(&self) -> String {
        let answer = self.answer(&format!("GET /?token={}", self.token), "");
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
    }

    /// Its exit code and its report, once it has ended.
    fn end(mut self) -> (Option<i32>, Value) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        (status.code(), serde_json::from_str(&text).unwrap())
    }
}

#[test]
fn a_demonstration_is_seen_at_the_address_that_it_prints_for_as_long_as_somebody_looks() {
    let _alone = alone();
    let demo = Demo::start("1");
    assert!(demo.host.starts_with("127.0.0.1:"), "{}", demo.host);
    for nobody in ["", "Cookie: gannet=x\r\n", "Authorization: Bearer 0123456789abcdef\r\n"] {
        let refused = demo.answer("GET /api/v1/snapshot", nobody);
        assert!(
            refused.starts_with("HTTP/1.1 401 ") && !refused.contains(&demo.token),
            "{refused}"
        );
    }
    let cookie = demo.cookie();
    let page = demo.answer("GET /", &cookie);
    assert!(page.contains("<title>Gannet</title>") && !page.contains(&demo.token), "{page}");
    let reasons = demo.answer("GET /api/v1/reasons", &cookie);
    let meaning = "The kernel dropped it: its queue was full.";
    assert!(reasons.contains(meaning), "{reasons}");

    let begin = Instant::now();
    let events = BufReader::new(demo.ask("GET /api/v1/events", &cookie)).lines();
    let mut snapshots = events.filter_map(|line| {
        serde_json::from_str::<Value>(line.unwrap().strip_prefix("data: ")?).ok()
    });
    // It was to last one second; somebody looks for longer.
    let late = snapshots.find(|snapshot| {
        assert!(begin.elapsed() < PATIENCE, "{snapshot}");
        snapshot["elapsed_s"].as_f64() > Some(3.0)
    });
    let late = late.expect("more snapshots");
    let next = snapshots.next().unwrap();
    assert!(next["number"].as_u64() > late["number"].as_u64());
    assert!(next["clock_s"].as_f64() > late["clock_s"].as_f64());
    let seen = next["trigger"]["primitives"].as_u64().unwrap();
    assert!(seen > 0 && next["state"] == "running", "{next}");
    drop(snapshots);
    let (code, report) = demo.end();
    assert_eq!(code, Some(0), "{report}");
    assert!(report["readout"]["trigger"]["primitives"].as_u64() >= Some(seen), "{report}");
}

#[test]
fn an_address_that_others_reach_is_refused_in_the_clear_unless_that_is_meant() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("a.toml");
    std::fs::write(&config, "[[source]]\nudp = { listen = [\"127.0.0.1:0\"] }\n").unwrap();
    for (argument, what) in
        [("--web=0.0.0.0:0", "read the token"), ("--metrics=0.0.0.0:0", "read the run")]
    {
        let mut command = Command::new(gannet());
        let refused = command.args(["run", argument]).arg(&config).output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(2), "{error}");
        assert!(error.contains(what) && error.contains("plain = true"), "{error}");
    }
}
