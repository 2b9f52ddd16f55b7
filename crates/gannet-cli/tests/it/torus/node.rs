//! `gannet torus node` and `gannet torus status`: hosts in processes of their own, on loopback.

use std::fs::{self, Permissions};
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::slice;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::torus::text;

/// A machine of hosts on this one, killed when this is dropped.
pub struct Hosts {
    directory: tempfile::TempDir,
    children: Vec<Child>,
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _killed = child.kill();
            let _reaped = child.wait();
        }
    }
}

pub fn key(directory: &Path, name: &str, mode: u32) -> PathBuf {
    let path = directory.join(name);
    fs::write(&path, format!("a secret that nobody guesses: {name}")).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

fn node(directory: &Path, key: &Path, name: &str, ports: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(["torus", "node", "--name", name, "--settle", "500 ms", "--watchdog", "400 ms"]);
    command.arg("--key").arg(key).arg("--status").arg(directory.join(name));
    ports.iter().for_each(|port| _ = command.args(["--port", port]));
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

/// An address of this process alone.
fn address(host: usize) -> Ipv4Addr {
    let [low, high, ..] = std::process::id().to_le_bytes();
    Ipv4Addr::new(127, high, low, 100 + host as u8)
}

/// The cable from one host to another, as each of them names it; more than one has a number of its own.
fn cable(from: usize, to: usize, number: u16) -> [String; 2] {
    let port = 4700 + number;
    let (from, to) = (address(from), address(to));
    [format!("{from}:{port}={to}:{port}"), format!("{to}:{port}={from}:{port}")]
}

impl Hosts {
    /// So many in a ring, at addresses of this number on.
    pub fn ring(first: usize, hosts: usize) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let key = key(directory.path(), "key", 0o600);
        let mut ports = vec![Vec::new(); hosts];
        for from in 0..hosts {
            let to = (from + 1) % hosts;
            let [near, far] = cable(first + from, first + to, from as u16);
            ports[from].push(near);
            ports[to].push(far);
        }
        let start = |(host, ports): (usize, &Vec<String>)| {
            let mut child =
                node(directory.path(), &key, &format!("n{host}"), ports).spawn().unwrap();
            // What it says must not fill the pipe.
            let mut said = child.stderr.take().unwrap();
            thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
            child
        };
        let children = ports.iter().enumerate().map(start).collect();
        Self { directory, children }
    }

    /// Waits until all of them are one machine, of this lattice.
    pub fn become_a_machine(&self, lattice: &str) {
        let others = self.children.len() - 1;
        for host in 0..self.children.len() {
            self.wait_for(host, "a machine", |it| {
                it["lattice"] == lattice && answered(it) == others
            });
        }
    }

    /// The socket of a host for processes.
    pub fn processes(&self, host: usize) -> PathBuf {
        self.directory.path().join(format!("n{host}.processes"))
    }

    fn ask(&self, host: usize, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
        command.args(["torus", "status"]).arg(self.directory.path().join(format!("n{host}")));
        command.args(arguments).output().unwrap()
    }

    /// What a host says once it says what is wanted.
    fn wait_for(&self, host: usize, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let output = self.ask(host, &["--json"]);
            match serde_json::from_slice(&output.stdout) {
                Ok(status) if is_it(&status) => return status,
                status => assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {status:?}"),
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    fn signal(&self, host: usize, signal: &str) {
        let id = self.children[host].id().to_string();
        assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
    }
}

fn answered(status: &Value) -> usize {
    let nodes = status["nodes"].as_array().unwrap();
    nodes.iter().filter(|node| node["answered"].as_u64().unwrap() > 0).count()
}

fn faults(status: &Value) -> String {
    let faults = status["faults"].as_array().unwrap();
    faults.iter().map(|fault| fault["text"].as_str().unwrap()).collect::<Vec<_>>().join("; ")
}

#[test]
fn hosts_become_a_machine_and_tell_who_hangs_who_dies_and_who_is_back() {
    let mut hosts = Hosts::ring(0, 4);
    for host in 0..4 {
        let status =
            hosts.wait_for(host, "a machine", |it| it["lattice"] == "4x1x1" && answered(it) == 3);
        assert_eq!(status["host"], format!("n{host}"));
    }
    hosts.wait_for(0, "nothing wrong", |it| faults(it).is_empty());
    let output = hosts.ask(0, &[]);
    let told = text(&output.stdout);
    assert!(told.contains("of 4x1x1") && told.contains("nothing is wrong"), "{told}");
    // One that hangs, and goes on.
    hosts.signal(2, "STOP");
    hosts.wait_for(0, "who hangs", |it| {
        faults(it).contains("n2 at ") && faults(it).contains("cannot be reached")
    });
    assert_eq!(hosts.ask(0, &[]).status.code(), Some(3));
    hosts.signal(2, "CONT");
    for host in [0, 2] {
        hosts.wait_for(host, "all again", |it| faults(it).is_empty());
    }
    // One that dies, of which nothing is left in the way of its next life.
    hosts.children[1].kill().unwrap();
    hosts.children[1].wait().unwrap();
    hosts.wait_for(3, "who died", |it| faults(it).contains("n1 at "));
    let ports = [cable(0, 1, 0)[1].clone(), cable(1, 2, 1)[0].clone()];
    let key = hosts.directory.path().join("key");
    let again =
        node(hosts.directory.path(), &key, "n1", &ports).stderr(Stdio::null()).spawn().unwrap();
    hosts.children[1] = again;
    for host in [0, 1] {
        hosts.wait_for(host, "all once more", |it| {
            it["lattice"] == "4x1x1" && faults(it).is_empty() && answered(it) == 3
        });
    }
    // A clean stop leaves no socket.
    hosts.signal(3, "INT");
    assert_eq!(hosts.children[3].wait().unwrap().code(), Some(130));
    assert!(!hosts.directory.path().join("n3").exists());
    assert_eq!(hosts.ask(3, &[]).status.code(), Some(5));
}

#[test]
fn a_host_that_no_cable_reaches_is_heard_over_the_service_network() {
    let directory = tempfile::tempdir().unwrap();
    let (path, key) = (directory.path().to_owned(), key(directory.path(), "key", 0o600));
    let [[near, a], [b, c], [d, far]] = [cable(40, 41, 70), cable(41, 42, 71), cable(42, 40, 72)];
    let service = cable(40, 41, 75);
    let start = |name: &str, ports: [&String; 2], service: Option<&String>| {
        let mut command = node(&path, &key, name, &ports.map(String::clone));
        service.iter().for_each(|path| _ = command.args(["--service", path]));
        command.stderr(Stdio::null()).spawn().unwrap()
    };
    let children = vec![
        start("n0", [&near, &far], Some(&service[0])),
        start("n1", [&a, &b], Some(&service[1])),
        start("n2", [&c, &d], None),
    ];
    let mut hosts = Hosts { directory, children };
    hosts.become_a_machine("3x1x1");
    hosts.children[1].kill().unwrap();
    hosts.children[1].wait().unwrap();
    hosts.wait_for(2, "who died", |it| faults(it).contains("cannot be reached"));
    // Its cables are plugged in elsewhere in its next life.
    let [nowhere, _] = cable(41, 47, 77);
    let [nobody, _] = cable(41, 48, 78);
    hosts.children[1] = start("n1", [&nowhere, &nobody], Some(&service[1]));
    for host in [0, 2] {
        hosts.wait_for(host, "who lives", |it| {
            let n1 = it["nodes"].as_array().unwrap().iter().find(|node| node["host"] == "n1");
            faults(it).contains("lives, as the service network tells, but no cable reaches it")
                && n1.is_some_and(|node| node["astray"] == true && node["alive"] == false)
        });
    }
    let output = hosts.ask(0, &[]);
    let said = text(&output.stdout);
    assert!(said.contains("heard over the service network"), "{said}");
    assert!(said.lines().any(|line| line.contains("s0") && line.contains("n1 port s0")), "{said}");
}

#[test]
fn a_host_of_a_name_that_the_machine_has_is_turned_away() {
    let mut hosts = Hosts::ring(80, 4);
    hosts.become_a_machine("4x1x1");
    // By then n1 is known as a part of it.
    thread::sleep(Duration::from_secs(4));
    hosts.children[3].kill().unwrap();
    hosts.children[3].wait().unwrap();
    let ports = [cable(82, 83, 2)[1].clone(), cable(83, 80, 3)[0].clone()];
    let (key, elsewhere) = (hosts.directory.path().join("key"), tempfile::tempdir().unwrap());
    hosts.children[3] = node(elsewhere.path(), &key, "n1", &ports).spawn().unwrap();
    let begin = Instant::now();
    while hosts.children[3].try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it stays");
        thread::sleep(Duration::from_millis(50));
    }
    let mut said = String::new();
    hosts.children[3].stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("has another host n1: start this one with a name of its own"), "{said}");
    assert_eq!(hosts.children[3].wait().unwrap().code(), Some(5));
    assert!(!elsewhere.path().join("n1").exists());
    for host in 0..3 {
        hosts.wait_for(host, "only the one that died is missing", |it| {
            it["lattice"] == "4x1x1"
                && faults(it).starts_with("n3 at ")
                && !faults(it).contains(';')
        });
    }
}

#[test]
fn who_watches_ends_when_nobody_reads() {
    let hosts = Hosts::ring(70, 2);
    hosts.become_a_machine("2x1x1");
    for arguments in [&["--watch"][..], &["--watch", "--json"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
        command.args(["torus", "status"]).arg(hosts.directory.path().join("n0")).args(arguments);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(child.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn a_host_with_another_key_is_told_and_takes_no_part() {
    let directory = tempfile::tempdir().unwrap();
    let [near, far] = cable(10, 11, 50);
    let keys = ["one", "other"].map(|name| key(directory.path(), name, 0o600));
    let start = |name: &str, key: &Path, port: String| {
        node(directory.path(), key, name, &[port]).stderr(Stdio::null()).spawn().unwrap()
    };
    let children = vec![start("n0", &keys[0], near), start("n1", &keys[1], far)];
    let hosts = Hosts { directory, children };
    // The one that is shown the wrong key says so.
    let begin = Instant::now();
    loop {
        let statuses = [0, 1].map(|host| {
            let output = hosts.ask(host, &["--json"]);
            serde_json::from_slice::<Value>(&output.stdout).unwrap_or_default()
        });
        let lattices = statuses.iter().filter(|it| it["lattice"].is_string()).count();
        assert_eq!(lattices, 0, "{statuses:?}");
        if statuses.iter().any(|it| it.is_object() && faults(it).contains("has another key")) {
            break;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{statuses:?}");
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn what_cannot_be_used_is_refused_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let good = key(directory.path(), "good", 0o600);
    let open = key(directory.path(), "open", 0o644);
    let [port, _] = cable(20, 21, 90);
    let refused = |key: &Path, ports: &[String], code: i32| {
        let output = node(directory.path(), key, "n0", ports).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    assert!(refused(&open, slice::from_ref(&port), 4).contains("chmod 600"));
    assert!(
        refused(&directory.path().join("none"), slice::from_ref(&port), 4)
            .contains("cannot read the secret")
    );
    assert!(refused(&good, &["10.0.0.1:1".into()], 2).contains("is no end of a cable"));
    let said = refused(&good, &["no-such".into()], 5);
    assert!(said.contains("n0 port no-such: there is no such interface"), "{said}");
    assert!(refused(&good, &[], 2).contains("--port"));
    assert!(
        refused(&good, &[port.clone(), port.clone()], 2)
            .contains("each cable has an end of its own")
    );
    let precious = directory.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let output = node(directory.path(), &good, "n0", slice::from_ref(&port))
        .arg("--processes")
        .arg(&precious)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("precious is there and is no socket"));
    assert_eq!(fs::read(&precious).unwrap(), b"data");
    let output = node(directory.path(), &good, "n0", slice::from_ref(&port))
        .args(["--service", "eth0"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("is no path of the service network"));
    let nowhere = "203.0.113.7:4700=203.0.113.8:4700".to_owned();
    let said = refused(&good, &[nowhere], 5);
    assert!(said.contains("203.0.113.7:4700 to 203.0.113.8:4700"), "{said}");
    assert!(said.contains("203.0.113.7 has to be an address of this host"), "{said}");
    let same = directory.path().join("n0");
    let output = node(directory.path(), &good, "n0", slice::from_ref(&port))
        .arg("--processes")
        .arg(&same)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("--status and --processes are both"));
    let output = Command::new(env!("CARGO_BIN_EXE_gannet"))
        .args(["torus", "status"])
        .env("XDG_RUNTIME_DIR", directory.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("no node of a torus runs here"));
}
