//! The first and the last frame of a run: each frame that reaches the port is counted, whatever ends
//! the run.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_emulate::FrontEnd;
use gannet_measure::testing::free_address;
use gannet_wire::tpc_frame::FRAME_LEN;
use serde_json::Value;

use crate::readout::process::{Bench, alone, gannet, has_program, rounds};
use crate::sys;

/// Where the readout of every test here listens.
static ADDRESS: LazyLock<SocketAddr> = LazyLock::new(free_address);

/// Two streams that are recorded as they come, so that the log grows.
fn bench() -> Bench {
    bench_with("")
}

/// The same with more lines in the recorder's table.
fn bench_with(recorder: &str) -> Bench {
    let text = format!(
        r#"
        [[source]]
        streams = {{ count = 2 }}
        udp = {{ listen = ["{}"] }}
        depth = "300 ms"

        [emulate]
        streams = {{ count = 2 }}
        "#,
        *ADDRESS
    );
    let lines = format!("raw_streams = \"all\"\ndisk_reserve = \"1 MiB\"\n{recorder}");
    Bench::with_recorder(&text, &lines)
}

/// A front end that never stops, and knows of each frame whether it reached a port.
struct Sender {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Sender {
    fn start(bench: &Bench) -> Self {
        let config = bench.tpc().config.emulate.clone();
        let mut emulator = config.emulator(&bench.tpc().channel_map, 0).unwrap();
        let stop = Arc::<AtomicBool>::default();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            sys::keep_refusals(&socket);
            socket.connect(*ADDRESS).unwrap();
            let (mut frame, mut sent, mut refused) = ([0; FRAME_LEN], 0, 0);
            for index in 0.. {
                for stream in 0..2 {
                    frame.copy_from_slice(&emulator.front_end().frame(stream, index));
                    // A refusal of an earlier frame is told by the next call, which sends nothing.
                    while socket.send(&frame).is_err() {}
                    sent += 1;
                    refused += sys::take_refusals(&socket);
                }
                if stopped.load(Ordering::Acquire) {
                    break;
                }
                thread::sleep(Duration::from_micros(200));
            }
            thread::sleep(Duration::from_millis(20));
            sent - refused - sys::take_refusals(&socket)
        });
        Self { stop, thread }
    }

    /// Stops it and returns how many frames reached a port.
    fn reached(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}

/// What ends a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Signal(&'static str, i32),
    /// The terminal that the run was started from goes away.
    LostTerminal,
    /// Files may not grow beyond this number of blocks of 512 bytes; the run goes on until Ctrl-C.
    FileLimit(u64),
}

const STOPS: [Stop; 5] = [
    Stop::Signal("INT", 130),
    Stop::Signal("TERM", 143),
    Stop::Signal("HUP", 129),
    Stop::LostTerminal,
    Stop::FileLimit(16 << 10),
];

impl Stop {
    fn code(self) -> i32 {
        match self {
            Self::Signal(_, code) => code,
            Self::LostTerminal => 129,
            Self::FileLimit(_) => 130,
        }
    }
}

/// Whether this process, and so every program that it starts, ignores SIGHUP.
fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

/// Whether a run can be stopped in this way here; where it cannot, this says so.
fn can_happen(stop: Stop) -> bool {
    let why = match stop {
        Stop::LostTerminal if !has_program("setsid") => "there is no `setsid`",
        _ if stop.code() == 129 && hangup_is_ignored() => "SIGHUP is ignored, as `nohup` has it",
        _ => return true,
    };
    gannet_measure::testing::skipped(format!("{stop:?}"), why);
    false
}

/// A run that is about to be stopped in some way.
struct Running {
    child: Child,
    /// The terminal that it was started from.
    terminal: Option<std::fs::File>,
    messages: Arc<Mutex<String>>,
    report: JoinHandle<String>,
}

impl Running {
    fn start(bench: &Bench, stop: Stop) -> Self {
        let mut terminal = None;
        let mut command = match stop {
            Stop::Signal(..) => Command::new(gannet()),
            Stop::LostTerminal => {
                let (master, slave) = sys::terminal();
                let mut command = Command::new("setsid");
                command.arg("--ctty").arg(gannet());
                command.stdin(slave.try_clone().unwrap()).stderr(slave);
                terminal = Some(master);
                command
            }
            Stop::FileLimit(blocks) => {
                let mut command = Command::new("sh");
                command.args(["-c", &format!("ulimit -f {blocks} && exec \"$@\""), "sh"]);
                command.arg(gannet());
                command
            }
        };
        command.args(["run", "--json"]).arg(bench.config()).stdout(Stdio::piped());
        if terminal.is_none() {
            command.stderr(Stdio::piped());
        }
        let mut child = command.spawn().unwrap();
        // The command holds the program's end of the terminal.
        drop(command);
        let errors: Box<dyn Read + Send> = match &terminal {
            Some(terminal) => Box::new(terminal.try_clone().unwrap()),
            None => Box::new(child.stderr.take().unwrap()),
        };
        let messages = Arc::<Mutex<String>>::default();
        // A terminal is not read further than to the start: what reads it would hold it open.
        let ends_early = terminal.is_some();
        let heard = read(errors, Arc::clone(&messages), ends_early);
        if ends_early {
            heard.join().unwrap();
        }
        let begin = Instant::now();
        while !is_running(&messages) {
            let text = messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
            assert!(begin.elapsed() < Duration::from_secs(60), "{text}");
            assert_eq!(child.try_wait().unwrap(), None, "{text}");
            thread::sleep(Duration::from_millis(1));
        }
        let mut output = child.stdout.take().unwrap();
        let report = thread::spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).unwrap();
            text
        });
        Self { child, terminal, messages, report }
    }

    /// Waits until it has said `text`.
    fn hear(&self, text: &str) {
        let begin = Instant::now();
        while !self.messages.lock().unwrap_or_else(PoisonError::into_inner).contains(text) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{text}: {:?}", self.messages);
            thread::sleep(Duration::from_millis(5));
        }
    }

    fn signal(&self, name: &str) {
        let killed = Command::new("kill").args(["-s", name, &self.child.id().to_string()]).status();
        assert!(killed.unwrap().success());
    }

    fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::Signal(name, _) => self.signal(name),
            Stop::LostTerminal => self.terminal = None,
            Stop::FileLimit(_) => self.signal("INT"),
        }
    }

    fn wait(mut self) -> (ExitStatus, Value, String) {
        let status = self.child.wait().unwrap();
        let report = self.report.join().unwrap();
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let report =
            serde_json::from_str(&report).unwrap_or_else(|_| panic!("{status} {messages}"));
        (status, report, messages)
    }
}

fn is_running(messages: &Mutex<String>) -> bool {
    messages.lock().unwrap_or_else(PoisonError::into_inner).contains("is running")
}

/// Collects what comes, to its end or to the start of the run.
fn read(
    mut from: Box<dyn Read + Send>,
    messages: Arc<Mutex<String>>,
    to_start: bool,
) -> JoinHandle<()> {
    thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let text = String::from_utf8_lossy(&bytes[..count]);
            messages.lock().unwrap_or_else(PoisonError::into_inner).push_str(&text);
            if to_start && is_running(&messages) {
                return;
            }
        }
    })
}

/// A number of the stage of datagrams, or of one of its reasons.
fn source(report: &Value, figure: &str) -> u64 {
    ledger(report, "source", figure)
}

/// A number of a stage of the ledger, or of one of its reasons.
fn ledger(report: &Value, stage: &str, figure: &str) -> u64 {
    let mut stages = report["ledger"].as_array().unwrap().iter();
    let stage = stages.find(|statement| statement["stage"] == stage).unwrap();
    let reasons = stage["dropped"].as_array().unwrap();
    let reason = reasons.iter().find(|drop| drop["reason"] == figure);
    reason.map_or(&stage[figure], |reason| &reason["count"]).as_u64().unwrap()
}

fn verify(files: &[PathBuf]) {
    let verified = Command::new(gannet()).arg("verify").args(files).output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

#[test]
fn every_frame_between_port_and_stop_is_counted_whatever_ends_the_run() {
    let _alone = alone();
    let bench = bench();
    let (mut reached_all, mut before_start) = (0, 0);
    let stops: Vec<_> = STOPS.into_iter().filter(|stop| can_happen(*stop)).collect();
    for round in rounds(1, 200) {
        for &stop in &stops {
            let sender = Sender::start(&bench);
            let mut running = Running::start(&bench, stop);
            thread::sleep(Duration::from_millis(300));
            running.stop(stop);
            let (status, report, messages) = running.wait();
            let reached = sender.reached();
            assert!(source(&report, "delivered") > 0, "{report}");
            let came = source(&report, "offered") + ledger(&report, "sent", "kernel_queue");
            assert_eq!(came, reached, "round {round}, {stop:?}: {report}");
            assert_eq!(status.code(), Some(stop.code()), "round {round}, {stop:?}: {messages}");
            assert_eq!(report["state"], "stopped");
            let files = bench.files();
            let finished = |file: &PathBuf| file.extension().is_some_and(|end| end == "glog");
            assert!(!files.is_empty() && files.iter().all(finished), "{stop:?}: {files:?}");
            verify(&files);
            files.iter().for_each(|file| fs::remove_file(file).unwrap());
            reached_all += reached;
            before_start += source(&report, "before_start");
        }
    }
    // Seen with `--nocapture`.
    println!("{reached_all} frames reached the port, {before_start} of them before the start");
}

#[test]
fn the_third_signal_cuts_short_a_drain_that_waits_for_the_disk() {
    let _alone = alone();
    let bench = bench_with("drain_within = \"10 min\"");
    let sender = Sender::start(&bench);
    let running = Running::start(&bench, STOPS[0]);
    fs::remove_dir_all(bench.out()).unwrap();
    running.hear("recording interrupted");
    let answers = ["draining", "still draining, waiting for", "cutting the drain short"];
    for (signal, answer) in ["TERM", "INT", "TERM"].into_iter().zip(answers) {
        // Signals that come closer together are one.
        thread::sleep(Duration::from_millis(600));
        running.signal(signal);
        running.hear(answer);
    }
    let (status, report, messages) = running.wait();
    let reached = sender.reached();
    assert_eq!(status.code(), Some(3), "{messages}");
    let came = source(&report, "offered") + ledger(&report, "sent", "kernel_queue");
    assert_eq!(came, reached, "{report}");
    assert!(ledger(&report, "raw_frames", "directory_missing") > 0, "{report}");
    for stage in report["ledger"].as_array().unwrap() {
        let dropped = stage["dropped"].as_array().unwrap().iter();
        let dropped: u64 = dropped.map(|drop| drop["count"].as_u64().unwrap()).sum();
        let explained = stage["delivered"].as_u64().unwrap() + dropped;
        assert_eq!(stage["offered"], explained, "{stage}");
    }
}

#[test]
fn a_run_without_a_frame_is_no_success_and_says_where_it_listened() {
    let _alone = alone();
    let bench = bench();
    let mut running = Running::start(&bench, STOPS[0]);
    running.stop(STOPS[0]);
    let (status, report, _) = running.wait();
    assert_eq!((status.code(), &report["degraded"]), (Some(3), &Value::Bool(true)), "{report}");
    let alarms = report["alarms"].as_array().unwrap();
    let alarm = alarms.iter().find(|alarm| alarm["kind"] == "no_frames").unwrap();
    let text = alarm["text"].as_str().unwrap();
    assert!(text.contains(&ADDRESS.to_string()) && text.contains("check that"), "{text}");
}

#[test]
fn a_sender_waits_for_the_readout_and_loses_nothing() {
    let _alone = alone();
    let bench = bench();
    let emulate = ["emulate", "--wait", "--frames", "200", "--json"];
    let sender = Command::new(gannet())
        .args(emulate)
        .arg(bench.config())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    thread::sleep(Duration::from_millis(500));
    let mut running = Running::start(&bench, STOPS[0]);
    let sent = sender.wait_with_output().unwrap();
    assert!(sent.status.success());
    let truth: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(truth["refused"], 0, "{truth}");
    running.stop(STOPS[0]);
    let (status, report, _) = running.wait();
    assert_eq!(source(&report, "delivered"), 400, "{report}");
    let asked = source(&report, "empty") + source(&report, "before_start");
    assert_eq!(source(&report, "offered"), 400 + asked);
    assert!((1..=2).contains(&asked), "{report}");
    assert_eq!(status.code(), Some(130), "questions are no loss: {report}");
}

#[test]
fn readiness_is_told_to_a_descriptor_and_to_systemd() {
    let _alone = alone();
    let bench = bench();
    let socket_path = bench.directory.path().join("notify");
    let systemd = std::os::unix::net::UnixDatagram::bind(&socket_path).unwrap();
    systemd.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let ready = bench.directory.path().join("ready");
    let script = format!("exec 5>{}; exec \"$@\" --ready-fd 5", ready.to_str().unwrap());
    let mut child = Command::new("sh")
        .args(["-c", &script, "sh"])
        .arg(gannet())
        .args(["run", "--quiet"])
        .arg(bench.config())
        .env("NOTIFY_SOCKET", &socket_path)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let hear = || {
        let mut bytes = [0; 4096];
        let count = systemd.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    let said = hear();
    assert!(said.starts_with("READY=1\n") && said.contains("STATUS=run 1 is running"), "{said}");
    assert_eq!(fs::read_to_string(&ready).unwrap(), "ready\n");
    assert!(UdpSocket::bind(*ADDRESS).is_err(), "it has its port");
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(hear().trim_end(), "STOPPING=1");
    child.wait().unwrap();
    let refused =
        Command::new(gannet()).args(["run", "--ready-fd", "77"]).arg(bench.config()).output();
    let refused = refused.unwrap();
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(String::from_utf8_lossy(&refused.stderr).contains("--ready-fd 77"), "{refused:?}");
}

#[test]
fn a_terminal_that_goes_without_a_signal_ends_nothing() {
    let _alone = alone();
    let bench = bench();
    let sender = Sender::start(&bench);
    let (mut master, slave) = sys::terminal();
    let mut command = Command::new(gannet());
    command.arg("run").arg(bench.config());
    command.stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = command.spawn().unwrap();
    drop(command);
    let messages = Arc::<Mutex<String>>::default();
    read(Box::new(master.try_clone().unwrap()), Arc::clone(&messages), true).join().unwrap();
    master.write_all(b"\n").unwrap();
    drop(master);
    thread::sleep(Duration::from_millis(500));
    assert_eq!(child.try_wait().unwrap(), None, "it takes data without a terminal");
    let killed = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(killed.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert!(sender.reached() > 0);
    verify(&bench.files());
}
