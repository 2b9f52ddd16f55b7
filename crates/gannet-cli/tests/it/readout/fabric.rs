//! Frames that another process puts into the ring of a readout.

use std::fs;
use std::io::Write;
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use gannet_control::emulation::EmulationReport;
use gannet_measure::testing::free_address;

use crate::readout::equality::{expected, recorded};
use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, gannet};

const BACKENDS: [&str; 2] = ["shm", "udp"];

/// Streams that come over `backend`; `fabric` has more keys of the source.
pub fn bench(backend: &str, streams: u64, rate_scale: f64, fabric: &str) -> Bench {
    let place = match backend {
        "shm" => r#""ring""#.to_owned(),
        _ => format!("\"{}\", secret_file = \"secret\"", free_address()),
    };
    let bench = Bench::new(&format!(
        r#"
[[source]]
streams = {{ count = {streams} }}
fabric = {{ backend = "{backend}", listen = {place}, {fabric} }}
depth = "200 ms"

[metrics]
listen = "127.0.0.1:0"

[pipeline.tpg]
threshold = [60, 60, 60]

[emulate]
seed = 5
streams = {{ count = {streams} }}
pace = {{ rate_scale = {rate_scale} }}
tracks = {{ rate_hz = 50.0 }}
"#
    ));
    bench.write_secret("a gannet dives for cod\n");
    bench
}

/// `gannet emulate` of a configuration.
fn emulate(bench: &Bench, frames: Option<u64>) -> Child {
    emulate_by(Command::new(gannet()), bench, frames)
}

/// The same by a command of its own.
pub fn emulate_by(mut command: Command, bench: &Bench, frames: Option<u64>) -> Child {
    command.arg("emulate").arg(bench.config()).arg("--json");
    frames.into_iter().for_each(|frames| _ = command.args(["--frames", &frames.to_string()]));
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// What an emulator did that has ended with `code`.
pub fn sent(output: &Output, code: i32) -> EmulationReport {
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What an emulator says that cannot send.
fn refusal(bench: &Bench) -> String {
    let output = emulate(bench, Some(1)).wait_with_output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// Ends a readout when what was sent is in.
pub fn stop(readout: Readout) -> Ended {
    thread::sleep(QUIET);
    let ended = readout.stop();
    assert_eq!(ended.open_books(), [""; 0]);
    ended
}

#[test]
fn frames_of_another_process_give_the_same_primitives() {
    let _alone = alone();
    for backend in BACKENDS {
        let bench = bench(backend, 4, 0.25, "wait = \"1 s\"");
        let readout = Readout::start(&bench.config());
        thread::sleep(QUIET);
        let report = sent(&emulate(&bench, Some(15_000)).wait_with_output().unwrap(), 0);
        let ended = stop(readout);
        let frames = report.truth.total().frames_made;
        assert_eq!((frames, report.datagrams_unsent()), (60_000, 0));
        assert_eq!(ended.ledger("source", "offered"), frames, "{}", ended.report);
        assert_eq!(ended.ledger("frames", "delivered"), frames, "{}", ended.report);
        assert!(!ended.is_degraded(), "{backend}: {}", ended.report);
        let expected = expected(&bench, &ended);
        assert!(expected.len() > 100, "{}", expected.len());
        assert!(recorded(&bench) == expected, "{backend}: of {} some differ", expected.len());
    }
}

/// Sends while the readout is halted for a while, and compares the accounts of both.
fn halted(backend: &str, policy: &str) -> Ended {
    let bench = bench(backend, 2, 0.1, &format!("policy = \"{policy}\", queue = \"1 MiB\""));
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let sender = emulate(&bench, Some(6000));
    let signal = |name: &str| {
        let id = readout.id().to_string();
        assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
    };
    while readout.snapshot()["streams"][1]["frames"].as_u64() < Some(100) {
        thread::sleep(Duration::from_millis(5));
    }
    signal("-STOP");
    thread::sleep(2 * QUIET);
    signal("-CONT");
    let report = sent(&sender.wait_with_output().unwrap(), 3);
    let ended = stop(readout);
    let (made, unsent) = (report.truth.total().frames_made, report.datagrams_unsent());
    let dropped = |reason| ended.ledger("source", reason);
    assert_eq!(made, 12_000);
    assert_eq!(dropped("offered"), made, "{backend}: {}", ended.report);
    assert_eq!(dropped("no_leave"), unsent, "{backend}: {}", ended.report);
    assert_eq!(dropped("delivered") + dropped("given_up") + unsent, made);
    assert_eq!(ended.ledger("frames", "delivered"), dropped("delivered"));
    let streams = ended.report["streams"].as_array().unwrap();
    let missing: u64 = streams.iter().map(|stream| stream["missing"].as_u64().unwrap()).sum();
    assert_eq!(missing, ended.number("/frames_lost"), "{backend}: {}", ended.report);
    // The last frames of all streams may be among them, which only the source knows of.
    let lost = made - dropped("delivered");
    assert_eq!(ended.number("/frames_lost_max"), lost, "{backend}: {}", ended.report);
    assert!(unsent > 0 && ended.is_degraded());
    ended
}

#[test]
fn a_sender_that_has_lost_frames_says_so_also_when_it_is_stopped() {
    let _alone = alone();
    let bench = bench("shm", 2, 0.1, "policy = \"credit-stop\", queue = \"1 MiB\"");
    let readout = Readout::start(&bench.config());
    let sender = emulate(&bench, None);
    let signal = |name: &str, id: u32| {
        assert!(Command::new("kill").args([name, &id.to_string()]).status().unwrap().success());
    };
    while readout.snapshot()["streams"][1]["frames"].as_u64() < Some(100) {
        thread::sleep(Duration::from_millis(5));
    }
    signal("-STOP", readout.id());
    thread::sleep(2 * QUIET);
    signal("-CONT", readout.id());
    signal("-INT", sender.id());
    let report = sent(&sender.wait_with_output().unwrap(), 3);
    assert!(report.datagrams_unsent() > 0);
    assert_eq!(stop(readout).ledger("source", "no_leave"), report.datagrams_unsent());
}

#[test]
fn what_a_sender_drops_is_counted_to_the_frame() {
    let _alone = alone();
    for backend in BACKENDS {
        assert_eq!(halted(backend, "credit-stop").ledger("source", "given_up"), 0);
    }
}

#[test]
fn what_is_given_up_for_newer_frames_is_counted_to_the_frame() {
    let _alone = alone();
    let ended = halted("shm", "overwrite-oldest");
    assert!(ended.ledger("source", "given_up") > 0, "{}", ended.report);
    halted("udp", "overwrite-oldest");
}

#[test]
fn a_sender_that_is_killed_leaves_the_account_right_and_may_come_back() {
    let _alone = alone();
    for backend in BACKENDS {
        let bench = bench(backend, 2, 0.1, "wait = \"1 s\"");
        let readout = Readout::start(&bench.config());
        for _ in 0..3 {
            let mut killed = emulate(&bench, None);
            thread::sleep(2 * QUIET);
            assert!(killed.try_wait().unwrap().is_none(), "it was let in");
            killed.kill().unwrap();
            killed.wait().unwrap();
        }
        let report = sent(&emulate(&bench, Some(1000)).wait_with_output().unwrap(), 0);
        let ended = stop(readout);
        let (offered, delivered) =
            (ended.ledger("source", "offered"), ended.ledger("source", "delivered"));
        assert_eq!(report.datagrams_taken(), 2000);
        assert!(delivered > 2000, "those of the killed ones came too: {}", ended.report);
        // Nobody was slow.
        assert_eq!(offered, delivered, "{backend}: {}", ended.report);
    }
}

#[test]
fn others_are_told_why_they_cannot_send() {
    for backend in BACKENDS {
        let secret = if backend == "shm" { "secret_file = \"secret\"" } else { "" };
        let bench = bench(backend, 1, 0.01, secret);
        let error = refusal(&bench);
        assert!(error.contains("start the readout first"), "{error}");
        let readout = Readout::start(&bench.config());
        if backend == "udp" {
            let listen = fs::read_to_string(bench.config()).unwrap();
            let listen = listen.split_once("listen = \"").unwrap().1.split('"').next().unwrap();
            TcpStream::connect(listen).unwrap().write_all(&[0xa5; 640]).unwrap();
        }
        let sender = emulate(&bench, None);
        thread::sleep(2 * QUIET);
        let error = refusal(&bench);
        assert!(error.contains("takes frames of another sender"), "{error}");
        let second = Command::new(gannet()).arg("run").arg(bench.config()).output().unwrap();
        let error = String::from_utf8(second.stderr).unwrap();
        assert!(error.contains("another program has it"), "{error}");
        bench.write_secret("a gannet dove for cod");
        let error = refusal(&bench);
        assert!(error.contains("does not know the secret"), "{error}");
        let kill = Command::new("kill").args(["-INT", &sender.id().to_string()]).status();
        assert!(kill.unwrap().success());
        let output = sender.wait_with_output().unwrap();
        let sent: EmulationReport = serde_json::from_slice(&output.stdout).unwrap();
        let ended = stop(readout);
        assert_eq!(ended.ledger("source", "delivered"), sent.datagrams_taken());
        assert_eq!(sent.datagrams_unsent(), 0);
    }
}

#[test]
fn a_socket_that_a_killed_readout_left_is_used_again() {
    let bench = bench("shm", 1, 0.01, "");
    Readout::start(&bench.config()).kill();
    assert!(bench.directory.path().join("ring").exists());
    let readout = Readout::start(&bench.config());
    let mut waiting = Command::new(gannet());
    waiting.arg("emulate").arg(bench.config()).args(["--wait", "--frames", "100"]);
    assert!(waiting.stdout(Stdio::null()).status().unwrap().success());
    let ended = stop(readout);
    assert_eq!(ended.ledger("source", "delivered"), 100, "{}", ended.report);
    assert!(!bench.directory.path().join("ring").exists());
}

#[test]
fn a_place_that_is_none_is_refused_before_anything_begins() {
    let check = |fabric: &str| {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("bench.toml");
        let text = format!("[[source]]\nstreams = {{ count = 1 }}\nfabric = {fabric}\n");
        fs::write(&file, text).unwrap();
        let output = Command::new(gannet()).arg("check").arg(&file).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let long = format!("{{ backend = \"shm\", listen = \"{}\" }}", "x".repeat(108));
    for (fabric, says) in [
        (long.as_str(), "no path of a socket"),
        ("{ backend = \"udp\", listen = \"readout\" }", "no address"),
        ("{ backend = \"udp\", listen = \"10.0.0.1:7000\" }", "need a secret_file"),
        ("{ backend = \"ib\", listen = \"10.0.0.1:7000\" }", "shm"),
        ("{ backend = \"shm\", listen = \"a\", wait = \"11 s\" }", "longer than 10 s"),
    ] {
        let error = check(fabric);
        assert!(error.contains(says), "{fabric}: {error}");
    }
    let two = "{ backend = \"shm\", listen = \"a\" }\n[[source]]\n\
               streams = { count = 1, crate = 1 }\nfabric = { backend = \"shm\", listen = \"a\" }";
    assert!(check(two).contains("is taken already by source[0]"));
}
