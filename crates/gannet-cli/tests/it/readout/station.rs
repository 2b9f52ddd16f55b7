//! Runs made on command: by `gannet ctl`, by pages, and by several at once in any order.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::random::Random;
use rcgen::generate_simple_self_signed;
use serde_json::{Value, json};

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet};

/// How long anything may take on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(60);

/// `gannet run --station` of frames that are emulated in its process.
struct Station {
    child: Child,
    /// As it was printed, with the token.
    address: String,
    directory: tempfile::TempDir,
}

impl Station {
    fn start() -> Self {
        Self::serving(tempfile::tempdir().unwrap(), "http", "")
    }

    /// One that serves by TLS, with a certificate of its own for `localhost`, and the file of that.
    fn secured() -> (Self, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let certificate = certificate(directory.path(), "web");
        let tls = "tls = { certificate = \"web.crt\", key = \"web.key\" }\n";
        (Self::serving(directory, "https", tls), certificate)
    }

    /// One whose address begins with `scheme`, and whose `[web]` has these keys as well.
    fn serving(directory: tempfile::TempDir, scheme: &str, keys: &str) -> Self {
        let text = format!(
            "[[source]]\nstreams = {{ count = 2 }}\nemulated = true\ndepth = \"100 ms\"\n\
             [recorder]\ndirectory = {:?}\n\
             [web]\nlisten = \"127.0.0.1:0\"\ncontrol = true\n{keys}\
             [emulate]\npace = {{ rate_scale = 0.05 }}\nstreams = {{ count = 2 }}\n",
            directory.path()
        );
        let config = directory.path().join("run.toml");
        fs::write(&config, text).unwrap();
        let mut command = Command::new(gannet());
        command.arg("run").arg(config).args(["--station", "--json", "--quiet"]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let address = lines.find_map(|line| {
            let line = line.unwrap();
            Some(line[line.find(&format!("{scheme}://"))?..].trim().to_owned())
        });
        thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("an address"), directory }
    }

    fn ctl(&self, arguments: &[&str]) -> Output {
        Command::new(gannet()).args(["ctl", &self.address]).args(arguments).output().unwrap()
    }

    /// What `gannet ctl` prints where all is well.
    fn told(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.ctl(arguments);
        let (out, error) = (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap());
        assert!(status.success(), "{arguments:?}: {status}: {out}{error}");
        out
    }

    /// Ends it by a signal; its exit code, and the reports of all runs.
    fn end(mut self, signal: &str) -> (Option<i32>, Vec<Value>, tempfile::TempDir) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let mut text = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let code = self.child.wait().unwrap().code();
        let reports = serde_json::Deserializer::from_str(&text).into_iter();
        (code, reports.collect::<Result<_, _>>().unwrap(), self.directory)
    }
}

/// Makes a certificate for `localhost` with its key, `NAME.crt` and `NAME.key`; the file of the first.
fn certificate(directory: &Path, name: &str) -> PathBuf {
    let made = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (file, key) =
        (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    fs::write(&file, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    file
}

/// Status and body of an answer of `host`.
fn ask(host: &str, token: &str, line: &str, headers: &str, body: &str) -> (u16, Value) {
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!(
        "{line} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, serde_json::from_str(body).unwrap_or(Value::Null))
}

/// The host and the token of an address as it was printed.
fn parts(address: &str) -> (String, String) {
    let (host, token) = address.strip_prefix("http://").unwrap().split_once("/?token=").unwrap();
    (host.to_owned(), token.to_owned())
}

#[test]
fn a_station_makes_run_after_run_by_gannet_ctl() {
    let _alone = alone();
    let station = Station::start();
    assert_eq!(station.told(&["status"]), "idle\n");
    assert_eq!(station.told(&["runs"]), "there was no run yet\n");
    let refused = station.ctl(&["stop"]);
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(1), "{error}");
    assert!(error.contains("the station is idle: there is no run"), "{error}");
    for run in 1..=2 {
        assert_eq!(station.told(&["start"]), format!("running: run {run}\n"));
        assert_eq!(station.told(&["pause"]), format!("paused: run {run}\n"));
        let status: Value = serde_json::from_str(&station.told(&["status", "--json"])).unwrap();
        assert_eq!((&status["state"], &status["run"]), (&json!("paused"), &json!(run)));
        assert_eq!(station.told(&["resume"]), format!("running: run {run}\n"));
        // So that there is a frame in it.
        let begin = Instant::now();
        while !status_of(&station)["snapshot"]["streams"].as_array().is_some_and(|streams| {
            streams.len() == 2 && streams.iter().all(|stream| stream["frames"].as_u64() > Some(0))
        }) {
            assert!(begin.elapsed() < PATIENCE);
        }
        let stopped = station.told(&["stop"]);
        assert!(stopped.starts_with(&format!("run {run} stopped, ")), "{stopped}");
        assert!(
            stopped.contains(" 0 lost, ") && stopped.contains(" files verified\n"),
            "{stopped}"
        );
        assert!(stopped.lines().any(|line| Path::new(line).is_file()), "{stopped}");
    }
    let runs: Value = serde_json::from_str(&station.told(&["runs", "--json"])).unwrap();
    let numbers: Vec<_> = runs.as_array().unwrap().iter().map(|run| &run["number"]).collect();
    assert_eq!(numbers, [1, 2]);
    let (host, _) = parts(&station.address);
    let nobody = Command::new(gannet()).args(["ctl", &format!("http://{host}"), "stop"]).output();
    let nobody = nobody.unwrap();
    let error = String::from_utf8(nobody.stderr).unwrap();
    assert!(nobody.status.code() == Some(1) && error.contains("GANNET_TOKEN"), "{error}");
    let (code, reports, _) = station.end("-TERM");
    assert_eq!((code, reports.len()), (Some(143), 2));
    assert!(reports.iter().all(|report| report["degraded"] == false), "{reports:?}");
    let gone = Command::new(gannet()).args(["ctl", &format!("http://{host}"), "status"]).output();
    assert_eq!(gone.unwrap().status.code(), Some(5));
}

#[test]
fn a_station_with_tls_is_commanded_by_who_knows_its_certificate() {
    let _alone = alone();
    let (mut station, certificate_file) = Station::secured();
    let named_127 = station.address.clone();
    // The certificate is for this name.
    station.address = named_127.replace("127.0.0.1", "localhost");
    let ca = ["--ca", certificate_file.to_str().unwrap()];
    assert_eq!(station.told(&[&["status"], &ca[..]].concat()), "idle\n");
    assert_eq!(station.told(&[&["start"], &ca[..]].concat()), "running: run 1\n");
    let stopped = station.told(&[&["stop"], &ca[..]].concat());
    assert!(stopped.starts_with("run 1 stopped, "), "{stopped}");
    let other = certificate(station.directory.path(), "other");
    let plain = station.address.replace("https", "http");
    for (address, ca, code, says) in [
        (&station.address, None, 2, "--ca"),
        (&station.address, Some(&other), 1, "does not rest on those in the file of --ca"),
        (&named_127, Some(&certificate_file), 1, "only valid for"),
        (&plain, None, 1, "if the station has `tls`, ask at https://localhost:"),
        (&plain, Some(&certificate_file), 2, "addresses that begin with https://"),
    ] {
        let mut command = Command::new(gannet());
        command.args(["ctl", address, "status"]);
        ca.iter().for_each(|ca| _ = command.arg("--ca").arg(ca));
        let refused = command.output().unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(code), "{error}");
        assert!(error.contains(says), "{error}");
    }
    assert_eq!(station.end("-TERM").0, Some(143));
}

#[test]
fn an_address_without_tls_is_not_asked_by_it() {
    let _alone = alone();
    let station = Station::start();
    let ca = certificate(station.directory.path(), "web");
    let mut command = Command::new(gannet());
    command.args(["ctl", &station.address.replace("http", "https"), "status", "--ca"]).arg(ca);
    let refused = command.output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(refused.status.code() == Some(1) && error.contains("without TLS"), "{error}");
    station.end("-TERM");
}

#[test]
fn what_runs_came_to_is_told_though_nobody_reads_it_until_the_end() {
    let _alone = alone();
    let station = Station::start();
    // More than a pipe takes.
    let runs = 8;
    for _ in 0..runs {
        station.told(&["start"]);
        // It may end before its first frame has come.
        let _perhaps_degraded = station.ctl(&["stop"]);
    }
    let (_, reports, _) = station.end("-INT");
    assert_eq!(reports.len(), runs);
}

fn status_of(station: &Station) -> Value {
    serde_json::from_str(&station.told(&["status", "--json"])).unwrap()
}

/// Three clients send commands in any order; each answer is a state that there was, and all comes to rest.
#[test]
fn any_order_of_commands_from_three_clients_leaves_no_stuck_state() {
    let _alone = alone();
    let station = Station::start();
    let is_long = std::env::var_os("GANNET_LONG").is_some();
    let each = if is_long { 334 } else { 25 };
    let address = Arc::new(parts(&station.address));
    let client = |seed: u64| {
        let address = Arc::clone(&address);
        thread::spawn(move || {
            let (host, token) = &*address;
            let mut random = Random::new(seed);
            let mut done = 0;
            for number in 0..each {
                let (status, told) = ask(host, token, "GET /api/v1/state", "", "");
                assert_eq!(status, 200, "{told}");
                // Some do not look first.
                let states = ["idle", "running", "paused", "stopping"];
                let guess = json!(states[random.below(4) as usize]);
                let believed = if random.below(3) == 0 { &guess } else { &told["state"] };
                let command = ["start", "stop", "pause", "resume"][random.below(4) as usize];
                let key = format!("Idempotency-Key: {seed}-{number}\r\n");
                let body = json!({ "believed": believed }).to_string();
                let line = format!("POST /api/v1/run/{command}");
                let (status, answer) = ask(host, token, &line, &key, &body);
                let (again, repeated) = ask(host, token, &line, &key, &body);
                assert_eq!((status, &answer), (again, &repeated), "it is done once");
                let follows = match command {
                    "start" => "starting",
                    "stop" => "stopping",
                    "pause" => "paused",
                    _ => "running",
                };
                match status {
                    202 => {
                        assert_eq!(answer["state"], follows);
                        done += 1;
                    }
                    409 => {
                        let now = answer["now"]["state"].as_str().unwrap();
                        let is_outdated = answer["code"] == "other-state";
                        assert_eq!(now != believed, is_outdated, "{answer}");
                    }
                    _ => panic!("{status}: {answer}"),
                }
                thread::sleep(Duration::from_millis(random.below(50)));
            }
            done
        })
    };
    let clients: Vec<_> = (1..=3).map(client).collect();
    let done: u32 = clients.into_iter().map(|client| client.join().unwrap()).sum();
    assert!(done > 3, "{done} commands were carried out");
    // From wherever it is, it comes to rest.
    let _already = station.ctl(&["stop"]);
    let begin = Instant::now();
    while !["idle\n", "idle: "].iter().any(|rest| station.told(&["status"]).starts_with(rest)) {
        assert!(begin.elapsed() < PATIENCE);
    }
    let runs: Value = serde_json::from_str(&station.told(&["runs", "--json"])).unwrap();
    let runs = runs.as_array().unwrap();
    let numbers: BTreeSet<_> = runs.iter().map(|run| run["number"].as_u64().unwrap()).collect();
    assert!(!runs.is_empty() && numbers.len() == runs.len(), "{runs:?}");
    let (code, reports, directory) = station.end("-INT");
    assert_eq!(reports.len(), runs.len());
    // A run that was stopped before its first frame says that none came.
    let lost = reports.iter().any(|report| report["degraded"] == true);
    assert_eq!(code, Some(if lost { 3 } else { 130 }));
    let lacks_frames = |report: &Value| {
        report["streams"].as_array().unwrap().iter().all(|stream| stream["frames"] == 0)
    };
    assert!(
        reports.iter().all(|report| report["degraded"] == false || lacks_frames(report)),
        "{reports:?}"
    );
    let files = fs::read_dir(directory.path()).unwrap().map(|file| file.unwrap().path());
    let logs: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "glog")).collect();
    assert!(logs.len() >= runs.len());
    let verified = Command::new(gannet()).arg("verify").args(&logs).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn a_demonstration_that_was_stopped_is_looked_at_and_starts_again() {
    let _alone = alone();
    let mut demo = Demo::start("1");
    let (host, token) = parts(&demo.address());
    let request = format!(
        "GET /api/v1/events?topics=station HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    let mut looks = TcpStream::connect(&host).unwrap();
    looks.set_read_timeout(Some(PATIENCE)).unwrap();
    looks.write_all(request.as_bytes()).unwrap();
    let mut told = BufReader::new(looks).lines().filter_map(|line| {
        serde_json::from_str::<Value>(line.unwrap().strip_prefix("data: ")?).ok()
    });
    let mut wait_for = |state: &str| told.find(|told| told["state"] == state).unwrap();
    let command = |key: &str, command: &str, believed: &str| {
        let headers = format!("Idempotency-Key: {key}\r\n");
        let body = json!({ "believed": believed }).to_string();
        ask(&host, &token, &format!("POST /api/v1/run/{command}"), &headers, &body)
    };
    wait_for("running");
    // Without a record nothing is exported.
    let begin = Instant::now();
    while ask(&host, &token, "GET /api/v1/snapshot", "", "").1["recorder"]["records"] == 0 {
        assert!(begin.elapsed() < PATIENCE);
        thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(command("a", "stop", "running").0, 202);
    let rest = wait_for("idle");
    assert_eq!((&rest["ended"], &rest["possible"]), (&json!(1), &json!(["start"])));
    let (_, runs) = ask(&host, &token, "GET /api/v1/runs", "", "");
    let verified = runs[0]["verified"].as_array().unwrap();
    assert!(verified.len() >= 2, "the log and its export were read back: {runs}");
    assert!(verified.iter().all(|file| file["problem"].is_null()), "{runs}");
    assert_eq!(command("b", "start", "idle").0, 202);
    let again = wait_for("running");
    assert_eq!(again["run"], 2);
    drop(told);
    let (code, reports) = demo.ends();
    assert_eq!((code, reports.len()), (Some(0), 2), "{reports:?}");
    let numbers: Vec<_> = reports.iter().map(|report| &report["readout"]["run"]).collect();
    assert_eq!(numbers, [1, 2]);
}

#[test]
fn a_station_that_nobody_could_command_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("a.toml");
    fs::write(&config, "[[source]]\nudp = { listen = [\"127.0.0.1:0\"] }\n").unwrap();
    let refused = Command::new(gannet()).args(["run", "--station"]).arg(&config).output().unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert_eq!(refused.status.code(), Some(2), "{error}");
    assert!(error.contains("control = true"), "{error}");
}
