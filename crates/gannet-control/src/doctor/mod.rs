//! What this machine offers to the path from socket to file, and how to fix what it lacks.
//!
//! Each [`Check`] names a value, judges it against what the data path needs, and gives the command
//! that fixes it. Nothing is changed here, and no right is needed to look. Files of the kernel are
//! read; what only trying tells is tried on a socket that refuses every datagram. What receiving
//! costs is measured on a short run over loopback at the rate to come.

mod addresses;
mod interfaces;
mod libfabric;
mod machine;
mod modules;
mod network;
mod receiving;
mod rights;
mod rings;
mod socket;
mod storage;
mod system;
mod topology;
mod xdp;

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gannet_fabric::clop::FabricConfig;
use gannet_ingest::xdp::XdpConfig;
use gannet_measure::quantity::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::{Plan, SourceInput};
use crate::snapshot::Snapshot;

pub use machine::memory_doubt;
pub use receiving::ReceiveCost;
pub use rights::file_size_doubt;
pub use system::System;
#[cfg(test)]
pub(crate) use system::fake;

/// How a value suits the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// It works, below what the machine could do.
    Slow,
    /// It will lose data or refuse to start.
    Bad,
    /// It could not be found out.
    Unknown,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Ok => "ok",
            Self::Slow => "slow",
            Self::Bad => "bad",
            Self::Unknown => "unknown",
        })
    }
}

/// One thing looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub value: String,
    /// How that suits.
    pub verdict: Verdict,
    /// Why it matters.
    pub reason: &'static str,
    /// The command that fixes it; empty when there is nothing to fix. Where no command can fix it,
    /// it is a comment of the shell that begins with `#`.
    pub remedy: String,
    /// All that was found, where the value is but a summary of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub facts: Option<serde_json::Value>,
}

impl Check {
    /// A value with its verdict.
    fn new(
        name: impl Into<String>,
        value: impl fmt::Display,
        verdict: Verdict,
        reason: &'static str,
    ) -> Self {
        let (name, value) = (name.into(), value.to_string());
        Self { name, value, verdict, reason, remedy: String::new(), facts: None }
    }

    /// The same with how to fix it, unless there is nothing to fix.
    fn fixed_by(mut self, remedy: impl Into<String>) -> Self {
        if matches!(self.verdict, Verdict::Slow | Verdict::Bad) {
            self.remedy = remedy.into();
        }
        self
    }

    /// A number of bytes that should be at least `wanted`, or else is `short`.
    fn bytes(
        name: impl Into<String>,
        found: Option<u64>,
        wanted: u64,
        short: Verdict,
        reason: &'static str,
    ) -> Self {
        let text = |bytes: u64| match bytes {
            u64::MAX => "unlimited".to_owned(),
            bytes if bytes >= 1 << 20 => Bytes(bytes >> 20 << 20).to_string(),
            bytes => Bytes(bytes).to_string(),
        };
        let (value, verdict) = match found {
            Some(found) if found >= wanted => (text(found), Verdict::Ok),
            Some(found) => (format!("{}, {} wanted", text(found), text(wanted)), short),
            None => ("not readable".to_owned(), Verdict::Unknown),
        };
        Self::new(name, value, verdict, reason)
    }
}

/// What a run needs of the machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Needs {
    /// Kernel memory asked for by the socket that asks for most, in bytes.
    pub kernel_buffer: u64,
    /// Sockets, each with such a buffer of its own.
    pub sockets: usize,
    /// Whether a socket asks to count datagrams before the kernel's queue.
    pub count_before_queue: bool,
    /// Sources that take frames by AF_XDP.
    pub xdp: Vec<XdpConfig>,
    /// Rings that other processes put frames into.
    pub rings: Vec<FabricConfig>,
    /// Where readout and builder meet, if the run may be two processes.
    pub builder: Option<FabricConfig>,
    /// Addresses at which frames come in; absent when no configuration names them.
    pub listen: Option<Vec<SocketAddr>>,
    /// Bytes of the longest frame.
    pub frame_len_max: usize,
    /// Address of the metrics endpoint.
    pub metrics: Option<SocketAddr>,
    /// Addresses of modules that take commands, each once.
    pub modules: Vec<SocketAddr>,
    /// Whether a run ends with an error when they do not answer.
    pub modules_needed: bool,
    /// Memory for the past of all streams, in bytes.
    pub memory: u64,
    /// Threads that are busy while frames come.
    pub threads: usize,
    /// Frames per second that the busiest receiving thread takes.
    pub busiest_frames_per_s: f64,
    /// Whether receiving threads make some of the frames themselves.
    pub emulated: bool,
    /// Where records are written.
    pub directory: PathBuf,
    /// Space that the recorder leaves free there, in bytes.
    pub disk_reserve: u64,
    /// What is written a second, in bytes.
    pub disk_bytes_per_s: f64,
    /// Size of a record in bytes.
    pub record_bytes: u64,
}

impl Default for Needs {
    /// Those of sixteen streams over one socket that keep a second.
    fn default() -> Self {
        Self {
            kernel_buffer: 64 << 20,
            sockets: 1,
            count_before_queue: true,
            xdp: Vec::new(),
            rings: Vec::new(),
            builder: None,
            listen: None,
            frame_len_max: 7200,
            metrics: None,
            modules: Vec::new(),
            modules_needed: false,
            memory: 4 << 30,
            threads: 2,
            busiest_frames_per_s: 16.0 * 62.5e6 / 2048.0,
            emulated: false,
            directory: ".".into(),
            disk_reserve: 256 << 20,
            disk_bytes_per_s: 3e6,
            record_bytes: 0,
        }
    }
}

impl Needs {
    /// Those of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let sockets: Vec<_> = plan.sources.iter().filter_map(|source| source.udp()).collect();
        let kernel_buffer = sockets.iter().map(|udp| udp.kernel_buffer.bytes()).max();
        let frame_lens = plan.sources.iter().map(|source| *source.lengths.end());
        let forecast = &plan.forecast;
        let modules: BTreeSet<_> =
            plan.slow_control.modules.iter().map(|module| module.address).collect();
        Self {
            kernel_buffer: kernel_buffer.unwrap_or(0),
            sockets: sockets.iter().map(|udp| udp.listen.len() * udp.sockets as usize).sum(),
            count_before_queue: sockets.iter().any(|udp| udp.count_before_queue),
            listen: Some(
                plan.sources.iter().flat_map(|source| source.listen()).flatten().collect(),
            ),
            xdp: plan.sources.iter().filter_map(|source| source.xdp().cloned()).collect(),
            rings: plan.sources.iter().filter_map(|source| source.fabric().cloned()).collect(),
            builder: Some(plan.settings.builder.place()).filter(|place| !place.listen.is_empty()),
            frame_len_max: frame_lens.max().unwrap_or(0),
            metrics: plan.settings.metrics.listen,
            modules: modules.into_iter().collect(),
            modules_needed: plan.slow_control.is_needed(),
            memory: forecast.memory_bytes,
            // Those behind the receiving ones are busy only now and then.
            threads: forecast.receive_threads + 1,
            busiest_frames_per_s: forecast.busiest_frames_per_s,
            emulated: plan.sources.iter().any(|it| matches!(it.input, SourceInput::Emulated)),
            directory: plan.settings.recorder.directory.clone(),
            disk_reserve: plan.settings.recorder.disk_reserve.bytes(),
            disk_bytes_per_s: forecast.disk_bytes_per_s,
            record_bytes: forecast.record_bytes,
        }
    }
}

/// Looks at everything that `needs` depends on; `cost` is what receiving was measured to cost.
pub fn examine(system: &System, needs: &Needs, cost: &Result<ReceiveCost, String>) -> Vec<Check> {
    let mut checks = machine::checks(system, needs);
    checks.push(receiving::check(needs, cost));
    checks.extend(network::checks(system, needs));
    checks.extend(addresses::checks(needs));
    checks.extend(modules::checks(needs));
    checks.extend(interfaces::checks(system, needs, &gannet_ingest::interface_addresses()));
    checks.extend(socket::checks(needs));
    checks.extend(xdp::checks(needs));
    checks.extend(rings::checks(needs));
    checks.extend(rights::checks(system, needs));
    checks.extend(storage::checks(needs));
    checks.extend(topology::checks(&system.machine(), Some(&libfabric::Found::look()), needs));
    checks
}

/// Looks at what `needs` depends on while the run of `snapshot` has its sockets, cards and rings, which nobody else can
/// have then.
pub fn examine_running(system: &System, needs: &Needs, snapshot: &Snapshot) -> Vec<Check> {
    let mut checks = machine::checks(system, needs);
    checks.push(receiving::check_running(needs, snapshot));
    checks.extend(network::checks(system, needs));
    checks.extend(interfaces::checks(system, needs, &gannet_ingest::interface_addresses()));
    checks.extend(socket::checks(needs));
    checks.extend(rights::checks(system, needs));
    checks.extend(storage::checks(needs));
    // To look for libfabric is to load it and all of its providers, into the process that takes data.
    checks.extend(topology::checks(&system.machine(), None, needs));
    checks
}

/// What would keep a run from starting on this machine: addresses, cards and rings that it cannot have,
/// modules that it needs and has no way to, a directory that it cannot write to, files that may not be as large as a log.
pub fn obstacles(system: &System, needs: &Needs) -> Vec<Check> {
    let mut checks = addresses::checks(needs);
    checks.extend(modules::checks(needs));
    checks.extend(xdp::checks(needs));
    checks.extend(rings::checks(needs));
    checks.extend(storage::checks(needs));
    checks.push(rights::file_size(system, needs));
    checks.retain(|check| check.verdict == Verdict::Bad);
    checks
}

/// A path as the shell reads it.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    match text.chars().all(plain) {
        true => text,
        false => format!("'{}'", text.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::fixture::parse;

    #[test]
    fn needs_are_those_of_the_configuration() {
        let text = r#"
            [recorder]
            directory = "/data"
            disk_reserve = "1 GiB"
            [[source]]
            streams = { count = 8 }
            udp = { listen = ["10.0.0.1:7000", "10.0.0.1:7001"], kernel_buffer = "8 MiB" }
            [[source]]
            streams = { count = 2, crate = 2 }
            udp = { listen = ["[::1]:7000"], count_before_queue = false }
        "#;
        let plan = parse(text).unwrap();
        let needs = Needs::of(&plan);
        assert_eq!((needs.kernel_buffer, needs.sockets), (64 << 20, 3));
        assert!(needs.count_before_queue);
        let listen = ["10.0.0.1:7000", "10.0.0.1:7001", "[::1]:7000"];
        let listen = listen.map(|address| address.parse().unwrap());
        assert_eq!(needs.listen.as_deref(), Some(&listen[..]));
        assert_eq!((needs.memory, needs.threads), (plan.forecast.memory_bytes, 4));
        assert_eq!(needs.frame_len_max, 7200);
        assert_eq!((needs.disk_reserve, &*needs.directory), (1 << 30, Path::new("/data")));
    }

    #[test]
    fn every_remedy_can_be_given_to_a_shell() {
        // A system that lacks everything, and needs that no machine meets.
        let (_root, system) = system::fake(&[
            ("proc/meminfo", "MemAvailable: 1 kB\n"),
            ("proc/self/limits", "Max open files 1 1 files\nMax locked memory 1 1 bytes\n"),
            ("proc/self/status", "CapEff:\t0\n"),
            ("proc/sys/net/core/rmem_max", "1\n"),
            ("proc/sys/net/core/netdev_max_backlog", "1\n"),
            ("proc/sys/net/ipv4/udp_mem", "1 1 1\n"),
            ("sys/class/net/eth0/mtu", "1500\n"),
            ("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n"),
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n"),
        ]);
        let needs = Needs {
            listen: Some(["0.0.0.0:7000", "192.0.2.1:7000"].map(|a| a.parse().unwrap()).into()),
            threads: usize::MAX,
            busiest_frames_per_s: 1e6,
            directory: "/no/such place; (it's not)".into(),
            ..Needs::default()
        };
        let cost = Ok(ReceiveCost { s_per_frame: 2e-6 });
        let checks = examine(&system, &needs, &cost);
        let remedies: Vec<_> = checks.iter().filter(|check| !check.remedy.is_empty()).collect();
        assert!(remedies.len() >= 16, "{remedies:#?}");
        for check in remedies {
            let shell = Command::new("sh").args(["-n", "-c", &check.remedy]).status().unwrap();
            assert!(shell.success(), "{check:?}");
        }
    }
}
