//! Hosts on threads of their own, joined by sockets and by cables in memory: they find each other, reach each other, and
//! go on when something dies.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_lattice::{Direction, Lattice, Node};
use gannet_torus_live::identity::Key;
use gannet_torus_live::member::{Member, Setup};
use gannet_torus_live::memory;
use gannet_torus_live::status::{Memory, Status};
use gannet_torus_live::users::Users;
use gannet_torus_live::{Driver, Host, Patience, Port};
use gannet_wire::neighbour::{HostId, Name};

use crate::conformance::over_udp;

const PATIENCE: Patience = Patience { watchdog_ns: 200_000_000, spin_ns: 0 };

/// What a host said last, how often it had a look at its ports, and whether it is to stop.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    steps: AtomicU64,
    status: Mutex<Status>,
}

pub struct Running {
    shared: Arc<Shared>,
    thread: JoinHandle<()>,
}

fn host(number: usize, ports: &[Box<dyn Port + Send>]) -> Host {
    let frames = ports.iter().map(|port| port.frame_bytes());
    let named = frames.enumerate().map(|(at, bytes)| (Name::of(&format!("p{at}")), bytes));
    let setup = Setup {
        host: HostId(number as u64 + 1),
        life: 1,
        name: Name::of(&format!("n{number:02}")),
        ports: named.collect(),
        services: Vec::new(),
        key: Key([1; 32]),
        protects: number.is_multiple_of(2),
        watchdog_ns: PATIENCE.watchdog_ns,
        lattice: None,
        settle_ns: 300_000_000,
    };
    let window = ports.iter().map(|port| port.window_bytes()).min().unwrap();
    Host::new(Member::new(setup), PATIENCE, window)
}

fn start(number: usize, ports: Vec<Box<dyn Port + Send>>) -> Running {
    let host = host(number, &ports);
    start_host(host, ports)
}

fn start_host(host: Host, ports: Vec<Box<dyn Port + Send>>) -> Running {
    let mut driver = Driver::new(host, PATIENCE.spin_ns);
    for (at, port) in ports.into_iter().enumerate() {
        driver.plug(at, port);
    }
    let shared = Arc::new(Shared::default());
    let thread = thread::spawn({
        let shared = Arc::clone(&shared);
        move || {
            let (mut memory, mut told) = (Memory::default(), Instant::now());
            while !shared.stop.load(Ordering::Relaxed) {
                shared.steps.fetch_add(1, Ordering::Relaxed);
                if !driver.step() {
                    driver.wait(Duration::from_millis(10)).unwrap();
                }
                if told.elapsed() > Duration::from_millis(50) {
                    told = Instant::now();
                    *shared.status.lock().unwrap() = Status::of(&driver, &mut memory);
                }
            }
        }
    });
    Running { shared, thread }
}

type Ends = (Box<dyn Port + Send>, Box<dyn Port + Send>);

/// Hosts of a lattice, with the cables that `cable` makes.
fn machine(lattice: &str, cable: impl FnMut() -> Ends) -> Vec<Running> {
    let ports = cabled(lattice, cable);
    ports.into_iter().enumerate().map(|(number, ports)| start(number, ports)).collect()
}

/// Hosts of a lattice over cables in memory, whose users find them at `n00`, `n01` and so on in `directory`.
pub fn machine_with_users(lattice: &str, directory: &Path) -> Vec<Running> {
    let ports = cabled(lattice, || {
        let (near, far) = memory::cable(8972, 64).unwrap();
        (Box::new(near), Box::new(far))
    });
    let start = |(number, ports): (usize, Vec<Box<dyn Port + Send>>)| {
        let users = Users::listen(&directory.join(format!("n{number:02}"))).unwrap();
        start_host(host(number, &ports).with_users(users), ports)
    };
    ports.into_iter().enumerate().map(start).collect()
}

/// The ports of each host of a lattice.
fn cabled(lattice: &str, mut cable: impl FnMut() -> Ends) -> Vec<Vec<Box<dyn Port + Send>>> {
    let lattice: Lattice = lattice.parse().unwrap();
    let mut ports: Vec<Vec<Box<dyn Port + Send>>> = lattice.all().map(|_| Vec::new()).collect();
    for it in lattice.cables() {
        let (near, far) = cable();
        let other: Node = lattice.neighbour(it.from, Direction::of(it.dimension, true));
        ports[it.from.index()].push(near);
        ports[other.index()].push(far);
    }
    ports
}

pub fn wait_for(hosts: &[&Running], what: &str, is_it: impl Fn(&Status) -> bool) {
    let begin = Instant::now();
    loop {
        let statuses: Vec<Status> =
            hosts.iter().map(|host| host.shared.status.lock().unwrap().clone()).collect();
        if statuses.iter().all(&is_it) {
            return;
        }
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: {}", statuses[0]);
        thread::sleep(Duration::from_millis(20));
    }
}

pub fn stop(hosts: Vec<Running>) {
    for host in &hosts {
        host.shared.stop.store(true, Ordering::Relaxed);
    }
    hosts.into_iter().for_each(|host| host.thread.join().unwrap());
}

/// How many nodes have answered, but for the one that asks.
fn answered(status: &Status) -> usize {
    status.nodes.iter().filter(|node| node.answered > 0).count()
}

#[test]
fn hosts_over_sockets_make_a_machine_in_which_each_reaches_each() {
    let hosts = machine("2x2", over_udp);
    let all: Vec<&Running> = hosts.iter().collect();
    wait_for(&all, "a machine", |status| status.lattice.as_deref() == Some("2x2x1"));
    wait_for(&all, "answers", |status| answered(status) == 3 && status.faults.is_empty());
    let status = hosts[2].shared.status.lock().unwrap().clone();
    assert_eq!((status.host.as_str(), status.master.as_str()), ("n02", "n00"));
    assert!(status.ports.iter().all(|port| port.link_up && port.state == "up"), "{status}");
    let text = status.to_string();
    assert!(text.contains("--n01--\n") && text.contains("nothing is wrong"), "{text}");
    let json = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&json).unwrap(), status);
    stop(hosts);
}

#[test]
fn hosts_that_lack_a_cable_sleep() {
    let mut ports = cabled("3x2", over_udp);
    // The first cable has an end at the first port of either host.
    ports[0].remove(0);
    ports[1].remove(0);
    let hosts: Vec<Running> =
        ports.into_iter().enumerate().map(|(number, ports)| start(number, ports)).collect();
    let all: Vec<&Running> = hosts.iter().collect();
    wait_for(&all, "a machine", |status| answered(status) == 5 && status.faults.len() == 1);
    let steps = || all.iter().map(|host| host.shared.steps.load(Ordering::Relaxed)).max().unwrap();
    let before = steps();
    thread::sleep(Duration::from_secs(1));
    // Beats of three ports, calls and probes: some hundreds. A host that does not sleep makes hundreds of thousands.
    assert!(steps() - before < 5000, "{} steps in a second", steps() - before);
    stop(hosts);
}

#[test]
fn others_go_on_when_a_cable_and_a_host_die() {
    let mut ways = Vec::new();
    let mut hosts = machine("3x2", || {
        let (a, b) = memory::cable(1472, 64).unwrap();
        ways.push([a.way(), b.way()]);
        (Box::new(a), Box::new(b))
    });
    let all: Vec<&Running> = hosts.iter().collect();
    wait_for(&all, "a machine", |status| answered(status) == 5 && status.faults.is_empty());
    ways[0].iter().for_each(|way| way.set(true));
    let says = |status: &Status, what: &str| status.faults.iter().any(|it| it.text.contains(what));
    wait_for(&all, "a cut cable", |status| says(status, "carries nothing"));
    let before: u64 = all[0].shared.status.lock().unwrap().nodes.iter().map(|it| it.answered).sum();
    let more = |status: &Status| {
        status.host != "n00"
            || status.nodes.iter().map(|it| it.answered).sum::<u64>() >= before + 10
    };
    wait_for(&all, "answers by other ways", more);
    ways[0].iter().for_each(|way| way.set(false));
    wait_for(&all, "the cable again", |status| status.faults.is_empty());
    // The master, of all hosts.
    let first = hosts.remove(0);
    stop(vec![first]);
    let rest: Vec<&Running> = hosts.iter().collect();
    wait_for(&rest, "another master", |status| {
        status.master == "n01" && says(status, "n00 at ") && says(status, "cannot be reached")
    });
    stop(hosts);
}
