//! Two hosts of this one: network namespaces with a pair of virtual Ethernet cards between them.

use std::process::{self, Command};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::readout::process::gannet;

/// Two namespaces, taken down when dropped.
pub struct Namespaces([String; 2]);

/// Runs `ip` with arguments that are split at spaces, and returns what it printed.
fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("no program `ip`: {error}"))?;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(output.stdout));
    }
    Err(format!("ip {arguments}: {}", text(output.stderr)))
}

impl Namespaces {
    /// Namespaces `a` and `b` with a card each, 10.73.0.1 and 10.73.0.2.
    pub fn new() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let names = ["a", "b"].map(|end| format!("gannet-run-{}-{count}-{end}", process::id()));
        let namespaces = Self(names);
        let [a, b] = &namespaces.0;
        namespaces.0.iter().try_for_each(|name| ip(&format!("netns add {name}")).map(drop))?;
        ip(&format!("link add v0 netns {a} type veth peer name v0 netns {b}"))?;
        for (name, address) in [(a, "10.73.0.1/24"), (b, "10.73.0.2/24")] {
            ip(&format!("-n {name} address add {address} dev v0"))?;
            ip(&format!("-n {name} link set v0 mtu 9000 up"))?;
            ip(&format!("-n {name} link set lo up"))?;
        }
        Ok(namespaces)
    }

    /// `gannet` at the sending or the receiving end.
    pub fn gannet(&self, end: usize) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end]]).arg(gannet());
        command
    }

    /// Packets that the sending card dropped.
    pub fn lost(&self) -> u64 {
        let told = ip(&format!("-n {} -s -j link show v0", self.0[0])).unwrap();
        let told: Value = serde_json::from_str(&told).unwrap();
        told.pointer("/0/stats64/tx/dropped").unwrap().as_u64().unwrap()
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        for name in &self.0 {
            // It may not have come to be.
            let _gone = ip(&format!("netns delete {name}"));
        }
    }
}
