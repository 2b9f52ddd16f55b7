//! Endpoints of the fabric over a torus, by the nodes of its hosts.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::tcp::{Joins, Listener};
use gannet_fabric::torus::Torus;
use gannet_fabric::{
    Completion, Endpoint, Failure, JoinError, Key, Level, Limits, Local, Opening, Peer, PostError,
    Put, RegionId, Remote, Trust,
};
use gannet_memory::{Access, SharedRegion};
use gannet_torus_live::user::User;

use crate::fabric_conformance::{Clock, PATIENCE, Pair, REGION, SUITE};
use crate::host::{Running, machine_with_users, stop};

fn limits() -> Limits {
    Limits { events: 64, deadline: Duration::from_secs(4), ..Limits::default() }
}

fn secret() -> Trust {
    Trust::Secret(b"gannets and terns".to_vec())
}

fn socket(directory: &Path, host: usize) -> PathBuf {
    directory.join(format!("n{host:02}"))
}

/// A machine whose hosts all have a place in it.
fn machine(lattice: &str, directory: &Path) -> Vec<Running> {
    let hosts = machine_with_users(lattice, directory);
    for host in 0..hosts.len() {
        let mut user = User::connect(&socket(directory, host), None).unwrap();
        let begin = Instant::now();
        while user.place().is_none() {
            assert!(begin.elapsed() < PATIENCE, "there is no machine");
            user.wait(Duration::from_millis(100)).unwrap();
        }
    }
    hosts
}

/// Two endpoints that use the nodes of these sockets.
fn joined(near: &Path, far: &Path, limits: &Limits) -> ((Torus, Peer), (Torus, Peer)) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let (far, far_limits) = (far.to_owned(), limits.clone());
    let far = thread::spawn(move || {
        let mut far = Torus::new(far, far_limits);
        let peer = far.accept(&listener, &secret()).unwrap();
        (far, peer)
    });
    let mut endpoint = Torus::new(near, limits.clone());
    let peer = endpoint.connect(address, &secret()).unwrap();
    ((endpoint, peer), far.join().unwrap())
}

fn pair(near: &Path, far: &Path, limits: &Limits) -> Pair {
    let ((near, far_peer), (far, near_peer)) = joined(near, far, limits);
    Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), Clock::real())
}

#[test]
fn conforms() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2x2", directory.path());
    let node = |host| socket(directory.path(), host);
    // Two hops away, and at one node.
    for (near, far) in [(node(0), node(3)), (node(1), node(1))] {
        for (name, test) in SUITE {
            println!("{name}");
            test(pair(&near, &far, &limits()));
        }
    }
    stop(hosts);
}

/// Lets both ends go on until one of them tells what is asked for.
fn wait(pair: &mut Pair, what: &str, is_it: impl Fn(&Completion) -> bool) -> Completion {
    let begin = Instant::now();
    let mut told = Vec::with_capacity(64);
    loop {
        pair.step();
        told.clear();
        pair.near.poll(&mut told);
        pair.far.poll(&mut told);
        if let Some(found) = told.iter().find(|it| is_it(it)) {
            return *found;
        }
        assert!(begin.elapsed() < PATIENCE, "{what}");
    }
}

#[test]
fn a_window_begins_anywhere_and_has_millions_of_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let node = |host| socket(directory.path(), host);
    let ((mut near, far_peer), (mut far, near_peer)) = joined(&node(0), &node(1), &limits());
    let bytes = 5_000_000u64;
    for endpoint in [&mut near, &mut far] {
        endpoint.add_region(SharedRegion::new(1 << 23).unwrap()).unwrap();
    }
    let sent: Vec<u8> = (0..bytes).map(|at| ((at * 31) >> 3) as u8).collect();
    near.region(REGION).write(3, &sent);
    assert_eq!(near.facts().done_is, Level::Placed);
    let start = Local { region: REGION, offset: 1_234_567 };
    let opening = Opening { start, bytes, access: Access::Write, label: 1 };
    let key = far.open_window(&opening).unwrap();
    let ends = ((Box::new(near) as Box<dyn Endpoint>, far_peer), (Box::new(far) as _, near_peer));
    let ((near, far_peer), (far, near_peer)) = ends;
    let mut pair = Pair { near, far, far_peer, near_peer, clock: Clock::real() };
    wait(&mut pair, "no window", |it| matches!(it, Completion::WindowOpened { .. }));
    let put = |offset, bytes| Put {
        source: Local { region: REGION, offset: 3 + offset },
        target: Remote { peer: far_peer, key, offset },
        bytes,
    };
    pair.near.put(&put(0, bytes / 2)).unwrap();
    pair.near.put_notify(&put(bytes / 2, bytes / 2), u32::MAX).unwrap();
    let notified = wait(&mut pair, "nothing told", |it| matches!(it, Completion::Notified { .. }));
    let (offset, bytes_told) = (bytes / 2, bytes / 2);
    let peer = near_peer;
    let immediate = u32::MAX;
    let expected = Completion::Notified { peer, key, offset, bytes: bytes_told, immediate };
    assert_eq!(notified, expected);
    let mut there = vec![0; bytes as usize];
    pair.far.region(REGION).read(1_234_567, &mut there);
    assert!(there == sent);
    stop(hosts);
}

#[test]
fn who_is_joined_to_several_of_one_node_knows_them_apart() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let node = |host| socket(directory.path(), host);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let far = node(1);
    let others = thread::spawn(move || {
        let join = |_| {
            let mut other = Torus::new(far.clone(), limits());
            other.add_region(SharedRegion::new(4096).unwrap()).unwrap();
            let peer = other.connect(address, &secret()).unwrap();
            (other, peer)
        };
        [0, 1].map(join)
    });
    let mut middle = Torus::new(node(0), limits());
    middle.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: 64, access: Access::Write, label: 1 };
    let key = middle.open_window(&opening).unwrap();
    let peers = [0, 1].map(|_| middle.accept(&listener, &secret()).unwrap());
    let [first, second] = others.join().unwrap();
    let begin = Instant::now();
    let (mut told, mut ended) = (Vec::with_capacity(64), Vec::with_capacity(64));
    let mut ends = [Some(first), Some(second)];
    let mut notified = [false; 2];
    while !notified.iter().all(|&it| it) || ended.is_empty() {
        for (number, end) in ends.iter_mut().enumerate() {
            let Some((endpoint, peer)) = end else { continue };
            endpoint.progress(begin.elapsed().as_nanos() as u64);
            told.clear();
            endpoint.poll(&mut told);
            for completion in told.drain(..) {
                match completion {
                    Completion::WindowOpened { window, .. } => {
                        let target = Remote { peer: *peer, key: window.key, offset: 8 };
                        let put = Put { source: start, target, bytes: 8 };
                        endpoint.put_notify(&put, number as u32).unwrap();
                    }
                    Completion::Done { outcome, .. } => assert_eq!(outcome, Ok(())),
                    other => panic!("{other:?}"),
                }
            }
        }
        middle.progress(begin.elapsed().as_nanos() as u64);
        middle.poll(&mut told);
        for completion in told.drain(..) {
            match completion {
                Completion::Notified { peer, immediate, key: window, .. } => {
                    assert_eq!((peer, window), (peers[immediate as usize], key));
                    notified[immediate as usize] = true;
                }
                Completion::Left { peer, .. } => ended.push(peer),
                other => panic!("{other:?}"),
            }
        }
        if notified[0] {
            // One that goes is nothing to the other.
            ends[0] = None;
        }
        assert!(begin.elapsed() < PATIENCE, "{notified:?}");
    }
    assert_eq!(ended, peers[..1]);
    stop(hosts);
}

/// An open window of the far end, and a PUT to its begin.
fn window(pair: &mut Pair) -> Put {
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: 4096, access: Access::Write, label: 1 };
    let key: Key = pair.far.open_window(&opening).unwrap();
    wait(pair, "no window", |it| matches!(it, Completion::WindowOpened { .. }));
    pair.put(0, key, 0, 8)
}

#[test]
fn none_is_missed_by_who_takes_few_at_a_time_and_sends_as_well() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let node = |host| socket(directory.path(), host);
    // More than find room at a node at once.
    const FRAMES: u32 = 20_000;
    let many = Limits { events: 1 << 14, ..limits() };
    let mut pair = pair(&node(0), &node(1), &many);
    let there = window(&mut pair);
    let start = Local { region: REGION, offset: 8192 };
    let opening = Opening { start, bytes: 64, access: Access::Write, label: 2 };
    let here = pair.near.open_window(&opening).unwrap();
    wait(&mut pair, "no window", |it| matches!(it, Completion::WindowOpened { .. }));
    let source = Local { region: REGION, offset: 0 };
    let back =
        Put { source, target: Remote { peer: pair.near_peer, key: here, offset: 0 }, bytes: 8 };
    let (mut posted, mut taken, mut begin) = (0, 0, Instant::now());
    let mut told = Vec::with_capacity(256);
    while taken < FRAMES {
        // As many as find room, before any is taken.
        while posted < FRAMES && pair.near.put_notify(&there, posted).is_ok() {
            posted += 1;
        }
        while pair.far.put_notify(&back, 0).is_ok() {}
        pair.step();
        told.clear();
        pair.near.poll(&mut told);
        assert!(!told.iter().any(|it| matches!(it, Completion::Left { .. })), "{told:?}");
        let mut few = Vec::with_capacity(7);
        pair.far.poll(&mut few);
        for completion in few {
            match completion {
                Completion::Notified { immediate, .. } => {
                    assert_eq!(immediate, taken);
                    taken += 1;
                    begin = Instant::now();
                }
                Completion::Done { outcome, .. } => assert_eq!(outcome, Ok(())),
                other => panic!("{other:?}"),
            }
        }
        assert!(begin.elapsed() < PATIENCE, "{taken} of {posted}");
    }
    stop(hosts);
}

#[test]
fn endpoints_are_given_up_when_a_node_ends() {
    for ends_here in [true, false] {
        let directory = tempfile::tempdir().unwrap();
        let mut hosts = machine("2", directory.path());
        let node = |host| socket(directory.path(), host);
        let mut pair = pair(&node(0), &node(1), &limits());
        let put = window(&mut pair);
        stop(vec![hosts.remove(usize::from(!ends_here))]);
        // What was posted fails, and the other end is told to have left, at both ends.
        let _ = pair.near.put_notify(&put, 1);
        let (peer, begin) = (pair.far_peer, Instant::now());
        let mut told = Vec::with_capacity(64);
        while !told.iter().any(|it| matches!(it, Completion::Left { .. })) {
            pair.step();
            pair.near.poll(&mut told);
            pair.far.poll(&mut Vec::with_capacity(64));
            assert!(begin.elapsed() < PATIENCE, "{told:?}");
        }
        let failed = |it: &Completion| matches!(it, Completion::Done { outcome: Err(_), .. });
        let (last, before) = told.split_last().unwrap();
        assert!(before.iter().all(failed), "{told:?}");
        match *last {
            Completion::Left { failure: Failure::Node, .. } if ends_here => {}
            Completion::Left { failure: Failure::Ended | Failure::Unresponsive, .. }
                if !ends_here => {}
            other => panic!("{other:?}"),
        }
        assert_eq!(pair.near.put(&put), Err(PostError::NotJoined(peer)));
        stop(hosts);
    }
}

#[test]
fn an_endpoint_without_a_node_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    let node = socket(directory.path(), 0);
    let far = thread::spawn(move || Torus::new(node, limits()).accept(&listener, &secret()));
    let nowhere = directory.path().join("nowhere");
    let error = Torus::new(nowhere, limits()).connect(address, &secret()).unwrap_err();
    assert!(matches!(error, JoinError::Node(_)), "{error}");
    let error = far.join().unwrap().unwrap_err();
    assert!(matches!(error, JoinError::Closed), "{error}");
    stop(hosts);
}

#[test]
fn nothing_is_left_at_the_node_of_endpoints_that_have_gone() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let node = |host| socket(directory.path(), host);
    // More than a node serves at a time.
    for round in 0..40 {
        let mut pair = pair(&node(0), &node(1), &limits());
        let put = window(&mut pair);
        pair.near.put_notify(&put, round).unwrap();
        let told = |it: &Completion| matches!(it, Completion::Notified { immediate, .. } if *immediate == round);
        wait(&mut pair, "nothing told", told);
    }
    stop(hosts);
}

#[test]
fn as_many_regions_and_windows_as_the_node_lets_have() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine("2", directory.path());
    let node = |host| socket(directory.path(), host);
    let ((mut near, _), _far) = joined(&node(0), &node(1), &limits());
    let mut regions = 0;
    while near.add_region(SharedRegion::new(4096).unwrap()).is_ok() {
        regions += 1;
    }
    let start = Local { region: RegionId(regions - 1), offset: 5 };
    let opening = Opening { start, bytes: 7, access: Access::Read, label: 0 };
    let mut windows = 0;
    while near.open_window(&opening).is_ok() {
        windows += 1;
    }
    assert_eq!((regions, windows), (31, 32));
    let mut told = Vec::with_capacity(8);
    near.progress(0);
    near.poll(&mut told);
    assert!(told.is_empty(), "the node has taken all: {told:?}");
    stop(hosts);
}
