//! What becomes of the binary when nobody reads its output, or nothing can be written there.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use gannet_measure::testing::free_address;

use crate::sys;

/// Three streams, of which the emulator breaks frames so that the readout has much to say.
const CONFIG: &str = r#"
[[source]]
streams = { count = 3 }
udp = { listen = ["127.0.0.1:PORT"] }
depth = "100 ms"
[recorder]
directory = "DIRECTORY"
[pipeline.exports]
formats = []
[emulate]
streams = { count = 3 }
pace = { rate_scale = 0.1 }
faults = { loss = 0.02, bit_flip = 0.02 }
"#;

fn gannet(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(arguments);
    command
}

/// A stream that takes nothing: a full device, or a pipe without reader.
fn deaf(full: bool) -> Stdio {
    if full {
        return File::options().write(true).open("/dev/full").unwrap().into();
    }
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

/// A configuration in `directory` that listens on a free port.
fn config_in(directory: &Path) -> String {
    let port = free_address().port();
    let text = CONFIG.replace("PORT", &port.to_string());
    let text = text.replace("DIRECTORY", directory.to_str().unwrap());
    let file = directory.join("run.toml");
    fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Lets the front end of `config` send while `run` runs, and gives what `run` leaves.
fn taking_data(config: &str, run: &mut Command) -> Output {
    let run: Child = run.spawn().unwrap();
    let sent =
        gannet(&["emulate", config, "--seconds", "0.5", "--wait"]).stderr(deaf(false)).output();
    let sent = sent.unwrap();
    assert!(sent.status.code().is_some_and(|code| code == 0 || code == 3), "{:?}", sent.status);
    run.wait_with_output().unwrap()
}

#[test]
fn a_run_goes_on_when_its_messages_cannot_be_written() {
    for full in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let config = config_in(directory.path());
        // The level of debugging makes the receiving threads talk.
        let mut run = gannet(&["run", &config, "--seconds", "1.5", "--json", "-vv"]);
        let output = taking_data(&config, run.stdout(Stdio::piped()).stderr(deaf(full)));
        let code = output.status.code();
        let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((code, &report["state"]), (Some(3), &"stopped".into()), "full {full}");
        assert_eq!(report["failure"], serde_json::Value::Null);
        assert!(report["streams"][0]["frames"].as_u64() > Some(100), "{}", report["streams"]);
    }
}

#[test]
fn a_reader_that_leaves_does_not_change_how_a_run_ended() {
    let directory = tempfile::tempdir().unwrap();
    let config = config_in(directory.path());
    for form in [&["--json"][..], &[]] {
        let mut run = gannet(&["run", &config, "--seconds", "0.2", "--quiet"]);
        run.args(form).env("RUST_LOG", "error").stdout(deaf(false)).stderr(Stdio::piped());
        let output = run.spawn().unwrap().wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "");
        assert_eq!(output.status.code(), Some(3), "no frame came");
    }
}

#[test]
fn no_form_of_output_minds_a_closed_pipe_and_each_names_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let config = config_in(directory.path());
    let table = directory.path().join("a_channels.csv");
    let columns = "channel,stream,plane,pedestal,rms,tps,tp_rate_hz,recent_tp_rate_hz,condition\n";
    fs::write(&table, columns).unwrap();
    let table = table.to_str().unwrap();
    let forms: [&[&str]; 9] = [
        &["check", &config],
        &["check", &config, "--json"],
        &["check", "--schema"],
        &["doctor"],
        &["doctor", "--json"],
        &["demo", "--print-config"],
        &["channels", table],
        &["channels", table, "--mask"],
        &["inspect", &config, "--format", "wibeth"],
    ];
    for form in forms {
        let told = gannet(form).output().unwrap();
        let closed = gannet(form).stdout(deaf(false)).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(closed.status.code(), told.status.code(), "{form:?}");
        assert_eq!(closed.stderr, told.stderr, "{form:?}");
        if told.stdout.is_empty() {
            continue;
        }
        let full = gannet(form).stdout(deaf(true)).stderr(Stdio::piped()).output().unwrap();
        let message = String::from_utf8_lossy(&full.stderr);
        assert_eq!(full.status.code(), Some(1), "{form:?}: {message}");
        assert!(message.contains("cannot write standard output: No space left"), "{message}");
    }
}

#[test]
fn errors_that_nobody_hears_keep_their_code() {
    for full in [true, false] {
        let code =
            |arguments: &[&str]| gannet(arguments).stderr(deaf(full)).status().unwrap().code();
        assert_eq!(code(&["check", "/nowhere.toml"]), Some(4));
        assert_eq!(code(&["run"]), Some(2));
        assert_eq!(code(&["export", "/nowhere.glog"]), Some(1));
        assert_eq!(code(&["bench", "tpg", "--threads", "1024"]), Some(5));
    }
}

#[test]
fn a_long_list_ends_when_its_reader_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let config = config_in(directory.path());
    let quick = ["run", &config, "--seconds", "0.2", "--quiet"];
    let mut run = gannet(&quick);
    run.stdout(Stdio::null()).stderr(Stdio::null());
    assert_eq!(run.status().unwrap().code(), Some(3), "no frame came");
    let mut files = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let log = files.find(|path| path.extension().is_some_and(|e| e == "glog")).unwrap();
    let mut inspect = gannet(&["inspect", "--json"]);
    let mut inspect = inspect.arg(log).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(inspect.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!((line.as_str(), inspect.wait().unwrap().code()), ("[\n", Some(0)));
}

#[test]
fn a_terminal_without_control_codes_gets_lines() {
    let directory = tempfile::tempdir().unwrap();
    let (mut master, slave) = sys::terminal();
    let mut demo = gannet(&["demo", "--seconds", "1", "--directory"]);
    demo.arg(directory.path()).env("TERM", "dumb").stdin(Stdio::null());
    demo.stdout(slave.try_clone().unwrap()).stderr(slave);
    let mut child = demo.spawn().unwrap();
    drop(demo);
    let mut shown = Vec::new();
    // The last program inside is gone: the terminal says so with an error.
    let _gone = master.read_to_end(&mut shown);
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let shown = String::from_utf8(shown).unwrap();
    assert!(shown.contains("Mframe/s") && !shown.contains('\u{1b}'), "{shown}");
}
