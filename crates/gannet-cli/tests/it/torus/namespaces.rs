//! Hosts of a torus, each in a network namespace of its own, with virtual cables between them.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use serde_json::Value;

use super::node::key;

pub const HOSTS: usize = 3;

/// How the ends of cables are named.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Ends {
    /// By addresses of both.
    Addresses,
    /// By interfaces, which have no addresses but those of the link.
    Interfaces,
}

/// Three hosts in a ring, `east` of each leading to `west` of the next one; taken down when dropped.
pub struct Ring {
    directory: tempfile::TempDir,
    name: String,
    pub nodes: Vec<Child>,
    /// What runs beside the nodes, in the order of its start.
    pub programs: Vec<Child>,
}

/// What `ip` says to arguments that are split at spaces.
pub fn ip(arguments: &str) -> Result<String, String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("no program `ip`: {error}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    output
        .status
        .success()
        .then_some(said)
        .ok_or_else(|| format!("ip {arguments}: {}", told.trim()))
}

impl Ring {
    /// Lays the cables and starts the nodes, or says why this process may not.
    pub fn lay(ends: Ends) -> Result<Self, String> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let directory = tempfile::tempdir().unwrap();
        let name = format!("gannet-{}-{count}", process::id());
        let mut ring = Self { directory, name, nodes: Vec::new(), programs: Vec::new() };
        key(ring.directory.path(), "key", 0o600);
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
                if ends == Ends::Addresses {
                    ip(&format!("-n {namespace} address add {}/30 dev {device}", address(end)))?;
                }
                ip(&format!("-n {namespace} link set {device} mtu 9000 up"))?;
            }
            if ends == Ends::Addresses {
                ports[from].push(format!("{}:4700={}:4700", address(1), address(2)));
                ports[to].push(format!("{}:4700={}:4700", address(2), address(1)));
            } else {
                ports[from].push("east".into());
                ports[to].push("west".into());
            }
        }
        for (host, ports) in ports.iter().enumerate() {
            let node = ring.node(host, ports);
            ring.nodes.push(node);
        }
        Ok(ring)
    }

    /// Starts the node of a host.
    pub fn node(&self, host: usize, ports: &[String]) -> Child {
        let mut command = self.gannet(host, &["torus", "node", "--settle", "500 ms"]);
        command.args(["--watchdog", "400 ms", "--name", &format!("n{host}"), "--key"]);
        command.arg(self.directory.path().join("key")).arg("--status").arg(self.status(host));
        ports.iter().for_each(|port| _ = command.args(["--port", port]));
        command.spawn().unwrap()
    }

    pub fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    pub fn status(&self, host: usize) -> PathBuf {
        self.directory.path().join(format!("n{host}"))
    }

    /// The program under test, in the namespace of a host.
    pub fn gannet(&self, host: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.namespace(host), env!("CARGO_BIN_EXE_gannet")]);
        command.args(arguments).stdout(Stdio::piped()).stderr(Stdio::null());
        command
    }

    /// The address of a host in the machine, once all is well there.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        patiently("no machine", || {
            let output =
                self.gannet(host, &["torus", "status", "--json"]).arg(self.status(host)).output();
            let status: Value = serde_json::from_slice(&output.unwrap().stdout).unwrap_or_default();
            let is_well = status["faults"].as_array().is_some_and(Vec::is_empty);
            let place = status["place"].as_array().filter(|_| is_well)?;
            let octet = |at: usize| place[at].as_u64().unwrap() as u8 + 1;
            Some(Ipv4Addr::new(10, octet(0), octet(1), octet(2)))
        })
    }

    /// What `work` returns in the namespace of a host.
    pub fn within<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> T {
        thread::scope(|scope| {
            let moved = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.namespace(host))).unwrap();
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                work()
            });
            moved.join().unwrap()
        })
    }

    /// A connection from host 0 to host 1, which sends back what it gets, on a thread that ends with it.
    pub fn echo(&self, addresses: &[Ipv4Addr]) -> (TcpStream, JoinHandle<()>) {
        let at = SocketAddrV4::new(addresses[1], 7);
        let listener = patiently("no address", || self.within(1, || TcpListener::bind(at).ok()));
        let echo = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; 1 << 16];
            while let Ok(length @ 1..) = stream.read(&mut bytes) {
                stream.write_all(&bytes[..length]).unwrap();
            }
        });
        let stream = patiently("no connection", || self.within(0, || TcpStream::connect(at).ok()));
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        (stream, echo)
    }

    /// Bytes of a connection of host 0 come back from host 1 unchanged, all the while, although the cable between the two is cut in
    /// between.
    pub fn echo_over_a_cut_cable(&self, addresses: &[Ipv4Addr]) {
        let (mut stream, echo) = self.echo(addresses);
        for round in 0..60 {
            if round == 20 {
                ip(&format!("-n {} link set east down", self.namespace(0))).unwrap();
            }
            there_and_back(&mut stream, round);
        }
        drop(stream);
        echo.join().unwrap();
    }
}

/// Bytes of a round come back over a connection unchanged.
pub fn there_and_back(stream: &mut TcpStream, round: u32) {
    let sent: Vec<u8> = (0..100_000u32).map(|at| (at * 7 + round) as u8).collect();
    stream.write_all(&sent).unwrap();
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).unwrap();
    assert!(got == sent, "round {round} comes back changed");
}

impl Drop for Ring {
    fn drop(&mut self) {
        for child in self.nodes.iter_mut().chain(&mut self.programs) {
            let _killed = child.kill();
            let _reaped = child.wait();
        }
        for host in 0..HOSTS {
            let _gone = ip(&format!("netns delete {}", self.namespace(host)));
        }
    }
}

/// Sends a signal to a program.
pub fn signal(child: &Child, signal: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
}

/// Waits until `try_it` gives something.
pub fn patiently<T>(what: &str, mut try_it: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(it) = try_it() {
            return it;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        thread::sleep(Duration::from_millis(50));
    }
}
