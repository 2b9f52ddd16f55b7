//! What this machine offers to the path from socket to file, and what would mend it.
//!
//! Each [`Check`] names a value, judges it against what the data path needs, and gives the command
//! that mends it. Nothing is changed here, and no right is needed to look. Files of the kernel are
//! read; what only trying tells is tried on a socket that refuses every datagram.

mod machine;
mod network;
mod rights;
mod socket;
mod storage;
mod system;

use std::fmt;
use std::path::PathBuf;

use gannet_ingest::udp::Engine;
use gannet_measure::quantity::Bytes;
use serde::Serialize;

use crate::config::{Plan, SourceInput};

pub use system::System;

/// How a value suits the data path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: String,
    /// What was found.
    pub value: String,
    /// How that suits.
    pub verdict: Verdict,
    /// Why it matters.
    pub reason: &'static str,
    /// The command that mends it; empty when nothing needs mending.
    pub remedy: String,
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
        Self { name, value, verdict, reason, remedy: String::new() }
    }

    /// The same with what mends it, unless nothing needs mending.
    fn mended_by(mut self, remedy: impl Into<String>) -> Self {
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// Kernel memory asked for by the socket that asks for most, in bytes.
    pub kernel_buffer: u64,
    /// Sockets, each with such a buffer of its own.
    pub sockets: usize,
    /// Whether a socket asks for io_uring.
    pub io_uring: bool,
    /// Whether frames come from other machines.
    pub network: bool,
    /// Memory for the past of all streams, in bytes.
    pub memory: u64,
    /// Threads that are busy while frames come.
    pub threads: usize,
    /// Where records are written.
    pub directory: PathBuf,
}

impl Default for Needs {
    /// Those of sixteen streams that keep a second.
    fn default() -> Self {
        Self {
            kernel_buffer: 64 << 20,
            sockets: 1,
            io_uring: false,
            network: false,
            memory: 4 << 30,
            threads: 2,
            directory: ".".into(),
        }
    }
}

impl Needs {
    /// Those of `plan`.
    pub fn of(plan: &Plan) -> Self {
        let sockets = plan.sources.iter().filter_map(|source| match &source.input {
            SourceInput::Udp(udp) => Some(udp),
            SourceInput::Capture(_) => None,
        });
        let kernel_buffer = sockets.clone().map(|udp| udp.kernel_buffer.bytes()).max();
        let number = sockets.clone().map(|udp| udp.listen.len() * udp.sockets as usize).sum();
        let io_uring = sockets.clone().any(|udp| udp.engine == Engine::IoUring);
        let mut listen = sockets.flat_map(|udp| &udp.listen);
        Self {
            kernel_buffer: kernel_buffer.unwrap_or(0),
            sockets: number,
            io_uring,
            network: listen.any(|address| !address.ip().is_loopback()),
            memory: plan.forecast.memory_bytes,
            // Those behind the receiving ones are busy only now and then.
            threads: plan.forecast.threads.saturating_sub(2),
            directory: plan.config.recorder.directory.clone(),
        }
    }
}

/// Looks at everything that `needs` depends on.
pub fn examine(system: &System, needs: &Needs) -> Vec<Check> {
    let mut checks = machine::checks(system, needs);
    checks.extend(network::checks(system, needs));
    checks.extend(socket::checks(needs));
    checks.extend(rights::checks(system));
    checks.extend(storage::checks(needs));
    checks
}
