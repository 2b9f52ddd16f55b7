//! Readouts and builder of a run in processes of their own.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use gannet_emulate::FrontEnd;
use gannet_fabric::ofi::Library;
use gannet_fabric::ofi::provider::{Wanted, choose};
use gannet_log::{Kind, Reader};
use gannet_measure::testing::{free_address, skipped};
use serde_json::Value;

use crate::finding::recordings;
use crate::readout::namespaces::Namespaces;
use crate::readout::process::{Bench, Ended, alone, gannet};

const STREAMS: usize = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A configuration for streams that come by `input`, and a link by `builder`.
fn bench(input: &str, builder: &str, emulate: &str) -> Bench {
    let bench = Bench::new(&format!(
        r#"
[[source]]
streams = {{ count = {STREAMS} }}
{input}
depth = "300 ms"
[builder]
{builder}
[pipeline.tpg]
threshold = [60, 60, 60]
[emulate]
seed = 3
streams = {{ count = {STREAMS} }}
tracks = {{ rate_hz = 100.0 }}
{emulate}
"#
    ));
    bench.write_secret("a secret of two processes");
    bench
}

/// A link that is taken by nobody else.
pub fn by_udp() -> String {
    let address = free_address();
    format!("listen = \"{address}\"\nbackend = \"udp\"\nsecret_file = \"secret\"")
}

pub const BY_SHM: &str = "listen = \"builder.sock\"";

/// Writes so many emulated frames of each stream as the capture of the configuration.
fn capture(bench: &Bench, frames: u64) {
    let tpc = bench.tpc();
    let mut emulator = tpc.config.emulate.emulator(&tpc.channel_map, 1 << 40).unwrap();
    let front_end = emulator.front_end();
    let places = (0..frames).flat_map(|index| (0..STREAMS).map(move |stream| (stream, index)));
    let rows: Vec<_> =
        places.map(|(stream, index)| (stream, front_end.frame(stream, index).to_vec())).collect();
    recordings::capture(&bench.directory.path().join("frames.pcap"), &rows);
}

/// `gannet run` with a part of a run.
pub struct Part {
    pub child: Child,
    output: PathBuf,
    errors: PathBuf,
}

impl Part {
    pub fn start(bench: &Bench, name: &str, arguments: &[&str]) -> Self {
        Self::start_by(Command::new(gannet()), bench, name, arguments)
    }

    pub fn start_by(mut command: Command, bench: &Bench, name: &str, arguments: &[&str]) -> Self {
        let [output, errors] =
            ["out", "err"].map(|end| bench.directory.path().join(format!("{name}.{end}")));
        command.args(["run", "--json", "--run", "5"]).args(arguments).arg(bench.config());
        command.stdout(File::create(&output).unwrap()).stderr(File::create(&errors).unwrap());
        Self { child: command.stdin(Stdio::null()).spawn().unwrap(), output, errors }
    }

    pub fn errors(&self) -> String {
        fs::read_to_string(&self.errors).unwrap()
    }

    /// Waits until it has said something.
    pub fn says(&mut self, what: &str) {
        let begin = Instant::now();
        while !self.errors().contains(what) {
            assert!(begin.elapsed() < PATIENCE, "no \"{what}\" in:\n{}", self.errors());
            assert!(self.child.try_wait().unwrap().is_none(), "ended:\n{}", self.errors());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    pub fn stop(self) -> Ended {
        self.signal("-INT");
        self.wait()
    }

    pub fn wait(mut self) -> Ended {
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                self.child.kill().unwrap();
                panic!("it does not end:\n{}", self.errors());
            }
            thread::sleep(Duration::from_millis(10));
        };
        let (output, errors) = (fs::read_to_string(&self.output).unwrap(), self.errors());
        let report = serde_json::from_str(&output).unwrap_or(Value::Null);
        assert!(!report.is_null(), "{status}\n{output}\n{errors}");
        Ended { status, report, errors }
    }
}

/// Payloads of what was recorded of each kind, taken away from the directory of the recorder.
pub fn take_recorded(bench: &Bench) -> [Vec<Vec<u8>>; 2] {
    let mut recorded = [Vec::new(), Vec::new()];
    for file in bench.files() {
        let mut reader = Reader::open(&file).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            match chunk.header.label.kind {
                Kind::TRIGGER_RECORD => recorded[0].push(chunk.payload.to_vec()),
                Kind::TP_SLICE => recorded[1].push(chunk.payload.to_vec()),
                _ => {}
            }
        }
        fs::remove_file(file).unwrap();
    }
    recorded
}

/// One run by one process, and one by two, which `builder` lets meet and `gannet` starts, the readout as the first.
pub fn two_processes_record_what_one_does(builder: &str, gannet: impl Fn(usize) -> Command) {
    let _alone = alone();
    let bench = bench("capture = \"frames.pcap\"", builder, "");
    capture(&bench, 4000);
    let whole = Part::start(&bench, "whole", &[]).wait();
    let expected = take_recorded(&bench);
    assert!(expected[0].len() > 3 && !expected[1].is_empty(), "{}", whole.report);

    let builder = Part::start_by(gannet(1), &bench, "builder", &["--role", "builder"]);
    let readout = Part::start_by(gannet(0), &bench, "readout", &["--role", "readout"]);
    let (readout, builder) = (readout.wait(), builder.wait());
    let told = format!("{}\n{}\n{}", builder.errors, readout.errors, readout.report);
    assert_eq!(readout.open_books(), [""; 0], "{told}");
    assert_eq!(builder.open_books(), [""; 0], "{told}");
    let found = take_recorded(&bench);
    assert_eq!(found.each_ref().map(Vec::len), expected.each_ref().map(Vec::len), "{told}");
    assert!(found == expected, "{told}");
    assert_eq!(readout.ledger("to_builder", "no_builder"), 0, "{told}");
    let items = readout.ledger("to_builder", "delivered");
    assert_eq!(items, builder.ledger("primitives", "offered"), "{told}");
    assert_eq!(builder.number("/streams/1/frames"), 4000, "{told}");
    let codes = [&whole, &readout, &builder].map(|ended| ended.status.code());
    assert_eq!(codes, [codes[0]; 3], "{told}");
}

#[test]
fn two_processes_record_what_one_does_over_shared_memory() {
    two_processes_record_what_one_does(BY_SHM, |_| Command::new(gannet()));
}

#[test]
fn two_processes_record_what_one_does_over_udp() {
    two_processes_record_what_one_does(&by_udp(), |_| Command::new(gannet()));
}

/// Whether libfabric is here, with its provider `tcp`.
pub fn libfabric() -> Result<(), String> {
    let wanted = Wanted { provider: Some("tcp".into()), address: None };
    let library = Library::open().map_err(|error| error.to_string())?;
    choose(&library, &wanted).map(drop).map_err(|error| error.to_string())
}

/// A link by UDP, by libfabric instead.
pub fn by_libfabric(by_udp: &str) -> String {
    by_udp.replace("\"udp\"", "\"ofi\"\nprovider = \"tcp\"")
}

#[test]
fn two_processes_record_what_one_does_over_libfabric() {
    match libfabric() {
        Ok(()) => {
            let builder = by_libfabric(&by_udp());
            two_processes_record_what_one_does(&builder, |_| Command::new(gannet()));
        }
        Err(why) => skipped("two_processes_record_what_one_does_over_libfabric", &why),
    }
}

/// A link between two hosts.
pub const BETWEEN_HOSTS: &str =
    "listen = \"10.73.0.2:17500\"\nbackend = \"udp\"\nsecret_file = \"secret\"";

#[test]
fn two_hosts_record_what_one_does() {
    match Namespaces::new() {
        Ok(hosts) => two_processes_record_what_one_does(BETWEEN_HOSTS, |end| hosts.gannet(end)),
        Err(why) => skipped("two_hosts_record_what_one_does", &why),
    }
}

#[test]
fn two_hosts_record_what_one_does_over_libfabric() {
    match libfabric().and_then(|()| Namespaces::new()) {
        Ok(hosts) => {
            let builder = by_libfabric(BETWEEN_HOSTS);
            two_processes_record_what_one_does(&builder, |end| hosts.gannet(end));
        }
        Err(why) => skipped("two_hosts_record_what_one_does_over_libfabric", &why),
    }
}

/// How long a readout is without its builder.
const WITHOUT_BUILDER: Duration = Duration::from_secs(5);

#[test]
fn a_readout_goes_on_without_its_builder_and_with_the_next() {
    let _alone = alone();
    let listen = free_address();
    let input = format!("udp = {{ listen = [\"{listen}\"] }}");
    let bench = bench(&input, BY_SHM, "pace = { rate_scale = 0.1 }");
    let mut first = Part::start(&bench, "first", &["--role", "builder"]);
    first.says("is running");
    let mut readout = Part::start(&bench, "readout", &["--role", "readout"]);
    readout.says("is running");
    let traffic = bench.traffic();
    thread::sleep(Duration::from_secs(1));
    first.child.kill().unwrap();
    first.child.wait().unwrap();
    readout.says("the builder is gone");
    thread::sleep(WITHOUT_BUILDER);
    let mut second = Part::start(&bench, "second", &["--role", "builder"]);
    second.says("readouts and builder are joined");
    thread::sleep(Duration::from_secs(2));
    let second = second.stop();
    readout.says("the builder has ended its run");
    let readout = readout.stop();
    drop(traffic);

    let told = format!("{}\n{}\n{}", second.errors, readout.errors, second.report);
    assert!(second.number("/recorder/records") > 5, "{told}");
    assert_eq!(second.number("/recorder/damaged"), 0, "{told}");
    assert_eq!(second.open_books(), [""; 0], "{told}");
    assert_eq!(readout.open_books(), [""; 0], "{told}");
    assert!(readout.ledger("to_builder", "no_builder") > 0, "{told}");
    assert!(readout.ledger("to_builder", "delivered") > 0, "{told}");
    assert_eq!(readout.ledger("frames", "delivered"), readout.ledger("source", "delivered"));
    assert_eq!(readout.status.code(), Some(3), "{told}");
}

#[test]
fn a_readout_of_another_configuration_is_told_so() {
    let bench = bench("capture = \"frames.pcap\"", BY_SHM, "");
    capture(&bench, 10);
    let mut builder = Part::start(&bench, "builder", &["--role", "builder"]);
    builder.says("is running");
    let text = fs::read_to_string(bench.config()).unwrap();
    fs::write(bench.config(), text.replace("[60, 60, 60]", "[61, 60, 60]")).unwrap();
    let readout = Part::start(&bench, "readout", &["--role", "readout"]).wait();
    assert!(readout.errors.contains("another configuration"), "{}", readout.errors);
    assert!(!readout.status.success());
    let builder = builder.stop();
    assert_eq!(builder.open_books(), [""; 0]);
}

#[test]
fn who_waits_for_the_other_can_be_stopped() {
    let bench = bench("capture = \"frames.pcap\"", BY_SHM, "");
    capture(&bench, 10);
    // A builder has begun its run, and no frame came.
    for (role, says, code) in
        [("readout", "waiting for the builder", 130), ("builder", "is running", 3)]
    {
        let mut part = Part::start(&bench, role, &["--role", role]);
        part.says(says);
        let ended = part.stop();
        assert_eq!(ended.status.code(), Some(code), "{}", ended.errors);
    }
    assert!(!bench.directory.path().join("builder.sock").exists());
}

#[test]
fn a_role_needs_a_place_to_meet() {
    let bench = Bench::new("[[source]]\nstreams = { count = 1 }\nemulated = true\n");
    let output = Command::new(gannet())
        .args(["run", "--role", "readout"])
        .arg(bench.config())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("where readout and builder meet"),
        "{errors}"
    );
}
