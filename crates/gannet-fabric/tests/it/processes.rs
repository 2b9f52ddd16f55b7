//! Endpoints of two processes, one of which is killed.

use std::env;
use std::ffi::OsString;
use std::net::ToSocketAddrs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use gannet_fabric::shm::{self, Shm};
use gannet_fabric::udp::Udp;
use gannet_fabric::{
    Completion, Endpoint, Failure, JoinError, Level, Local, Opening, Peer, Put, Remote, Trust, tcp,
};
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};

use crate::conformance::REGION;
use crate::ofi;
use crate::shm::limits;
use crate::udp::{loopback, secret};

/// Where a process that a test starts finds its partner. The partner runs the same test, which then is the
/// other side of it.
const PARTNER: &str = "GANNET_FABRIC_PARTNER";

/// Puts until it is killed.
fn put_on(mut endpoint: impl Endpoint, peer: Peer) {
    let (mut told, mut key, begin) = (Vec::with_capacity(64), None, Instant::now());
    for immediate in 0.. {
        endpoint.progress(begin.elapsed().as_nanos() as u64);
        told.clear();
        endpoint.poll(&mut told);
        for completion in &told {
            match completion {
                Completion::WindowOpened { window, .. } => key = Some(window.key),
                Completion::Left { .. } => return,
                _ => {}
            }
        }
        if let Some(key) = key {
            let source = Local { region: REGION, offset: 0 };
            let target = Remote { peer, key, offset: 0 };
            let _ = endpoint.put_notify(&Put { source, target, bytes: 64 }, immediate);
        }
    }
}

fn with_a_region<E: Endpoint>(mut endpoint: E) -> E {
    endpoint.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    endpoint
}

fn partner(test: &str, place: &str) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([&format!("processes::{test}"), "--exact", "--nocapture"])
        .env(PARTNER, place)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn over_ofi(provider: &'static str, test: &str, seed: u64) {
    let Some(library) = ofi::library(test) else { return };
    let endpoint = || with_a_region(ofi::endpoint(&library, provider, Level::Placed));
    if let Ok(address) = env::var(PARTNER) {
        let mut endpoint = endpoint();
        let peer = endpoint.connect(&*address, &secret()).unwrap();
        return put_on(endpoint, peer);
    }
    let mut random = Random::new(seed);
    for _ in 0..rounds() {
        let listener = tcp::Listener::bind(loopback()).unwrap();
        let child = partner(test, &listener.address().unwrap().to_string());
        let process = child.id();
        let endpoint = kill(endpoint(), child, &mut random, |it| it.accept(&listener, &secret()));
        assert_eq!(endpoint.counters().refused, 0);
        let left = std::fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap().file_name());
        let is_its = |name: &OsString| name.to_string_lossy().starts_with(&format!("{process}:"));
        assert_eq!(left.into_iter().find(is_its), None);
    }
}

#[test]
fn who_is_killed_is_told_to_have_left_over_tcp_of_libfabric() {
    over_ofi("tcp", "who_is_killed_is_told_to_have_left_over_tcp_of_libfabric", 11);
}

#[test]
fn who_is_killed_is_told_to_have_left_over_shm_of_libfabric() {
    over_ofi("shm", "who_is_killed_is_told_to_have_left_over_shm_of_libfabric", 12);
}

/// Kills the partner at a random moment; gives the endpoint that was told so.
fn kill<E: Endpoint>(
    mut endpoint: E,
    mut child: Child,
    random: &mut Random,
    mut accept: impl FnMut(&mut E) -> Result<Peer, JoinError>,
) -> E {
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: 64, access: Access::Write, label: 0 };
    endpoint.open_window(&opening).unwrap();
    // A process takes its time to start; it is the exchange that has a deadline.
    let peer = loop {
        match accept(&mut endpoint) {
            Ok(peer) => break peer,
            Err(error) => assert!(child.try_wait().unwrap().is_none(), "{error}"),
        }
    };
    let (mut told, begin) = (Vec::with_capacity(64), Instant::now());
    let kill_after = Duration::from_micros(random.below(20_000));
    let (mut killed, mut notified) = (None, 0u64);
    let failure = 'run: loop {
        endpoint.progress(begin.elapsed().as_nanos() as u64);
        told.clear();
        endpoint.poll(&mut told);
        for completion in &told {
            match completion {
                Completion::Notified { .. } => notified += 1,
                Completion::Left { peer: left, failure } if *left == peer => break 'run *failure,
                other => panic!("{other:?}"),
            }
        }
        if killed.is_none() && begin.elapsed() > kill_after {
            child.kill().unwrap();
            killed = Some(Instant::now());
        }
        if let Some(killed) = killed {
            assert!(killed.elapsed() < 20 * limits().deadline, "{notified} events");
        }
    };
    assert_eq!(failure, Failure::Ended);
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    endpoint
}

fn rounds() -> usize {
    if env::var_os("GANNET_LONG").is_some() { 200 } else { 20 }
}

#[test]
fn who_is_killed_is_told_to_have_left_over_shared_memory() {
    if let Some(path) = env::var_os(PARTNER) {
        let mut endpoint = with_a_region(Shm::new(limits()));
        let peer = endpoint.connect(Path::new(&path), &Trust::SameUser).unwrap();
        return put_on(endpoint, peer);
    }
    let mut random = Random::new(9);
    let directory = tempfile::tempdir().unwrap();
    for _ in 0..rounds() {
        let path = directory.path().join("fabric.sock");
        let listener = shm::Listener::bind(&path).unwrap();
        let test = "who_is_killed_is_told_to_have_left_over_shared_memory";
        let child = partner(test, path.to_str().unwrap());
        let endpoint = with_a_region(Shm::new(limits()));
        let endpoint = kill(endpoint, child, &mut random, |endpoint| {
            endpoint.accept(&listener, &Trust::SameUser)
        });
        assert_eq!(endpoint.counters().refused, 0);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn who_is_killed_is_told_to_have_left_over_udp() {
    if let Ok(address) = env::var(PARTNER) {
        let mut endpoint = with_a_region(Udp::bind(&loopback(), limits()).unwrap());
        let address = address.to_socket_addrs().unwrap().next().unwrap();
        let peer = endpoint.connect(address, &secret()).unwrap();
        return put_on(endpoint, peer);
    }
    let mut random = Random::new(10);
    for _ in 0..rounds() {
        let listener = tcp::Listener::bind(loopback()).unwrap();
        let place = listener.address().unwrap().to_string();
        let child = partner("who_is_killed_is_told_to_have_left_over_udp", &place);
        let endpoint = with_a_region(Udp::bind(&loopback(), limits()).unwrap());
        let endpoint =
            kill(endpoint, child, &mut random, |endpoint| endpoint.accept(&listener, &secret()));
        assert_eq!(endpoint.counters().refused, 0);
    }
}
