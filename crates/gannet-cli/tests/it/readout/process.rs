//! A readout as its users have it: the `gannet` binary in a process of its own.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_control::config::{self, Plan};
use gannet_control::emulation::{Emulation, EmulationReport, Target};
use gannet_dune::detector::{DUNE_TPC, TpcPlan};
use serde_json::Value;

/// The binary under test: that which the check names, or the one built with the tests.
pub fn gannet() -> PathBuf {
    std::env::var_os("GANNET_BIN").map_or(env!("CARGO_BIN_EXE_gannet").into(), PathBuf::from)
}

/// Silence before and after what is sent, by which a readout tells that it begins and ends there.
pub const QUIET: Duration = Duration::from_millis(250);

/// How much longer the long versions of tests are.
pub fn scale(long: u64) -> u64 {
    if std::env::var_os("GANNET_LONG").is_some() { long } else { 1 }
}

/// The rounds of a test: `short`, or `long` in the long version; `GANNET_PART=2/5` takes the second fifth.
pub fn rounds(short: u64, long: u64) -> Range<u64> {
    let rounds = if scale(2) == 1 { short } else { long };
    let Ok(part) = std::env::var("GANNET_PART") else { return 0..rounds };
    let (part, of) = part.split_once('/').unwrap();
    let (part, of): (u64, u64) = (part.parse().unwrap(), of.parse().unwrap());
    rounds * (part - 1) / of..rounds * part / of
}

/// Keeps tests that move many frames from taking each other's processor.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Resident memory of a process, in KiB.
pub fn resident_kib(id: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Whether there is a program of this name here.
pub fn has_program(name: &str) -> bool {
    let output = Command::new(name).arg("--version").output();
    output.is_ok_and(|output| output.status.success())
}

/// What `setpriv` is told for a user without any capability.
const NO_CAPABILITIES: [&str; 3] = ["--no-new-privs", "--bounding-set=-all", "--inh-caps=-all"];

/// Whether who runs the tests has any capability.
fn has_capabilities() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:")).unwrap();
    u64::from_str_radix(effective.trim(), 16).unwrap() != 0
}

/// Whether `test` can run without capabilities; where it cannot, this says so.
pub fn can_drop_capabilities(test: &str) -> bool {
    let can = !has_capabilities() || has_program("setpriv");
    if !can {
        let why = "who runs it has capabilities, and there is no `setpriv` to drop them";
        gannet_measure::testing::skipped(test, why);
    }
    can
}

/// A directory with a configuration, whose recorder writes into `out` below it.
pub struct Bench {
    pub directory: tempfile::TempDir,
    pub plan: Plan,
}

impl Bench {
    /// Writes `text` as `bench.toml`, after the tables that all tests share.
    pub fn new(text: &str) -> Self {
        Self::with_recorder(text, "")
    }

    /// The same with more lines in the recorder's table.
    pub fn with_recorder(text: &str, lines: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("out");
        fs::create_dir(&out).unwrap();
        let recorder = format!(
            "{text}\n[recorder]\ndirectory = {:?}\n{lines}\n[pipeline.exports]\nformats = []\n\
             [pipeline.channels]\nfile = false\n",
            out.to_str().unwrap()
        );
        fs::write(directory.path().join("bench.toml"), recorder).unwrap();
        let plan = config::load(&directory.path().join("bench.toml"), &[&DUNE_TPC]).unwrap();
        Self { directory, plan }
    }

    /// What the configuration says of the detector.
    pub fn tpc(&self) -> &TpcPlan {
        TpcPlan::of(&self.plan).unwrap()
    }

    pub fn config(&self) -> PathBuf {
        self.directory.path().join("bench.toml")
    }

    /// Writes the file `secret` beside the configuration, for this user only.
    pub fn write_secret(&self, secret: &str) {
        let path = self.directory.path().join("secret");
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }

    pub fn out(&self) -> PathBuf {
        self.directory.path().join("out")
    }

    /// Names of the logs that the recorder has left, finished or not, and of their side files.
    pub fn files(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.out()).unwrap();
        let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|file| file.to_str().unwrap().contains(".glog"));
        files.sort();
        files
    }

    /// Starts the emulator of the configuration: `frames` frames of each stream to `to`.
    pub fn emulate(&self, to: SocketAddr, frames: Option<u64>) -> Emulation {
        let receivers = vec![to.into(); self.plan.detector.emulated().len()];
        let target = Target { receivers, frames, flow_control: None, faults: None };
        self.plan.detector.front_end().unwrap().start(&target, None).unwrap()
    }

    /// Starts `gannet emulate`, which sends to the address in the configuration until dropped.
    pub fn traffic(&self) -> Traffic {
        let mut command = Command::new(gannet());
        command.arg("emulate").arg(self.config()).stdout(Stdio::null()).stderr(Stdio::null());
        Traffic(command.spawn().unwrap())
    }

    /// A whole run: `frames` frames of each stream from start to drain.
    pub fn run(&self, frames: u64) -> (EmulationReport, Ended) {
        let readout = Readout::start(&self.config());
        thread::sleep(QUIET);
        let sent = self.emulate(readout.address, Some(frames)).join().unwrap();
        thread::sleep(QUIET);
        (sent, readout.stop())
    }
}

/// `gannet emulate` at work.
pub struct Traffic(Child);

impl Drop for Traffic {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// `gannet run` at work.
pub struct Readout {
    child: Child,
    /// Where its first socket listens.
    pub address: SocketAddr,
    /// Where it serves its figures, if it does.
    pub metrics: Option<SocketAddr>,
    /// Where it shows its pages, if it does.
    pub pages: Option<SocketAddr>,
    errors: JoinHandle<String>,
    output: JoinHandle<String>,
}

/// `gannet run` after its end.
pub struct Ended {
    pub status: ExitStatus,
    pub report: Value,
    pub errors: String,
}

impl Readout {
    /// Starts a readout and waits until it takes frames.
    pub fn start(config: &Path) -> Self {
        Self::start_by(Command::new(gannet()).args(["run", "--json"]).arg(config))
    }

    /// The same as a user without any capability, where [`can_drop_capabilities`].
    pub fn start_without_capabilities(config: &Path) -> Self {
        if !has_capabilities() {
            return Self::start(config);
        }
        let mut command = Command::new("setpriv");
        Self::start_by(
            command.args(NO_CAPABILITIES).arg(gannet()).args(["run", "--json"]).arg(config),
        )
    }

    /// The same by a command of its own.
    pub fn start_by(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let (mut address, mut metrics, mut pages, mut text) = (None, None, None, String::new());
        while !text.contains("is running") {
            let begin = text.len();
            assert!(errors.read_line(&mut text).unwrap() > 0, "it ended at once: {text}");
            let line = &text[begin..];
            let after = |mark: &str| {
                let rest = line.split_once(mark)?.1;
                rest.split([' ', '/', '\n']).next()?.parse().ok()
            };
            // What is found at a place has no address.
            let ring = || line.contains(": fabric ").then(|| ([0; 4], 0).into());
            let socket = || after(": udp ").or_else(|| after(": roce ")).or_else(ring);
            address = address.or_else(socket).or_else(|| after(" queue 0 "));
            metrics = metrics.or_else(|| after("metrics: http://"));
            pages = pages.or_else(|| after("in a browser: http://"));
        }
        let errors = thread::spawn(move || {
            errors.read_to_string(&mut text).unwrap();
            text
        });
        let mut stdout = child.stdout.take().unwrap();
        let output = thread::spawn(move || {
            let mut text = String::new();
            stdout.read_to_string(&mut text).unwrap();
            text
        });
        let address = address.expect("a source with an address");
        Self { child, address, metrics, pages, errors, output }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop by Ctrl-C, and waits until it has drained.
    pub fn stop(self) -> Ended {
        let killed = Command::new("kill").args(["-INT", &self.id().to_string()]).status();
        assert!(killed.unwrap().success());
        self.wait()
    }

    /// Ends it on the spot.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until it ends by itself.
    pub fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let (output, errors) = (self.output.join().unwrap(), self.errors.join().unwrap());
        let report = serde_json::from_str(&output).unwrap_or(Value::Null);
        assert!(!report.is_null(), "{status}\n{output}\n{errors}");
        Ended { status, report, errors }
    }

    /// The figures that it serves now.
    pub fn snapshot(&self) -> Value {
        use std::io::Write;
        let address = self.metrics.expect("metrics are configured");
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let request = "GET /snapshot.json HTTP/1.0\r\n\r\n";
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}

impl Ended {
    /// The number at a JSON pointer of the report.
    pub fn number(&self, pointer: &str) -> u64 {
        self.report.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("{pointer}"))
    }

    /// A figure of a stage of the ledger: `offered`, `delivered`, or the name of a reason.
    pub fn ledger(&self, stage: &str, figure: &str) -> u64 {
        let stages = self.report["ledger"].as_array().unwrap();
        let stage =
            stages.iter().find(|s| s["stage"] == stage).unwrap_or_else(|| panic!("{stage}"));
        if let Some(count) = stage[figure].as_u64() {
            return count;
        }
        let reasons = stage["dropped"].as_array().unwrap();
        let drop = reasons.iter().find(|drop| drop["reason"] == figure);
        drop.unwrap_or_else(|| panic!("{figure}"))["count"].as_u64().unwrap()
    }

    /// Stages whose books do not close.
    pub fn open_books(&self) -> Vec<String> {
        let stages = self.report["ledger"].as_array().unwrap();
        let number = |value: &Value| value.as_u64().unwrap();
        let closes = |stage: &&Value| {
            let dropped = stage["dropped"].as_array().unwrap().iter();
            let dropped: u64 = dropped.map(|drop| number(&drop["count"])).sum();
            let told = number(&stage["delivered"]) + dropped + number(&stage["under_way"]);
            number(&stage["offered"]) != told || stage["under_way"] != 0
        };
        stages.iter().filter(closes).map(Value::to_string).collect()
    }

    /// Whether the kernel dropped datagrams because it gave less memory than was asked for: then
    /// nothing can be said about tests in which it should drop none, and this says so.
    pub fn kernel_was_short(&self, test: &str) -> bool {
        let source = &self.report["sources"][0];
        let short = source["engine"].as_str().unwrap().contains("asked for");
        let dropped = source["kernel_drops"] != 0;
        if short && dropped {
            gannet_measure::testing::skipped(test, "net.core.rmem_max is too small for it");
        }
        short && dropped
    }

    pub fn is_degraded(&self) -> bool {
        self.report["degraded"] == true
    }
}
