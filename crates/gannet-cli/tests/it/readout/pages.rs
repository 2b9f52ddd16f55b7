//! A run in a browser: the address that is printed, who it lets in, and figures that are those of the report.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::readout::process::{alone, gannet};

/// How long anything may take on a machine that does much else, before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A demonstration or another run with an emulated front end, and where it said that it can be seen.
pub struct Demo {
    child: Child,
    pub host: String,
    token: String,
    directory: Arc<TempDir>,
    /// Gives what it says after the address, once it has ended.
    said: Option<JoinHandle<String>>,
}

impl Demo {
    pub fn start(seconds: &str) -> Self {
        Self::start_by(Command::new(gannet()), seconds)
    }

    /// The same with these tokens in its environment.
    pub fn with_tokens(seconds: &str, tokens: &str) -> Self {
        let mut command = Command::new(gannet());
        command.env("GANNET_WEB_TOKENS", tokens);
        Self::start_by(command, seconds)
    }

    fn start_by(mut command: Command, seconds: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        command.args(["demo", "--json", "--seconds", seconds, "--directory"]);
        command.arg(directory.path());
        Self::of(command, directory.into())
    }

    /// A run of two streams whose frames are emulated in its process, and which takes commands. Tables, and lines of the
    /// tables `[recorder]` and `[emulate]`, may be added.
    pub fn emulated(seed: u64, recorder: &str, emulate: &str, tables: &str) -> Self {
        Self::with(&format!(
            "[[source]]\nstreams = {{ count = 2 }}\nemulated = true\n{tables}\n\
             [emulate]\nseed = {seed}\nstreams = {{ count = 2 }}\n{emulate}\n[recorder]\n{recorder}\n"
        ))
    }

    /// A run of a configuration with the table `[recorder]`, whose files go to a directory of its own, and which takes
    /// commands.
    pub fn with(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let recorder = format!("\n[recorder]\ndirectory = {:?}\n", directory.path());
        let text = text.replace("\n[recorder]\n", &recorder)
            + "\n[web]\nlisten = \"127.0.0.1:0\"\ncontrol = true\n";
        let config = directory.path().join("run.toml");
        fs::write(&config, text).unwrap();
        Self::run(directory.into())
    }

    /// Another run of the configuration of this one, in its directory.
    pub fn again(&self) -> Self {
        Self::run(Arc::clone(&self.directory))
    }

    fn run(directory: Arc<TempDir>) -> Self {
        let mut command = Command::new(gannet());
        command.arg("run").arg(directory.path().join("run.toml")).args(["--json", "--quiet"]);
        Self::of(command, directory)
    }

    fn of(mut command: Command, directory: Arc<TempDir>) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let printed = lines.find_map(|line| {
            let address = line.unwrap().split_once("http://")?.1.to_owned();
            let (host, token) = address.split_once("/?token=")?;
            Some((host.to_owned(), token.trim().to_owned()))
        });
        let (host, token) = printed.expect("an address");
        let said =
            thread::spawn(move || lines.map_while(Result::ok).collect::<Vec<_>>().join("\n"));
        Self { child, host, token, directory, said: Some(said) }
    }

    /// Where its files are.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The address that it printed.
    pub fn address(&self) -> String {
        format!("http://{}/?token={}", self.host, self.token)
    }

    /// Asks it to end, as Ctrl-C does.
    pub fn interrupt(&self) {
        let kill = Command::new("kill").args(["-INT", &self.child.id().to_string()]).status();
        assert!(kill.unwrap().success());
    }

    /// A connection on which `line` was asked, with `header`.
    pub fn ask(&self, line: &str, header: &str) -> TcpStream {
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

    /// The status of an answer, and what it says in JSON.
    pub fn json(&self, path: &str, header: &str) -> (u16, Value) {
        parse(&self.answer(&format!("GET /api/v1/{path}"), header))
    }

    /// Waits until a path of the interface says what is wanted.
    pub fn wait_for(&self, path: &str, header: &str, what: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let (status, said) = self.json(path, header);
            if status == 200 && what(&said) {
                return said;
            }
            assert!(begin.elapsed() < 2 * PATIENCE, "{path}: {status} {said}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Puts a fault in, and waits until it is over: what is told of all then.
    pub fn suffer(&self, fault: &str, seconds: f64, cookie: &str) -> Value {
        let put_in = self.put_in(fault, seconds, cookie);
        self.wait_for("faults", cookie, |listed| {
            let mut all = listed["injections"].as_array().unwrap().iter();
            let mine = all.find(|injection| injection["number"] == put_in["number"]);
            mine.unwrap()["under_way"] == false
        })
    }

    /// Puts a fault in.
    pub fn put_in(&self, fault: &str, seconds: f64, cookie: &str) -> Value {
        let body = json!({ "fault": fault, "seconds": seconds }).to_string();
        let key = format!("{fault} {:?}", Instant::now());
        let (status, put_in) = self.post("faults", cookie, &key, &body);
        assert_eq!(status, 201, "{put_in}");
        put_in
    }

    /// The status of the answer to a command with `header` and a key, and what it says in JSON.
    pub fn post(&self, path: &str, header: &str, key: &str, body: &str) -> (u16, Value) {
        self.post_to(&self.host, path, header, key, body)
    }

    /// The same, asked for another host.
    pub fn post_to(
        &self,
        host: &str,
        path: &str,
        header: &str,
        key: &str,
        body: &str,
    ) -> (u16, Value) {
        let mut client = TcpStream::connect(&self.host).unwrap();
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let request = format!(
            "POST /api/v1/{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{header}\
             Content-Type: application/json\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        client.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        parse(&answer)
    }

    /// The header that a browser sends which was let in.
    pub fn cookie(&self) -> String {
        let answer = self.answer(&format!("GET /?token={}", self.token), "");
        assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
        let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        format!("Cookie: {}\r\n", cookie.split(';').next().unwrap())
    }

    /// Its exit code and its report, once it has ended.
    pub fn end(mut self) -> (Option<i32>, Value) {
        self.finish()
    }

    /// The same, while its files stay.
    pub fn finish(&mut self) -> (Option<i32>, Value) {
        let (code, mut reports) = self.ends();
        (code, reports.pop().unwrap())
    }

    /// Its exit code and the reports of all its runs, once it has ended.
    pub fn ends(&mut self) -> (Option<i32>, Vec<Value>) {
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.child.wait().unwrap();
        let reports = serde_json::Deserializer::from_str(&text).into_iter();
        let reports: Vec<_> = reports.collect::<Result<_, _>>().unwrap();
        let said = self.said.take().map(|said| said.join().unwrap());
        assert!(!reports.is_empty(), "{status}: {}", said.unwrap_or_default());
        (status.code(), reports)
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ended = self.child.kill();
        let _ended = self.child.wait();
    }
}

/// The status of an answer, and what it says in JSON.
fn parse(answer: &str) -> (u16, Value) {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")))
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
fn the_samples_of_any_channel_are_seen_while_they_come() {
    let _alone = alone();
    let demo = Demo::start("60");
    let cookie = demo.cookie();
    let (status, streams) = demo.json("channels", &cookie);
    let streams = streams.as_array().unwrap();
    assert_eq!((status, streams.len()), (200, 4));
    let channels: Vec<_> =
        streams.iter().flat_map(|stream| stream["channels"].as_array().unwrap()).collect();
    assert_eq!(channels.len(), 4 * 64);
    assert!(channels.iter().all(|channel| channel["plane"].as_u64() < Some(3)));
    let begin = Instant::now();
    let seen = |channel: &Value, rest: &str| loop {
        let path = format!("waveform?channel={channel}&{rest}");
        match demo.json(&path, &cookie) {
            // The first frames of a stream have none before them.
            (200, waveform) if waveform["found"] == waveform["frames"] => return waveform,
            (200, _) => {}
            (404, problem) if problem["code"] == "no-frame" => {}
            other => panic!("{path}: {other:?}"),
        }
        assert!(begin.elapsed() < PATIENCE);
    };
    for channel in [channels[0], channels[200]] {
        let first = seen(&channel["channel"], "frames=4&columns=256");
        let numbers = |name: &str| -> Vec<u64> {
            first[name].as_array().unwrap().iter().filter_map(Value::as_u64).collect()
        };
        let (least, greatest) = (numbers("least"), numbers("greatest"));
        assert!(least.len() >= 192 && least.iter().max() > least.iter().min(), "{first}");
        assert!(least.iter().zip(&greatest).all(|(least, greatest)| least <= greatest));
        assert_eq!(first["plane"], channel["plane"]);
        // The samples lie about the pedestal that the search subtracts.
        let pedestal = first["pedestal"].as_u64().unwrap();
        let near = least.iter().filter(|sample| sample.abs_diff(pedestal) < 200).count();
        assert!(near > least.len() / 2, "{first}");
        let moves = || {
            let later = seen(&channel["channel"], "frames=4&columns=256");
            later["end"].as_u64() > first["end"].as_u64()
        };
        while !moves() {
            assert!(begin.elapsed() < PATIENCE);
        }
    }
    let (begin_tick, end) = {
        let latest = seen(&channels[0]["channel"], "frames=1");
        (latest["begin"].as_u64().unwrap(), latest["end"].as_u64().unwrap())
    };
    let number = channels[0]["channel"].as_u64().unwrap();
    let again = seen(&channels[0]["channel"], &format!("frames=1&end={end}"));
    assert_eq!(
        again["begin"].as_u64(),
        Some(begin_tick),
        "a window is seen again while it is held"
    );
    let stream = streams[1]["stream"].as_str().unwrap();
    let path = format!("waterfall?stream={stream}&frames=4&columns=64&rows=32");
    let (status, fall) = demo.json(&path, &cookie);
    let values = fall["values"].as_array().unwrap();
    assert_eq!((status, values.len(), &fall["columns"]), (200, 64 * 32, &json!(64)), "{fall}");
    assert_eq!(fall["rows"].as_array().unwrap().len(), 32);
    let swings: Vec<_> = values.iter().filter_map(Value::as_i64).collect();
    assert!(swings.len() > 48 * 32 && swings.iter().min() < Some(&0), "{fall}");
    // 64 channels and four frames of noise about their pedestals: nearly all of it is near.
    let near = swings.iter().filter(|swing| swing.abs() < 200).count();
    assert!(near > swings.len() / 2 && swings.iter().max() > Some(&0), "{fall}");
    let (status, spectrum) = demo.json(&format!("spectrum?channel={number}&frames=32"), &cookie);
    let density = spectrum["density"].as_array().unwrap();
    assert_eq!((status, density.len(), &spectrum["segment"]), (200, 513, &json!(1024)));
    assert_eq!(spectrum["samples_per_s"].as_f64(), Some(62.5e6 / 32.0));
    assert!(density.iter().skip(2).all(|it| it.as_f64() > Some(0.0)), "noise has all: {spectrum}");
    for (path, status, code, says) in [
        ("waterfall?stream=nowhere".to_owned(), 404, "unknown-stream", "the nearest is"),
        ("waterfall?columns=100000&rows=2".to_owned(), 413, "too-much", "1 to 1"),
        ("waterfall?frames=18446744073709551615".to_owned(), 413, "too-much", "1 to 256"),
        (format!("spectrum?channel={number}&frames=0"), 400, "too-little", "1 to 256"),
        (format!("spectrum?channel={number}&end=5"), 410, "overwritten", "has the ticks"),
        (format!("waveform?channel={number}&frames=99999999999"), 413, "too-much", "1 to 256"),
        ("waveform?channel=4000000".to_owned(), 404, "unknown-channel", "the nearest is"),
        (format!("waveform?channel={number}&frames=257"), 413, "too-much", "1 to 256"),
        (format!("waveform?channel={number}&end=5"), 410, "overwritten", "has the ticks"),
        (format!("waveform?channel={number}&end={}", end + (1 << 40)), 404, "not-yet", "ticks"),
        (format!("waveform?channel={number}&width=3"), 400, "unreadable-query", "width"),
        ("waveform".to_owned(), 400, "unreadable-query", "channel"),
    ] {
        let (found, problem) = demo.json(&path, &cookie);
        assert_eq!((found, &problem["code"]), (status, &Value::from(code)), "{path}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(says), "{path}: {problem}");
    }
    assert!(demo.answer("GET /api/v1/waveform?channel=1", "").starts_with("HTTP/1.1 401 "));
    // All channels are looked at once a second.
    loop {
        let (_, streams) = demo.json("channels", &cookie);
        let first = &streams[3]["channels"][63];
        if first["figures"]["pedestal"].as_u64() > Some(0) {
            assert_eq!(first["figures"]["channel"], first["channel"]);
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "{first}");
        thread::sleep(Duration::from_millis(100));
    }
    demo.interrupt();
    assert_eq!(demo.end().0, Some(130));
}

#[test]
fn faults_put_in_by_a_page_are_counted_as_the_front_end_knows_them() {
    let _alone = alone();
    let demo = Demo::start("1");
    let cookie = demo.cookie();
    // As long as somebody looks on, the demonstration goes on.
    let looks = demo.ask("GET /api/v1/events?rate=1", &cookie);
    demo.wait_for("snapshot", &cookie, |snapshot| snapshot["state"] == "running");
    for fault in ["loss", "duplicate", "reorder", "wrong-header", "noise", "burst-loss", "cut"] {
        demo.suffer(fault, 0.5, &cookie);
    }
    let entry = |listed: &Value, name: &str| -> Value {
        let mut faults = listed["faults"].as_array().unwrap().iter();
        faults.find(|fault| fault["name"] == name).unwrap().clone()
    };
    let truth = |listed: &Value, name: &str| entry(listed, name)["truth"].as_u64().unwrap();
    let withheld = |listed: &Value| {
        ["loss", "burst-loss", "cut"].map(|it| truth(listed, it)).iter().sum::<u64>()
    };
    let last = demo.wait_for("faults", &cookie, |listed| {
        // Particles cross the channel that was made noisy, too.
        entry(listed, "loss")["counted"] == json!(withheld(listed))
            && entry(listed, "noise")["counted"].as_u64() >= Some(truth(listed, "noise"))
    });
    let noisy = &last["injections"][4]["channel"];
    demo.wait_for("snapshot", &cookie, |snapshot| {
        let loudest = &snapshot["channels"]["loudest"][0];
        loudest["channel"] == *noisy && loudest["condition"] == "noisy"
    });
    drop(looks);
    let (code, report) = demo.end();
    // Frames were lost, and it says so.
    assert_eq!(code, Some(3), "{report}");
    let (readout, front_end) = (&report["readout"], &report["front_end"]["truth"]);
    let sum = |list: &Value, pointer: &str| -> u64 {
        let all = list.as_array().unwrap().iter();
        all.map(|one| one.pointer(pointer).unwrap().as_u64().unwrap()).sum()
    };
    let made = |fault: &str| sum(&front_end["streams"], &format!("/faults/{fault}"));
    let stage = |name: &str, reason: &str| -> u64 {
        let mut stages = readout["ledger"].as_array().unwrap().iter();
        let dropped = &stages.find(|stage| stage["stage"] == name).unwrap()["dropped"];
        let mut reasons = dropped.as_array().unwrap().iter();
        reasons.find(|drop| drop["reason"] == reason).unwrap()["count"].as_u64().unwrap()
    };
    let withheld: u64 = withheld(&last);
    assert!(withheld > 0 && made("lost") + made("stopped") == withheld, "{report}");
    assert_eq!(stage("sent", "before_socket"), withheld, "{report}");
    for (fault, made, counted) in [
        ("duplicate", made("duplicated"), stage("frames", "duplicate")),
        ("wrong-header", made("wrong_id"), stage("frames", "unknown_stream")),
        ("reorder", made("reordered"), sum(&readout["streams"], "/late")),
        ("noise", made("noisy"), truth(&last, "noise")),
    ] {
        assert_eq!((truth(&last, fault), made), (counted, counted), "{fault}: {report}");
        assert!(counted > 0, "{fault}: {report}");
    }
    assert_eq!(readout["degraded"], true);
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
