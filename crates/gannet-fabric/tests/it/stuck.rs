//! Calls of libfabric that never return: the provider `shm` of 1.17 waits for a lock in the memory of another process, for ever if
//! that one was killed with it. Here such locks are taken and never given back.

use std::env;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use gannet_fabric::ofi::Library;
use gannet_fabric::tcp::{Joins, Listener};
use gannet_fabric::{Completion, Endpoint, Failure, Key, Level, Local, Opening, Put, Remote};
use gannet_measure::testing::skipped;
use gannet_memory::{Access, SharedRegion};

use crate::conformance::{PATIENCE, REGION};
use crate::ofi;
use crate::udp::secret;

/// Where the lock of an endpoint lies in its memory with 1.17, how it looks when it is taken, and the first byte of such memory.
const LOCK: u64 = 24;
const TAKEN: i32 = if cfg!(any(target_arch = "x86", target_arch = "x86_64")) { 0 } else { 1 };
const LAYOUT: u8 = 4;

/// The library, if it is one of which the locks are known here.
pub fn library(test: &str) -> Option<Library> {
    let library = ofi::library(test)?;
    let (major, minor) = library.version();
    if (major, minor) != (1, 17) {
        skipped(
            test,
            format!("locks of libfabric {major}.{minor} are not known; those of 1.17 are"),
        );
        return None;
    }
    Some(library)
}

/// Shared memory of endpoints of a process.
pub fn memory_of(process: u32) -> Vec<PathBuf> {
    let files = fs::read_dir("/dev/shm").unwrap().map(|file| file.unwrap().path());
    let is_its = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.starts_with(&format!("{process}:"))
    };
    files.filter(is_its).collect()
}

/// Takes the locks in the memory of endpoints, whatever these do meanwhile.
pub fn take_locks(files: &[PathBuf]) {
    for file in files {
        let memory = OpenOptions::new().read(true).write(true).open(file).unwrap();
        let mut layout = [0];
        memory.read_exact_at(&mut layout, 0).unwrap();
        assert_eq!(layout, [LAYOUT], "of {}", file.display());
        let until = Instant::now() + PATIENCE;
        // Who has it at this moment gives it back, and then it is as free as it was.
        while !is_taken(&memory) {
            assert!(Instant::now() < until, "{} is given back again and again", file.display());
            memory.write_all_at(&TAKEN.to_ne_bytes(), LOCK).unwrap();
        }
    }
}

/// Whether nobody gives the lock back.
fn is_taken(memory: &File) -> bool {
    (0..20).all(|_| {
        sleep(Duration::from_millis(1));
        let mut lock = [0; 4];
        memory.read_exact_at(&mut lock, LOCK).unwrap();
        // On x86 those that wait count it down.
        let lock = i32::from_ne_bytes(lock);
        if TAKEN == 0 { lock <= 0 } else { lock == TAKEN }
    })
}

/// Tells a process that a test starts that it is one, and what it does while a call hangs. It runs the same test.
const CHILD: &str = "GANNET_FABRIC_STUCK";
const STAYS: &str = "stays";
const EXITS: &str = "exits";

#[test]
fn an_endpoint_whose_lock_is_never_given_back_is_given_up_and_others_go_on() {
    let test = "an_endpoint_whose_lock_is_never_given_back_is_given_up_and_others_go_on";
    // Memory of the endpoint that was kept is left.
    assert!([None, Some(1)].contains(&run(test, STAYS)));
}

#[test]
fn a_process_ends_while_a_call_hangs() {
    // The library removes no memory of endpoints that were not closed.
    assert!([None, Some(4)].contains(&run("a_process_ends_while_a_call_hangs", EXITS)));
}

/// Runs a test in a process of its own, which ends well; gives how many pieces of its memory are left, none if it cannot run.
fn run(test: &str, what: &str) -> Option<usize> {
    let library = library(test)?;
    if let Ok(what) = env::var(CHILD) {
        go_on_with_others(&library, what == EXITS);
        return None;
    }
    let mut child = Command::new(env::current_exe().unwrap())
        .args([&format!("stuck::{test}"), "--exact", "--nocapture"])
        .env(CHILD, what)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + 3 * PATIENCE;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < until => sleep(Duration::from_millis(1)),
            None => {
                child.kill().unwrap();
                panic!("the process does not end");
            }
        }
    };
    assert!(status.success(), "{status}");
    let left = memory_of(child.id());
    left.iter().for_each(|file| fs::remove_file(file).unwrap());
    Some(left.len())
}

/// An endpoint that is joined to two others, of which the first one's locks are taken.
fn go_on_with_others(library: &Library, exits: bool) {
    let mut near = ofi::endpoint(library, "shm", Level::Placed);
    near.add_region(SharedRegion::new(4096).unwrap()).unwrap();
    let (mut fars, mut locked) = (Vec::new(), Vec::new());
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().unwrap();
    for _ in 0..2 {
        let library = library.clone();
        let far = thread::spawn(move || {
            let mut far = ofi::endpoint(&library, "shm", Level::Placed);
            let peer = far.connect(address, &secret()).unwrap();
            (far, peer)
        });
        let peer = near.accept(&listener, &secret()).unwrap();
        let (mut far, _) = far.join().unwrap();
        far.add_region(SharedRegion::new(4096).unwrap()).unwrap();
        let start = Local { region: REGION, offset: 0 };
        let opening = Opening { start, bytes: 64, access: Access::Write, label: 0 };
        far.open_window(&opening).unwrap();
        fars.push((far, peer));
        if locked.is_empty() {
            locked = memory_of(std::process::id());
        }
    }
    assert_eq!(locked.len(), 2, "{locked:?}");
    let (mut far, free) = fars.remove(1);
    let (kept, stuck) = fars.remove(0);
    // Within a process the library maps memory once: who waits in it for ever needs that it stays.
    std::mem::forget(kept);
    let (mut told, begin) = (Vec::with_capacity(64), Instant::now());
    let mut keys: [Option<Key>; 2] = [None; 2];
    // PUTs to the second one that are done while the first one hangs, and when that one had gone.
    let (mut done, mut left) = ([0; 2], false);
    while done[1] < 100 {
        if exits && done[0] >= 100 {
            std::process::exit(0);
        }
        assert!(begin.elapsed() < 2 * PATIENCE, "{done:?}, {left}");
        near.progress(begin.elapsed().as_nanos() as u64);
        near.poll(&mut told);
        for completion in told.drain(..) {
            match completion {
                Completion::WindowOpened { peer, window } => {
                    keys[usize::from(peer != stuck)] = Some(window.key);
                    if keys.iter().all(Option::is_some) {
                        take_locks(&locked);
                    }
                }
                Completion::Done { outcome: Ok(()), .. } => done[usize::from(left)] += 1,
                Completion::Done { outcome: Err(failure), .. }
                | Completion::Left { failure, .. } => {
                    assert_eq!(failure, Failure::Unresponsive);
                    left |= matches!(completion, Completion::Left { peer, .. } if peer == stuck);
                }
                other => panic!("{other:?}"),
            }
        }
        if let [Some(first), Some(second)] = keys {
            let source = Local { region: REGION, offset: 0 };
            for (peer, key) in [(stuck, first), (free, second)] {
                let target = Remote { peer, key, offset: 0 };
                let _ = near.put(&Put { source, target, bytes: 64 });
            }
        }
        far.progress(begin.elapsed().as_nanos() as u64);
        far.poll(&mut told);
        assert_eq!(told, []);
    }
    assert!(left && done[0] >= 100, "{done:?}, {left}");
}
