//! Endpoints of two processes, one of which is killed.

use std::env;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use gannet_fabric::shm::{Listener, Shm};
use gannet_fabric::{Completion, Endpoint, Failure, Local, Opening, Put, Remote, Trust};
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};

use crate::conformance::REGION;
use crate::shm::limits;

/// Where a process that a test starts finds its partner.
const SOCKET: &str = "GANNET_FABRIC_SOCKET";

/// Not a test of its own: what the processes below run.
#[test]
fn a_partner_puts_until_it_is_killed() {
    let Some(path) = env::var_os(SOCKET) else { return };
    let mut endpoint = Shm::new(limits());
    endpoint.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    let peer = endpoint.connect(Path::new(&path), &Trust::SameUser).unwrap();
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

fn partner(path: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args(["processes::a_partner_puts_until_it_is_killed", "--exact", "--nocapture"])
        .env(SOCKET, path)
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn who_is_killed_is_told_to_have_left() {
    let rounds = if env::var_os("GANNET_LONG").is_some() { 200 } else { 20 };
    let mut random = Random::new(9);
    let directory = tempfile::tempdir().unwrap();
    for round in 0..rounds {
        let path = directory.path().join("fabric.sock");
        let listener = Listener::bind(&path).unwrap();
        let mut child = partner(&path);
        let mut endpoint = Shm::new(limits());
        endpoint.add_region(SharedRegion::new(4096).unwrap()).unwrap();
        let start = Local { region: REGION, offset: 0 };
        let opening = Opening { start, bytes: 64, access: Access::Write, label: 0 };
        endpoint.open_window(&opening).unwrap();
        let limit = limits();
        // A process takes its time to start; it is the exchange that has a deadline.
        let peer = loop {
            match endpoint.accept(&listener, &Trust::SameUser) {
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
                    Completion::Left { peer: left, failure } if *left == peer => {
                        break 'run *failure;
                    }
                    other => panic!("{other:?}"),
                }
            }
            if killed.is_none() && begin.elapsed() > kill_after {
                child.kill().unwrap();
                killed = Some(Instant::now());
            }
            if let Some(killed) = killed {
                assert!(killed.elapsed() < 20 * limit.deadline, "round {round}: {notified} events");
            }
        };
        assert_eq!(failure, Failure::Ended, "round {round}");
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert_eq!(endpoint.counters().refused, 0);
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
