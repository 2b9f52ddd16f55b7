//! Slow control end to end: a run, its modules and whoever asks it in processes of their own.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use gannet_measure::testing::free_address;
use serde_json::Value;

use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, gannet, has_program, scale};

/// A run of one stream with four modules.
fn bench(lines: &str) -> Bench {
    let address = free_address();
    Bench::new(&format!(
        "[[source]]\nstreams = {{ count = 1 }}\ndepth = \"100 ms\"\n\
         udp = {{ listen = [\"127.0.0.1:0\"] }}\n\
         [emulate]\nstreams = {{ count = 1 }}\npace = {{ rate_scale = 0.01 }}\n\
         [slow_control]\n\
         modules = [{{ id = 7, address = \"{address}\", count = 4, name = \"line\" }}]\n\
         retry = \"10 ms\"\n{lines}\n"
    ))
}

const FAULTS: &str = "emulate = { loss = 0.1, duplicate = 0.1, reorder = 0.1, seed = 3 }";

/// `gannet emulate --as modules`, once it listens.
struct Modules {
    child: Child,
    /// Open, so that it can go on writing.
    _errors: BufReader<ChildStderr>,
}

impl Modules {
    fn start(bench: &Bench) -> Self {
        let mut command = Command::new(gannet());
        command.args(["emulate", "--as", "modules"]).arg(bench.config());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        errors.read_line(&mut line).unwrap();
        assert_eq!(line, "4 modules listen\n");
        Self { child, _errors: errors }
    }

    /// Stops it, and gives what each module applied, in order, and its other figures.
    fn stop(self) -> (BTreeMap<u32, Vec<String>>, String) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let output = self.child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut applied: BTreeMap<u32, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let Some((module, set)) =
                line.strip_prefix("module ").and_then(|rest| rest.split_once(": "))
            else {
                continue;
            };
            applied.entry(module.parse().unwrap()).or_default().push(set.to_owned());
        }
        (applied, text)
    }
}

fn ctl(socket: &Path, arguments: &[&str]) -> Output {
    Command::new(gannet()).arg("ctl").arg(socket).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn socket(bench: &Bench) -> PathBuf {
    bench.out().join("gannet.sock")
}

/// Waits until frames have come, so that the run has something to tell.
fn send_frames(bench: &Bench, readout: &Readout) {
    thread::sleep(QUIET);
    bench.emulate(readout.address, Some(100)).join().unwrap();
    thread::sleep(QUIET);
}

fn control(ended: &Ended, figure: &str) -> u64 {
    ended.report["slow_control"][figure].as_u64().unwrap()
}

#[test]
fn commands_reach_modules_once_and_in_order_through_a_network_that_loses() {
    let _alone = alone();
    let lists = "configure = [{ module = \"*\", set = { hv = 1200, threshold = 30 } }]\n\
                 start = [{ module = \"line\", set = { go = \"yes\" } }]\n\
                 stop = [{ module = \"7-9\", set = { hv = 0 } }]";
    let bench = bench(&format!("{lists}\n{FAULTS}"));
    let modules = Modules::start(&bench);
    let readout = Readout::start(&bench.config());
    let rounds = 20 * scale(10);
    for round in 0..rounds {
        let value = format!("step={round}");
        let output = ctl(&socket(&bench), &["send", "*", &value, "last=1"]);
        let lines: Vec<_> = text(&output.stdout).lines().collect();
        assert!(output.status.success() && lines.len() == 8, "{output:?}");
        let begin = format!("module 7: step = {round} applied (");
        assert!(lines.iter().any(|line| line.starts_with(&begin) && line.ends_with(" ms)")));
    }
    send_frames(&bench, &readout);
    let ended = readout.stop();
    let (applied, told) = modules.stop();
    for module in 7..11 {
        let mut expected = vec!["hv = 1200".to_owned(), "threshold = 30".into(), "go = yes".into()];
        for round in 0..rounds {
            expected.extend([format!("step = {round}"), "last = 1".into()]);
        }
        expected.extend((module < 10).then(|| "hv = 0".to_owned()));
        assert_eq!(applied[&module], expected, "module {module}");
    }
    let commands = 4 * (3 + 2 * rounds) + 3;
    assert_eq!((control(&ended, "applied"), control(&ended, "failed")), (commands, 0));
    assert_eq!(ended.ledger("slow_control", "delivered"), commands);
    assert_eq!(ended.open_books(), [""; 0]);
    assert_eq!(ended.report["slow_control"]["datagrams"]["foreign"], 0);
    let repeated = ended.report["slow_control"]["datagrams"]["repeated"].as_u64().unwrap();
    assert!(repeated > commands / 20, "{repeated} of {commands}: nothing was lost? {told}");
    assert_eq!(ended.status.code(), Some(130), "{}", ended.errors);
    assert!(!socket(&bench).exists(), "the socket goes with the run");
}

#[test]
fn a_run_whose_modules_do_not_answer_is_refused_unless_it_may_go_on() {
    let _alone = alone();
    let lists = "deadline = \"100 ms\"\nconfigure = [{ module = \"8\", set = { a = 1, b = 2 } }]\n";
    let bench = bench(lists);
    let output = Command::new(gannet()).arg("run").arg(bench.config()).output().unwrap();
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{errors}");
    let words = [
        "error: slow control at configure: module 8: a = 1 not acknowledged: it may or may not be applied",
        " attempts, ",
        "check that the module is on and listens at 127.0.0.2:",
        "1 more commands failed or were not sent",
        "`required = false` in [slow_control]",
    ];
    assert!(words.iter().all(|word| errors.contains(word)), "{errors}");
    assert!(bench.files().is_empty() && !socket(&bench).exists(), "nothing is left behind");

    let lenient = fs::read_to_string(bench.config()).unwrap();
    let lenient = lenient.replace("deadline =", "required = false\ndeadline =");
    fs::write(bench.config(), lenient).unwrap();
    let readout = Readout::start(&bench.config());
    let output = ctl(&socket(&bench), &["send", "9", "hv=5"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = text(&output.stdout);
    assert!(told.starts_with("module 9: hv = 5 not acknowledged: it may or may not"), "{told}");
    let status = ctl(&socket(&bench), &["status"]);
    let snapshot: Value = serde_json::from_slice(&status.stdout).unwrap();
    let alarms = snapshot["alarms"].to_string();
    assert!(alarms.contains("module 8: a") && alarms.contains("module 9: hv"), "{alarms}");
    send_frames(&bench, &readout);
    let ended = readout.stop();
    assert_eq!(ended.ledger("slow_control", "not_acknowledged"), 2);
    assert_eq!(ended.ledger("slow_control", "not_sent"), 1);
    assert!(!ended.is_degraded(), "commands are no data: {}", ended.report);
}

#[test]
fn an_alarm_clears_when_the_value_is_set_and_commands_at_stop_that_fail_are_an_error() {
    let _alone = alone();
    let bench = bench("deadline = \"100 ms\"\nstop = [{ module = 10, set = { hv = 0 } }]");
    let readout = Readout::start(&bench.config());
    assert_eq!(ctl(&socket(&bench), &["send", "10", "hv=5"]).status.code(), Some(1));
    let alarms = || {
        let status = ctl(&socket(&bench), &["status"]);
        let snapshot: Value = serde_json::from_slice(&status.stdout).unwrap();
        snapshot["alarms"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|a| a["kind"] == "slow_control")
            .count()
    };
    assert_eq!(alarms(), 1);
    let modules = Modules::start(&bench);
    assert_eq!(ctl(&socket(&bench), &["send", "10", "hv=6"]).status.code(), Some(0));
    assert_eq!(alarms(), 0);
    modules.stop();
    send_frames(&bench, &readout);
    let ended = readout.stop();
    assert_eq!(ended.status.code(), Some(1));
    let words = "error: slow control at stop: module 10: hv = 0 not acknowledged";
    assert!(ended.errors.contains(words), "{}", ended.errors);
}

#[test]
fn who_asks_for_what_is_not_there_is_told() {
    let _alone = alone();
    let bench = bench("emulate = { keys = [\"hv\", \"serial\"], locked = [\"serial\"] }");
    let modules = Modules::start(&bench);
    let readout = Readout::start(&bench.config());
    let cases: [(&[&str], i32, &str); 8] = [
        (
            &["send", "9", "hv=1", "serial=2", "hv=3"],
            1,
            "module 9: serial = 2 refused: it is locked",
        ),
        (&["send", "9", "hw=1"], 1, "module 9: hw = 1 not applied: the module has no such key"),
        (&["send", "11", "hv=1"], 2, "no module is called \"11\"; there are 7, 8, 9, 10"),
        (&["send", "9"], 2, "KEY=VALUE"),
        (&["send", "9", "hv"], 2, "write KEY=VALUE"),
        (&["send", "9", "h v=1"], 2, "\"h v\" is no key"),
        (&["tell"], 2, "tell"),
        (
            &["send", "line", "hv=1 kV = 1000 V"],
            0,
            "module 10: hv = 1 kV = 1000 V applied (1 attempt",
        ),
    ];
    for (arguments, code, words) in cases {
        let output = ctl(&bench.out(), arguments);
        let told = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert!(
            output.status.code() == Some(code) && told.contains(words),
            "{arguments:?}: {told}"
        );
    }
    let output = ctl(&bench.out(), &["send", "8", "--json", "hv=7"]);
    let outcomes: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&outcomes[0]["module"], &outcomes[0]["ending"]), (&8.into(), &"applied".into()));
    let second = Command::new(gannet()).arg("run").arg(bench.config()).output().unwrap();
    let told = text(&second.stderr);
    assert!(
        second.status.code() == Some(5) && told.contains("another run listens there"),
        "{told}"
    );
    send_frames(&bench, &readout);
    let output = ctl(&socket(&bench), &["stop"]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(0), "the run is stopping\n"));
    let ended = readout.wait();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.errors);
    let (applied, _) = modules.stop();
    assert_eq!(applied[&9], ["hv = 1", "hv = 1 kV = 1000 V"]);
    let output = ctl(&socket(&bench), &["status"]);
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("no run answers at"), "{output:?}");
    let long = "x".repeat(110);
    let output = ctl(Path::new(&long), &["status"]);
    assert!(text(&output.stderr).contains("that of a socket at most 107"), "{output:?}");
}

#[test]
fn garbage_half_lines_and_many_connections_hold_nobody_up() {
    let _alone = alone();
    let bench = bench("");
    let modules = Modules::start(&bench);
    let readout = Readout::start(&bench.config());
    let path = socket(&bench);
    let metadata = fs::symlink_metadata(&path).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let ask = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // It may hang up before it has read all.
        let _written = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _read = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    };
    for garbage in [&b"\n"[..], b"{}\n", b"\"dance\"\n", b"\xff\x00\n", b"[[[[[[[[[\n"] {
        let answer = ask(garbage);
        assert!(answer.starts_with("{\"error\":\"this is no request"), "{garbage:?}: {answer}");
    }
    ask(&vec![b'x'; 1 << 20]);
    // A line that never ends keeps its place for a while, and no longer.
    let silent: Vec<_> = (0..40)
        .map(|_| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(b"{\"send\":").unwrap();
            stream
        })
        .collect();
    let output = ctl(&path, &["send", "7", "hv=1"]);
    assert!(output.status.success(), "{output:?}");
    drop(silent);
    let send = |value: String| ctl(&path, &["send", "8", &value]).status.success();
    thread::scope(|scope| {
        let clients: Vec<_> =
            (0..20).map(|client| scope.spawn(move || send(format!("hv={client}")))).collect();
        assert!(clients.into_iter().all(|client| client.join().unwrap()));
    });
    send_frames(&bench, &readout);
    let ended = readout.stop();
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert_eq!(control(&ended, "applied"), 21);
    let (applied, _) = modules.stop();
    assert_eq!((applied[&7].len(), applied[&8].len()), (1, 20));
}

#[test]
fn another_user_may_not_ask_a_run() {
    let _alone = alone();
    let test = "slow control asked by another user";
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root || !has_program("setpriv") {
        gannet_measure::testing::skipped(test, "it takes root and `setpriv` to be another user");
        return;
    }
    let bench = bench("");
    let readout = Readout::start(&bench.config());
    // Everything on the way is open to all, so that it is the socket that refuses.
    let program = bench.directory.path().join("gannet");
    fs::copy(gannet(), &program).unwrap();
    for path in [bench.directory.path(), &bench.out(), &program] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let other = |program: &Path, socket: &Path| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
        command.arg(program).arg("ctl").arg(socket).arg("stop").output().unwrap()
    };
    let output = other(&program, &socket(&bench));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    assert!(told.contains("Permission denied") && told.contains("user of the run only"), "{told}");
    // Where its owner opens the socket all the same, the run looks who asks.
    fs::set_permissions(socket(&bench), Permissions::from_mode(0o666)).unwrap();
    let output = other(&program, &socket(&bench));
    assert_eq!(output.status.code(), Some(5), "{output:?}");
    let own = ctl(&socket(&bench), &["status"]);
    let snapshot: Value = serde_json::from_slice(&own.stdout).unwrap();
    assert_eq!(snapshot["state"], "running");
    readout.stop();
}
