//! Two network namespaces with a pair of virtual Ethernet cards between them.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::process::{self, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::xdp::{XdpConfig, XdpMode, XdpSource};
use gannet_ingest::{Landing, Source};
use gannet_measure::clock::SystemClock;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Taken down when dropped.
pub struct Wire {
    sending: String,
    receiving: String,
}

/// Runs `ip` with arguments that are split at spaces.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("no program `ip`: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("ip {arguments}: {}", told.trim()))
}

/// What `work` returns in a namespace.
fn within<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| {
        let moved = scope.spawn(|| {
            let file = File::open(format!("/run/netns/{namespace}")).unwrap();
            move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            work()
        });
        moved.join().unwrap()
    })
}

impl Wire {
    /// Lays a wire, or says why this process may not.
    pub fn lay() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| format!("gannet-{}-{count}-{end}", process::id());
        let wire = Self { sending: name("a"), receiving: name("b") };
        let (a, b) = (&wire.sending, &wire.receiving);
        ip(&format!("netns add {a}"))?;
        ip(&format!("netns add {b}"))?;
        let (near, far) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let ends =
            format!("address {near} netns {a} type veth peer name v0 address {far} netns {b}");
        ip(&format!("link add v0 {ends}"))?;
        for (namespace, own, other, hardware) in [(a, 1, 2, far), (b, 2, 1, near)] {
            ip(&format!("-n {namespace} address add 10.73.0.{own}/24 dev v0"))?;
            // The kernel is not to put datagrams together, as it may where no card is.
            ip(&format!("-n {namespace} link set v0 mtu 9600 gso_max_segs 1 up"))?;
            let neighbour = format!("10.73.0.{other} lladdr {hardware} dev v0");
            ip(&format!("-n {namespace} neighbour replace {neighbour}"))?;
        }
        Ok(wire)
    }

    /// A source at the receiving end with a free port, bound; `change` may change what is asked for.
    pub fn source(
        &self,
        mode: XdpMode,
        landing: Landing,
        change: impl FnOnce(&mut XdpConfig) + Send,
    ) -> Result<XdpSource, String> {
        within(&self.receiving, || {
            let mut config = XdpConfig { mode, ..XdpConfig::new("10.73.0.2:0".parse().unwrap()) };
            change(&mut config);
            let mut source = XdpSource::open(&config, landing, Arc::new(SystemClock::start()))
                .map_err(|error| error.to_string())?;
            source.bind().map_err(|error| error.to_string())?;
            Ok(source)
        })
    }

    /// A sender at the other end.
    pub fn sink(&self, source: &XdpSource) -> UdpSink {
        let address: SocketAddr = source.landed().facts().address.unwrap();
        within(&self.sending, || UdpSink::connect(address, &UdpSinkConfig::default()).unwrap())
    }

    /// Waits until the kernel's own network code at the receiving end has refused `count` datagrams.
    pub fn wait_for_refused(&self, count: u64) {
        within(&self.receiving, || {
            for _ in 0..1000 {
                let counters = fs::read_to_string("/proc/thread-self/net/snmp").unwrap();
                let line = counters.lines().rfind(|line| line.starts_with("Udp: ")).unwrap();
                let errors: u64 = line.split_whitespace().nth(3).unwrap().parse().unwrap();
                if errors >= count {
                    return;
                }
                thread::sleep(Duration::from_millis(10));
            }
            panic!("fewer than {count} datagrams were refused");
        });
    }

    /// Packets that the sending card dropped because the other end was behind.
    pub fn lost(&self) -> u64 {
        within(&self.sending, || {
            let devices = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
            let line = devices.lines().find_map(|line| line.trim().strip_prefix("v0:")).unwrap();
            line.split_whitespace().nth(11).unwrap().parse().unwrap()
        })
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        for namespace in [&self.sending, &self.receiving] {
            // It may not have come to be.
            let _gone = ip(&format!("netns delete {namespace}"));
        }
    }
}
