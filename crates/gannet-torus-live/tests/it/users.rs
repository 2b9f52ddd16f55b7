//! Processes that use the nodes of their hosts, each on a thread of its own.

use std::collections::HashSet;
use std::io::IoSliceMut;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, thread};

use gannet_fabric::local::{Line, connected};
use gannet_lattice::Node;
use gannet_measure::testing::skipped;
use gannet_memory::SharedRegion;
use gannet_torus_live::tunnel::{self, PROCESS, RINGS_ADDRESS};
use gannet_torus_live::user::{
    Completion, Local, Reach, RegionId, Remote, Request, User, UserError,
};
use gannet_torus_live::users::memory::NodeMemory;
use gannet_torus_live::users::{Seat, Users};
use gannet_wire::torus_user::{Message, Outcome, Refused};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use rustix::process::{Resource, Rlimit, setrlimit};

use crate::host::{machine_with_users, stop, wait_for};

const ADDRESS: u64 = 0x5000_0000;
const PATIENCE: Duration = Duration::from_secs(30);

/// The process of this number at a host, once that has a place in a machine.
pub fn user(directory: &Path, host: usize, process: u16) -> User {
    let (path, begin) = (directory.join(format!("n{host:02}")), Instant::now());
    let mut user = loop {
        match User::connect(&path, Some(process)) {
            Ok(user) => break user,
            // Posts of who had the number are still under way.
            Err(UserError::Refused(Refused::Taken)) => {
                assert!(begin.elapsed() < PATIENCE, "the number stays taken");
                thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    };
    while user.place().is_none() {
        assert!(begin.elapsed() < PATIENCE, "there is no machine");
        user.wait(Duration::from_millis(100)).unwrap();
    }
    user
}

/// The next completion; panics when none comes.
fn next(user: &mut User) -> Completion {
    let begin = Instant::now();
    loop {
        if let Some(completion) = user.poll() {
            return completion;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing happens");
        user.wait(Duration::from_millis(100)).unwrap();
    }
}

/// What has become of a post.
pub fn outcome(user: &mut User, request: Request) -> Outcome {
    loop {
        if let Completion::Done { request: done, outcome } = next(user)
            && done == request
        {
            return outcome;
        }
    }
}

fn memory(user: &mut User, bytes: usize, address: u64, reach: Reach) -> RegionId {
    user.register(SharedRegion::new(bytes).unwrap(), address, reach).unwrap()
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|at| (at as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

fn read(user: &User, region: RegionId, offset: usize, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    user.region(region).read(offset, &mut bytes);
    bytes
}

/// Whether what wakes the process becomes readable within so long.
fn is_woken(user: &User, within: Duration) -> bool {
    let mut descriptors = user.descriptors().map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN));
    poll(&mut descriptors, Some(&Timespec::try_from(within).unwrap())).unwrap() > 0
}

#[test]
fn who_sleeps_is_woken_by_whatever_happens() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (mut near, mut far) = (user(directory.path(), 0, 7), user(directory.path(), 1, 9));
    let (here, there) = (near.place().unwrap().node, far.place().unwrap().node);
    let source = memory(&mut near, 4096, ADDRESS, Reach::Write);
    let back = memory(&mut far, 4096, ADDRESS, Reach::Write);
    let local = Local { region: source, offset: 0 };
    let remote = Remote { node: there, process: 9, address: ADDRESS };
    let woken = |near: &mut User| {
        // It may have happened before this process wants to sleep.
        assert!(!near.may_sleep() || is_woken(near, PATIENCE), "nothing wakes it");
        near.woken();
        next(near)
    };

    near.put(local, remote, 8, 1).unwrap();
    let done = woken(&mut near);
    assert!(matches!(done, Completion::Done { outcome: Outcome::Done, .. }), "{done:?}");
    let from = Local { region: back, offset: 0 };
    far.put(from, Remote { node: here, process: 7, address: ADDRESS }, 8, 3).unwrap();
    let arrived = woken(&mut near);
    assert!(matches!(arrived, Completion::Arrived { tag: 3, .. }), "{arrived:?}");
    near.put(local, Remote { address: 8 * ADDRESS, ..remote }, 8, 4).unwrap();
    let failed = woken(&mut near);
    assert!(matches!(failed, Completion::Done { outcome, .. } if outcome != Outcome::Done));
    stop(hosts);
}

#[test]
fn processes_put_and_get_over_the_torus() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2x2", directory.path());
    let (mut near, mut far) = (user(directory.path(), 0, 7), user(directory.path(), 3, 9));
    let (here, there) = (near.place().unwrap(), far.place().unwrap());
    assert_eq!((here.lattice, here.lattice.nodes()), (there.lattice, 4));
    let source = memory(&mut near, 1 << 20, ADDRESS, Reach::Write);
    let target = memory(&mut far, 1 << 20, ADDRESS, Reach::Write);
    let closed = memory(&mut far, 4096, 2 * ADDRESS, Reach::Read);
    let sent = pattern(300_001, 5);
    near.region(source).write(11, &sent);

    let local = Local { region: source, offset: 11 };
    let remote = Remote { node: there.node, process: 9, address: ADDRESS + 17 };
    let request = near.put(local, remote, sent.len() as u32, 42).unwrap();
    let length = sent.len() as u32;
    let arrived = Completion::Arrived { node: here.node, address: ADDRESS + 17, length, tag: 42 };
    assert_eq!(next(&mut far), arrived);
    assert_eq!(outcome(&mut near, request), Outcome::Done);
    assert_eq!(read(&far, target, 17, sent.len()), sent);

    let kept = pattern(70_000, 9);
    far.region(target).write(500_000, &kept);
    let from = Remote { address: ADDRESS + 500_000, ..remote };
    let to = Local { region: source, offset: 600_000 };
    let request = near.get(from, to, kept.len() as u32).unwrap();
    assert_eq!(outcome(&mut near, request), Outcome::Done);
    assert_eq!(read(&near, source, 600_000, kept.len()), kept);

    let mut refused = |remote: Remote, local: Local, length| {
        let request = near.put(local, remote, length, 0).unwrap();
        outcome(&mut near, request)
    };
    let end = Remote { address: ADDRESS + (1 << 20) - 8, ..remote };
    let read_only = Remote { address: 2 * ADDRESS, ..remote };
    assert_eq!(refused(Remote { process: 8, ..remote }, local, 8), Outcome::Unknown);
    assert_eq!(refused(read_only, local, 8), Outcome::ReadOnly);
    assert_eq!(refused(Remote { node: Node(4), ..remote }, local, 8), Outcome::Invalid);
    assert_eq!(refused(remote, Local { offset: u64::MAX, ..local }, 8), Outcome::Invalid);
    assert!(matches!(refused(end, local, 9), Outcome::OutOfRange | Outcome::Unknown));
    assert_eq!(refused(end, local, 8), Outcome::Done);

    // What is only sent from has no address that counts.
    let own = memory(&mut near, 4096, u64::MAX, Reach::Own);
    let request = near.get(remote, Local { region: own, offset: 8 }, 8).unwrap();
    assert_eq!(outcome(&mut near, request), Outcome::Invalid);

    let mut beside = user(directory.path(), 0, 8);
    let own = memory(&mut beside, 1 << 20, ADDRESS, Reach::Write);
    let to_own = Remote { node: here.node, process: 8, address: ADDRESS };
    let request = near.put(local, to_own, sent.len() as u32, 7).unwrap();
    assert_eq!(outcome(&mut near, request), Outcome::Done);
    assert!(matches!(next(&mut beside), Completion::Arrived { tag: 7, .. }));
    assert_eq!(read(&beside, own, 0, sent.len()), sent);

    // What was posted before memory is given back is done with it.
    let given = memory(&mut near, 1 << 20, 4 * ADDRESS, Reach::Write);
    let local_given = Local { region: given, offset: 0 };
    let mut posted: Vec<_> =
        (0..200).map(|tag| near.put(local_given, remote, 50_000, tag)).collect();
    posted.extend((0..20).map(|_| near.get(remote, local_given, 50_000)));
    near.deregister(given).unwrap();
    for request in posted {
        assert_eq!(outcome(&mut near, request.unwrap()), Outcome::Done);
    }

    far.deregister(closed).unwrap();
    far.deregister(target).unwrap();
    let request = near.put(local, remote, 8, 0).unwrap();
    assert_eq!(outcome(&mut near, request), Outcome::Unknown);
    stop(hosts);
}

#[test]
fn a_view_is_a_part_of_memory_with_an_address_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (mut near, mut far) = (user(directory.path(), 0, 7), user(directory.path(), 1, 9));
    let source = memory(&mut near, 1 << 16, ADDRESS, Reach::Write);
    let target = memory(&mut far, 1 << 16, 0, Reach::Own);
    let address = 3 * ADDRESS + 100;
    let view = far.view(target, (4196, 5000), address, Reach::Write).unwrap();
    let sent = pattern(5000, 3);
    near.region(source).write(8, &sent);
    let node = far.place().unwrap().node;
    let remote = |address| Remote { node, process: 9, address };
    let local = Local { region: source, offset: 8 };

    // Nobody is told of a quiet one, whatever comes behind it.
    let quiet = near.put_quietly(local, remote(address), 5000).unwrap();
    assert_eq!(outcome(&mut near, quiet), Outcome::Done);
    assert_eq!(read(&far, target, 4196, 5000), sent);
    let told = near.put(local, remote(address + 4999), 1, 5).unwrap();
    assert_eq!(outcome(&mut near, told), Outcome::Done);
    let arrived = next(&mut far);
    assert!(matches!(arrived, Completion::Arrived { tag: 5, length: 1, .. }), "{arrived:?}");
    let get = near.get(remote(address + 17), Local { region: source, offset: 30_000 }, 70).unwrap();
    assert_eq!(outcome(&mut near, get), Outcome::Done);
    assert_eq!(read(&near, source, 30_000, 70), sent[17..87]);

    let mut refused = |address, length| {
        let request = near.put(local, remote(address), length, 0).unwrap();
        outcome(&mut near, request)
    };
    let beside = [(address - 1, 1), (address + 5000, 1), (address + 4999, 2)];
    for (address, length) in beside {
        let outcome = refused(address, length);
        assert!(matches!(outcome, Outcome::OutOfRange | Outcome::Unknown), "{outcome}");
    }
    for (part, address, why) in [
        ((61_000, 5000), 5 * ADDRESS + 3656, Refused::Region),
        ((u64::MAX, 2), 5 * ADDRESS + 4095, Refused::Region),
        ((0, 0), 5 * ADDRESS, Refused::Region),
        ((100, 50), 5 * ADDRESS, Refused::Address),
        ((0, 100), 3 * ADDRESS + 4096, Refused::Address),
    ] {
        let error = far.view(target, part, address, Reach::Read).unwrap_err();
        assert!(matches!(error, UserError::Refused(it) if it == why), "{part:?}: {error}");
    }
    far.close_view(view).unwrap();
    // What the node answers next it answers behind that.
    let again = far.view(target, (0, 10), 7 * ADDRESS, Reach::Write).unwrap();
    assert_eq!(refused(address, 1), Outcome::Unknown);
    assert_eq!(refused(7 * ADDRESS, 10), Outcome::Done);
    far.deregister(target).unwrap();
    assert_eq!(refused(7 * ADDRESS, 10), Outcome::Unknown);
    far.close_view(again).unwrap();
    stop(hosts);
}

#[test]
fn what_a_node_cannot_grant_it_refuses_in_words() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let path = directory.path().join("n00");
    let mut first = User::connect(&path, Some(5)).unwrap();
    let taken = User::connect(&path, Some(5)).unwrap_err();
    assert!(matches!(taken, UserError::Refused(Refused::Taken)), "{taken}");
    let other = User::connect(&path, None).unwrap();
    assert!(other.process() >= 1024);
    let region = || SharedRegion::new(8192).unwrap();
    first.register(region(), ADDRESS, Reach::Write).unwrap();
    for address in [ADDRESS, ADDRESS + 4096, ADDRESS - 4096, 1, 1 << 48] {
        let refused = first.register(region(), address, Reach::Read).unwrap_err();
        assert!(matches!(refused, UserError::Refused(Refused::Address)), "{refused}");
    }
    let mut regions = 1;
    let full = loop {
        match first.register(region(), 0, Reach::Own) {
            Ok(_) => regions += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(full, UserError::Refused(Refused::Memory)) && regions == 64, "{full}");
    drop(first);
    let begin = Instant::now();
    while let Err(error) = User::connect(&path, Some(5)) {
        assert!(matches!(error, UserError::Refused(Refused::Taken)), "{error}");
        assert!(begin.elapsed() < PATIENCE, "the number stays taken");
    }
    stop(hosts);
}

#[test]
fn a_device_is_carried_for_one_process_with_the_memory_that_it_takes() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (device, _program) = UnixDatagram::pair().unwrap();
    let carry = |process, rings, buffers, reach| {
        let mut user = user(directory.path(), 0, process);
        let rings = memory(&mut user, rings, RINGS_ADDRESS, reach);
        let buffers = memory(&mut user, buffers, 0, Reach::Own);
        user.carry(device.as_fd(), rings, buffers, 10).map(|device| (user, device, buffers))
    };
    let (rings, all) = (2 * tunnel::ring_bytes(2) as usize, 16 << 20);
    let wrong = [
        (PROCESS + 1, rings, all, Reach::Own),
        (PROCESS, rings - 4096, all, Reach::Own),
        (PROCESS, rings, 1 << 20, Reach::Own),
        // Others would reach them before they are carried.
        (PROCESS, rings, all, Reach::Write),
    ];
    for (process, rings, buffers, reach) in wrong {
        let refused = carry(process, rings, buffers, reach).unwrap_err();
        assert!(matches!(refused, UserError::Refused(Refused::Device)), "{refused}");
    }
    let (mut user, device, _) = carry(PROCESS, rings, all, Reach::Own).unwrap();
    assert!(user.is_carried(device));
    user.take_back(device).unwrap();
    assert!(!user.is_carried(device));
    drop(user);
    let (mut user, device, buffers) = carry(PROCESS, rings, all, Reach::Own).unwrap();
    user.deregister(buffers).unwrap();
    assert!(!user.is_carried(device), "its memory is gone");
    stop(hosts);
}

#[test]
fn a_device_that_would_make_its_node_wait_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let (device, program) = UnixDatagram::pair().unwrap();
    let mut byte = [0];
    let (mut parts, nowhere) = ([IoSliceMut::new(&mut byte)], u64::MAX);
    let read = preadv2(&device, &mut parts, nowhere, ReadWriteFlags::NOWAIT);
    if read == Err(Errno::OPNOTSUPP) {
        let what = "a_device_that_would_make_its_node_wait_stops_nobody";
        return skipped(what, "the kernel has no RWF_NOWAIT for sockets");
    }
    let hosts = machine_with_users("2", directory.path());
    let mut user = user(directory.path(), 0, PROCESS);
    let rings = 2 * tunnel::ring_bytes(2) as usize;
    let rings = memory(&mut user, rings, RINGS_ADDRESS, Reach::Own);
    let buffers = memory(&mut user, 16 << 20, 0, Reach::Own);
    let carried = user.carry(device.as_fd(), rings, buffers, 10).unwrap();
    device.set_nonblocking(false).unwrap();
    // The node reads this one, and then looks for another.
    program.send(&[0; 100]).unwrap();
    thread::sleep(Duration::from_millis(50));
    user.take_back(carried).unwrap();
    stop(hosts);
}

#[test]
fn what_wakes_a_process_makes_its_node_wait_for_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (mut near, mut beside) = (user(directory.path(), 0, 1), user(directory.path(), 0, 2));
    let own = memory(&mut near, 4096, ADDRESS, Reach::Write);
    let [woken, _] = near.descriptors();
    fcntl_setfl(woken, fcntl_getfl(woken).unwrap() - OFlags::NONBLOCK).unwrap();
    rustix::io::write(woken, &(u64::MAX - 1).to_ne_bytes()).unwrap();
    assert!(near.may_sleep());
    let remote = Remote { node: near.place().unwrap().node, process: 1, address: ADDRESS };
    near.put(Local { region: own, offset: 8 }, remote, 8, 0).unwrap();
    assert!(matches!(next(&mut near), Completion::Done { .. } | Completion::Arrived { .. }));

    let source = memory(&mut beside, 4096, 0, Reach::Own);
    let posted = beside.put(Local { region: source, offset: 0 }, remote, 8, 0).unwrap();
    assert_eq!(outcome(&mut beside, posted), Outcome::Done);
    stop(hosts);
}

#[test]
fn what_comes_without_its_descriptor_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let socket = connected(&directory.path().join("n00")).unwrap();
    let line = Line::<Message>::new(socket, PATIENCE).unwrap();
    line.send(&Message::Hello { process: 5 }, None, true).unwrap();
    let next = || line.receive(true).unwrap().expect("it is not let go").0;
    while !matches!(next(), Message::Place(_)) {}
    let asked = [
        (
            Message::Register { region: 3, reach: Reach::Own, bytes: 4096, address: 0 },
            Refused::Attach,
        ),
        (Message::Carry { region: 3, rings: 1, buffers: 2, first: 10 }, Refused::Device),
    ];
    for (message, reason) in asked {
        line.send(&message, None, true).unwrap();
        let mut answers = std::iter::repeat_with(next);
        let answer = answers.find(|answer| !matches!(answer, Message::Place(_)));
        assert_eq!(answer, Some(Message::Refused { reason, region: 3 }));
    }
    stop(hosts);
}

/// In the environment of a process that is to be a node: where its socket is.
const NODE: &str = "GANNET_TEST_NODE";

/// Serves processes at `path` with few descriptors, but for those that it may take.
fn serve_with_few_descriptors(path: &Path) {
    let few = Rlimit { current: Some(32), maximum: Some(100) };
    setrlimit(Resource::Nofile, few).unwrap();
    let (mut users, mut memory) = (Users::listen(path).unwrap(), NodeMemory::default());
    let (begin, mut turns) = (Instant::now(), 0);
    let now = || begin.elapsed().as_nanos() as u64;
    while begin.elapsed() < PATIENCE {
        users.serve(Seat::Idle(&mut memory), now());
        if users.may_sleep() {
            let deadline = users.next_deadline().unwrap_or(u64::MAX).saturating_sub(now());
            let most = Duration::from_nanos(deadline).min(PATIENCE);
            let mut descriptor = [PollFd::from_borrowed_fd(users.descriptor(), PollFlags::IN)];
            poll(&mut descriptor, Some(&Timespec::try_from(most).unwrap())).unwrap();
            users.woken();
        }
        turns += 1;
        assert!(turns < 5000, "it does not sleep");
    }
}

#[test]
fn a_node_without_descriptors_says_so_and_sleeps() {
    if let Some(path) = env::var_os(NODE) {
        return serve_with_few_descriptors(Path::new(&path));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("node");
    let mut node = Command::new(env::current_exe().unwrap())
        .args(["users::a_node_without_descriptors_says_so_and_sleeps", "--exact", "--nocapture"])
        .env(NODE, &path)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    let mut first = loop {
        match User::connect(&path, None) {
            Ok(user) => break user,
            Err(error) => assert!(begin.elapsed() < PATIENCE, "{error}"),
        }
        thread::sleep(Duration::from_millis(5));
    };
    // More than it has descriptors before it asks for all that it may have.
    let regions: Vec<_> = (0..64).map(|_| memory(&mut first, 4096, 0, Reach::Own)).collect();
    let mut second = User::connect(&path, None).unwrap();
    let refused = loop {
        let asked = Instant::now();
        if let Err(error) = second.register(SharedRegion::new(4096).unwrap(), 0, Reach::Own) {
            assert!(asked.elapsed() < Duration::from_secs(2), "it says nothing for long");
            break error;
        }
    };
    assert!(matches!(refused, UserError::Refused(Refused::Attach)), "{refused}");
    // It is let in as soon as there is one descriptor, and told so while there are not all that it takes.
    let third = thread::spawn(move || {
        loop {
            match User::connect(&path, None).map(drop) {
                Err(UserError::Refused(Refused::Processes)) if begin.elapsed() < PATIENCE => {
                    thread::sleep(Duration::from_millis(5));
                }
                connected => return connected,
            }
        }
    });
    thread::sleep(Duration::from_secs(1));
    assert!(!third.is_finished(), "it has descriptors");
    for region in regions {
        first.deregister(region).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    third.join().unwrap().unwrap();
    assert!(node.try_wait().unwrap().is_none(), "the node has ended");
    node.kill().unwrap();
    node.wait().unwrap();
}

#[test]
fn a_process_that_ends_fails_what_others_send_it_and_frees_its_memory() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("3", directory.path());
    let mut near = user(directory.path(), 0, 1);
    let source = memory(&mut near, 1 << 20, ADDRESS, Reach::Write);
    for round in 0..20 {
        let mut far = user(directory.path(), 1, 1);
        let own_memory = memory(&mut far, 1 << 20, ADDRESS, Reach::Write);
        let own = far.place().unwrap().node;
        let remote = Remote { node: own, process: 1, address: ADDRESS };
        let back = Remote { node: near.place().unwrap().node, ..remote };
        let local = Local { region: source, offset: 0 };
        let mut open: HashSet<Request> =
            (0..8).map(|_| near.put(local, remote, 200_000, round).unwrap()).collect();
        for _ in 0..8 {
            far.put(Local { region: own_memory, offset: 0 }, back, 100_000, 1).unwrap();
        }
        if round % 2 == 0 {
            next(&mut far);
        }
        drop(far);
        // Those that are refused may be told before others that were posted earlier.
        while !open.is_empty() {
            if let Completion::Done { request, outcome } = next(&mut near)
                && open.remove(&request)
            {
                assert!(matches!(outcome, Outcome::Done | Outcome::Unknown), "{outcome}");
            }
        }
        wait_for(&[&hosts[1]], "nobody uses the node", |it| it.processes.count == 0);
    }
    stop(hosts);
}

#[test]
fn a_process_whose_node_ends_is_told_so() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let mut near = user(directory.path(), 0, 1);
    let source = memory(&mut near, 4096, 0, Reach::Own);
    stop(hosts);
    let remote = Remote { node: Node(1), process: 1, address: ADDRESS };
    let posted = near.put(Local { region: source, offset: 0 }, remote, 8, 0).unwrap();
    assert_eq!(outcome(&mut near, posted), Outcome::Ended);
    let local = Local { region: source, offset: 0 };
    assert!(matches!(near.put(local, remote, 8, 0), Err(UserError::Ended)));
    assert!(near.has_ended() && near.poll().is_none() && near.deregister(source).is_err());
}

#[test]
fn what_a_process_does_not_take_is_counted_and_stops_nobody() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let (mut near, mut slow) = (user(directory.path(), 0, 1), user(directory.path(), 1, 1));
    let mut quick = user(directory.path(), 1, 2);
    let source = memory(&mut near, 4096, 0, Reach::Own);
    memory(&mut slow, 4096, ADDRESS, Reach::Write);
    memory(&mut quick, 4096, ADDRESS, Reach::Write);
    let node = slow.place().unwrap().node;
    let local = Local { region: source, offset: 0 };
    let count = 10_000;
    let put = |near: &mut User, process| {
        let remote = Remote { node, process, address: ADDRESS };
        let request = near.put(local, remote, 8, 0).unwrap();
        assert_eq!(outcome(near, request), Outcome::Done);
    };
    (0..count).for_each(|_| put(&mut near, 1));
    put(&mut near, 2);
    assert!(matches!(next(&mut quick), Completion::Arrived { .. }));
    let (mut arrived, mut missed) = (0, 0);
    let mut take = |slow: &mut User| {
        while let Some(completion) = slow.poll() {
            match completion {
                Completion::Arrived { .. } => arrived += 1,
                Completion::Missed(count) => missed += count,
                Completion::Done { .. } => panic!("it has posted nothing"),
            }
        }
        arrived + missed
    };
    take(&mut slow);
    let begin = Instant::now();
    put(&mut near, 1);
    while take(&mut slow) < count + 1 {
        assert!(begin.elapsed() < PATIENCE, "an arrival is not accounted for");
        slow.wait(Duration::from_millis(10)).unwrap();
    }
    assert_eq!(take(&mut slow), count + 1);
    assert!(missed > 1000 && arrived > 7000, "{arrived} arrived, {missed} missed");
    stop(hosts);
}

#[test]
fn what_was_registered_before_there_is_a_machine_is_reached_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let hosts = machine_with_users("2", directory.path());
    let connect = |host: &str| User::connect(&directory.path().join(host), Some(3)).unwrap();
    let (mut near, mut far) = (connect("n00"), connect("n01"));
    assert_eq!(near.place(), None, "hosts settle for longer than this takes");
    let source = memory(&mut near, 4096, 0, Reach::Own);
    memory(&mut far, 4096, ADDRESS, Reach::Write);
    let remote = Remote { node: Node(1), process: 3, address: ADDRESS };
    let early = near.put(Local { region: source, offset: 0 }, remote, 8, 0).unwrap();
    assert_eq!(outcome(&mut near, early), Outcome::Unreachable);
    drop((user(directory.path(), 0, 4), user(directory.path(), 1, 4)));
    while far.place().is_none() {
        far.wait(Duration::from_millis(10)).unwrap();
    }
    let remote = Remote { node: far.place().unwrap().node, ..remote };
    let late = near.put(Local { region: source, offset: 0 }, remote, 8, 0).unwrap();
    assert_eq!(outcome(&mut near, late), Outcome::Done);
    assert!(matches!(next(&mut far), Completion::Arrived { length: 8, .. }));
    stop(hosts);
}
