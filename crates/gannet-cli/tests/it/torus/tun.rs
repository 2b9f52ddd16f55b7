//! `gannet torus tun`: programs of hosts, each in a network namespace of its own, that know nothing of the torus.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::node::key;

const HOSTS: usize = 3;

/// Three hosts in a ring of virtual cables; taken down when dropped.
struct Ring {
    directory: tempfile::TempDir,
    name: String,
    nodes: Vec<Child>,
    tunnels: Vec<Child>,
}

/// Runs `ip` with arguments that are split at spaces.
fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("no program `ip`: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    output.status.success().then_some(()).ok_or_else(|| format!("ip {arguments}: {}", told.trim()))
}

impl Ring {
    /// Lays the cables and starts the hosts, or says why this process may not.
    fn lay() -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::tempdir().unwrap();
        let name = format!("gannet-{}-{count}", process::id());
        let mut ring = Self { directory, name, nodes: Vec::new(), tunnels: Vec::new() };
        for host in 0..HOSTS {
            ip(&format!("netns add {}", ring.namespace(host)))?;
            ip(&format!("-n {} link set lo up", ring.namespace(host)))?;
        }
        let mut ports = vec![Vec::new(); HOSTS];
        for from in 0..HOSTS {
            let to = (from + 1) % HOSTS;
            let (here, there) = (ring.namespace(from), ring.namespace(to));
            ip(&format!("link add east netns {here} type veth peer name west netns {there}"))?;
            let address = |end: usize| format!("172.31.{from}.{end}");
            for (namespace, device, end) in [(&here, "east", 1), (&there, "west", 2)] {
                ip(&format!("-n {namespace} address add {}/30 dev {device}", address(end)))?;
                ip(&format!("-n {namespace} link set {device} mtu 9000 up"))?;
            }
            ports[from].push(format!("{}:4700={}:4700", address(1), address(2)));
            ports[to].push(format!("{}:4700={}:4700", address(2), address(1)));
        }
        let key = key(ring.directory.path(), "key", 0o600);
        for (host, ports) in ports.iter().enumerate() {
            let mut command = ring.gannet(host, &["torus", "node", "--settle", "500 ms"]);
            command.args(["--watchdog", "400 ms", "--name", &format!("n{host}"), "--key"]);
            command.arg(&key).arg("--status").arg(ring.status(host));
            ports.iter().for_each(|port| _ = command.args(["--port", port]));
            ring.nodes.push(command.spawn().unwrap());
        }
        Ok(ring)
    }

    fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    fn status(&self, host: usize) -> std::path::PathBuf {
        self.directory.path().join(format!("n{host}"))
    }

    /// The program under test, in the namespace of a host.
    fn gannet(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), env!("CARGO_BIN_EXE_gannet")]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// The address of a host in the machine, once all is well there.
    fn address(&self, host: usize) -> Ipv4Addr {
        let begin = Instant::now();
        loop {
            let output =
                self.gannet(host, &["torus", "status", "--json"]).arg(self.status(host)).output();
            let status: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default();
            let is_well = status["faults"].as_array().is_some_and(Vec::is_empty);
            if let Some(place) = status["place"].as_array().filter(|_| is_well) {
                let octet = |at: usize| place[at].as_u64().unwrap() as u8 + 1;
                return Ipv4Addr::new(10, octet(0), octet(1), octet(2));
            }
            assert!(begin.elapsed() < Duration::from_secs(60), "no machine: {status}");
            thread::sleep(Duration::from_millis(100));
        }
    }

    fn carry(&mut self, host: usize) {
        let mut command = self.gannet(host, &["torus", "tun", "--json"]);
        command.arg(self.status(host).with_extension("processes"));
        self.tunnels.push(command.spawn().unwrap());
    }

    /// What `work` returns in the namespace of a host.
    fn within<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.namespace(host))).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            moved.join().unwrap()
        })
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain(&mut self.tunnels) {
            let _killed = child.kill();
            let _reaped = child.wait();
        }
        for host in 0..HOSTS {
            let _gone = ip(&format!("netns delete {}", self.namespace(host)));
        }
    }
}

/// Waits until `try_it` gives something.
fn patiently<T>(what: &str, mut try_it: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(it) = try_it() {
            return it;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_connection_of_programs_that_know_nothing_of_it_survives_a_cut_cable() {
    let mut ring = match Ring::lay() {
        Ok(ring) => ring,
        Err(why) => return skipped("IP over a torus of namespaces", why),
    };
    let addresses: Vec<Ipv4Addr> = (0..2).map(|host| ring.address(host)).collect();
    (0..2).for_each(|host| ring.carry(host));
    let listener = patiently("no device", || {
        ring.within(1, || TcpListener::bind(SocketAddrV4::new(addresses[1], 7)).ok())
    });
    let echo = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut bytes = vec![0; 1 << 16];
        while let Ok(length @ 1..) = stream.read(&mut bytes) {
            stream.write_all(&bytes[..length]).unwrap();
        }
    });
    let mut stream = patiently("no connection", || {
        ring.within(0, || TcpStream::connect(SocketAddrV4::new(addresses[1], 7)).ok())
    });
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    for round in 0..60u32 {
        if round == 20 {
            ip(&format!("-n {} link set east down", ring.namespace(0))).unwrap();
        }
        let sent: Vec<u8> = (0..100_000u32).map(|at| (at * 7 + round) as u8).collect();
        stream.write_all(&sent).unwrap();
        let mut got = vec![0; sent.len()];
        stream.read_exact(&mut got).unwrap();
        assert!(got == sent, "round {round} comes back changed");
    }
    drop(stream);
    echo.join().unwrap();
    let mut tunnel = ring.tunnels.remove(0);
    let id = tunnel.id().to_string();
    assert!(Command::new("kill").args(["-s", "INT", &id]).status().unwrap().success());
    assert_eq!(tunnel.wait().unwrap().code(), Some(130));
    let mut told = String::new();
    tunnel.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    let counters: Value = serde_json::from_str(&told).unwrap();
    assert!(counters["sent_bytes"].as_u64().unwrap() > 6_000_000, "{told}");
    assert!(counters["delivered_bytes"].as_u64().unwrap() > 6_000_000, "{told}");
    assert_eq!((&counters["malformed"], &counters["refused"]), (&0.into(), &0.into()), "{told}");
}
