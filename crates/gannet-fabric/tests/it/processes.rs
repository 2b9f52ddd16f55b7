//! Endpoints of two processes, of which one is killed.

use std::env;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use gannet_fabric::{
    Completion, Endpoint, Failure, Local, Meet, Opening, OverOfi, OverShm, OverUdp, Peer, Put,
    Remote,
};
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};

use crate::conformance::REGION;
use crate::ofi;
use crate::shm::patient;
use crate::stuck::{self, memory_of, take_locks};
use crate::udp::{loopback, secret};

/// Tells a process that a test starts which side of it to be, and where both leave word. It runs the same test.
const SIDE: &str = "GANNET_FABRIC_SIDE";
const DIRECTORY: &str = "GANNET_FABRIC_DIRECTORY";
const SIDES: [&str; 2] = ["listening", "connecting"];
/// Bytes of PUTs, in turn: providers move what is short and what is longer by different ways.
const LENGTHS: [u64; 2] = [64, 2048];

/// Time after which a process is taken to wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// Puts into the other side's memory until it is told that the other side has left.
fn put_on(mut endpoint: impl Endpoint, peer: Peer) {
    endpoint.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    let start = Local { region: REGION, offset: 0 };
    let opening = Opening { start, bytes: LENGTHS[1], access: Access::Write, label: 0 };
    let own = endpoint.open_window(&opening).unwrap();
    let (mut told, mut key, begin) = (Vec::with_capacity(64), None, Instant::now());
    for immediate in 0.. {
        endpoint.progress(begin.elapsed().as_nanos() as u64);
        told.clear();
        endpoint.poll(&mut told);
        for completion in &told {
            match completion {
                Completion::WindowOpened { window, .. } => key = Some(window.key),
                Completion::Notified { key, bytes, immediate, .. } => {
                    assert_eq!((*key, *bytes), (own, length(*immediate)));
                }
                Completion::Left { failure, .. } => return assert_eq!(*failure, Failure::Ended),
                Completion::Done { .. } => {}
                other => panic!("{other:?}"),
            }
        }
        if let Some(key) = key {
            let target = Remote { peer, key, offset: 0 };
            let put = Put { source: start, target, bytes: length(immediate) };
            let _ = endpoint.put_notify(&put, immediate);
        }
    }
}

fn length(immediate: u32) -> u64 {
    LENGTHS[immediate as usize % LENGTHS.len()]
}

/// What one of the two processes does.
fn be<M: Meet>(side: &str, directory: &Path, meet: impl Fn(String) -> M, at: String) {
    let word = directory.join("place");
    let joined = if side == SIDES[0] {
        let meet = meet(at);
        let listener = meet.listen().unwrap();
        // Whoever finds the word finds all of it.
        fs::write(directory.join("new"), meet.place(&listener)).unwrap();
        fs::rename(directory.join("new"), word).unwrap();
        meet.accept(&listener, PATIENCE, &patient(), &secret())
    } else {
        wait_for(|| word.exists().then_some(())).unwrap();
        meet(fs::read_to_string(word).unwrap()).connect(&patient(), &secret())
    };
    match joined {
        Ok((endpoint, peer)) => {
            fs::write(directory.join(side), []).unwrap();
            put_on(endpoint, peer);
        }
        // The other one has joined, and was killed before it said so.
        Err(error) => assert!(SIDES.iter().any(|it| directory.join(it).exists()), "{error}"),
    }
}

/// Kills one of two processes at a random moment, again and again: the other one ends as it should, and nothing is left.
fn kill<M: Meet>(test: &str, seed: u64, meet: impl Fn(String) -> M, at: &Path) {
    let pause = |random: &mut Random, _, _: &Path| {
        sleep(Duration::from_micros(random.below(20_000)));
    };
    kill_after(test, (rounds(), seed), pause, meet, at);
}

/// The same, so many times, when `before` is done with the two processes, of which one has joined.
fn kill_after<M: Meet>(
    test: &str,
    (rounds, seed): (usize, u64),
    before: impl Fn(&mut Random, [u32; 2], &Path),
    meet: impl Fn(String) -> M,
    at: &Path,
) {
    if let (Ok(side), Some(directory)) = (env::var(SIDE), env::var_os(DIRECTORY)) {
        let (directory, at) = (PathBuf::from(directory), at.to_str().unwrap().to_owned());
        return be(&side, &directory, meet, at);
    }
    let (mut random, mut late) = (Random::new(seed), 0);
    for round in 0..rounds {
        let directory = tempfile::tempdir().unwrap();
        let mut sides = SIDES.map(|side| start(test, side, directory.path()));
        let processes = sides.each_ref().map(Child::id);
        let has_joined = wait_for(|| {
            for side in &mut sides {
                assert_eq!(side.try_wait().unwrap(), None, "ended too soon");
            }
            SIDES.iter().any(|side| directory.path().join(side).exists()).then_some(())
        });
        assert_eq!(has_joined, Some(()));
        before(&mut random, processes, directory.path());
        let victim = random.below(2) as usize;
        assert_eq!(killed(&mut sides[victim]).signal(), Some(9));
        let (other, begin) = (&mut sides[1 - victim], Instant::now());
        let Some(status) = wait_for(|| other.try_wait().unwrap()) else {
            killed(other);
            left_of(processes).iter().for_each(|file| fs::remove_file(file).unwrap());
            panic!("{} waits for ever after kill {round}", SIDES[1 - victim]);
        };
        assert!(status.success(), "{} after kill {round}: {status}", SIDES[1 - victim]);
        assert_eq!(left_of(processes), Vec::<PathBuf>::new());
        late += usize::from(begin.elapsed() >= patient().deadline);
    }
    println!("{test}: of {rounds}, {late} were told when their deadline had passed");
}

fn start(test: &str, side: &str, directory: &Path) -> Child {
    Command::new(env::current_exe().unwrap())
        .args([&format!("processes::{test}"), "--exact", "--nocapture"])
        .env(SIDE, side)
        .env(DIRECTORY, directory)
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn killed(child: &mut Child) -> ExitStatus {
    child.kill().unwrap();
    child.wait().unwrap()
}

/// What comes within the time that is waited at most.
fn wait_for<T>(mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        let found = look();
        if found.is_some() {
            return found;
        }
        sleep(Duration::from_millis(1));
    }
    None
}

/// Shared memory with a name of these processes.
fn left_of(processes: [u32; 2]) -> Vec<PathBuf> {
    processes.into_iter().flat_map(memory_of).collect()
}

fn rounds() -> usize {
    if env::var_os("GANNET_LONG").is_some() { 200 } else { 20 }
}

#[test]
fn who_is_killed_is_told_to_have_left_over_shared_memory() {
    let place = env::temp_dir().join("gannet");
    let place = env::var_os(DIRECTORY).map_or(place, |it| PathBuf::from(it).join("fabric.sock"));
    let test = "who_is_killed_is_told_to_have_left_over_shared_memory";
    let meet = |at| OverShm(PathBuf::from(at));
    kill(test, 9, meet, &place);
}

#[test]
fn who_is_killed_is_told_to_have_left_over_udp() {
    let test = "who_is_killed_is_told_to_have_left_over_udp";
    kill(test, 10, OverUdp, loopback().to_string().as_ref());
}

fn over_ofi(provider: &str) -> impl Fn(String) -> OverOfi {
    move |place| OverOfi { place, provider: Some(provider.to_owned()) }
}

#[test]
fn who_is_killed_is_told_to_have_left_over_tcp_of_libfabric() {
    let test = "who_is_killed_is_told_to_have_left_over_tcp_of_libfabric";
    if ofi::library(test).is_some() {
        kill(test, 11, over_ofi("tcp"), loopback().to_string().as_ref());
    }
}

#[test]
fn who_is_killed_is_told_to_have_left_over_shm_of_libfabric() {
    let test = "who_is_killed_is_told_to_have_left_over_shm_of_libfabric";
    if ofi::library(test).is_some() {
        kill(test, 12, over_ofi("shm"), loopback().to_string().as_ref());
    }
}

#[test]
fn who_is_killed_with_locks_is_told_to_have_left_over_shm_of_libfabric() {
    let test = "who_is_killed_with_locks_is_told_to_have_left_over_shm_of_libfabric";
    if stuck::library(test).is_none() {
        return;
    }
    let take = |_: &mut Random, processes, directory: &Path| {
        let have_both = || SIDES.iter().all(|side| directory.join(side).exists()).then_some(());
        wait_for(have_both).unwrap();
        take_locks(&left_of(processes));
    };
    kill_after(test, (2, 13), take, over_ofi("shm"), loopback().to_string().as_ref());
}
