//! What every backend has to do. A backend makes two joined endpoints; each test is run with them.

use std::time::{Duration, Instant};

use gannet_fabric::{
    Completion, Endpoint, Failure, Get, Key, Level, Local, OpenError, Opening, Peer, PostError,
    Put, RegionId, Remote, Request, Window,
};
use gannet_memory::{Access, Refusal, SharedRegion};

/// Two endpoints and what each calls the other.
pub struct Pair {
    pub near: Box<dyn Endpoint>,
    pub far: Box<dyn Endpoint>,
    pub far_peer: Peer,
    pub near_peer: Peer,
    pub clock: Clock,
}

/// The time of a test, which passes or is virtual.
pub struct Clock {
    begin: Instant,
    virtual_ns: Option<u64>,
}

impl Clock {
    pub fn real() -> Self {
        Self { begin: Instant::now(), virtual_ns: None }
    }

    pub fn in_virtual_time() -> Self {
        Self { virtual_ns: Some(0), ..Self::real() }
    }

    pub fn now_ns(&self) -> u64 {
        self.virtual_ns.unwrap_or_else(|| self.begin.elapsed().as_nanos() as u64)
    }

    /// Lets endpoints go on that were polled; in virtual time at once to when something happens next.
    pub fn go_on(&mut self, ends: &mut [&mut dyn Endpoint]) {
        let now = self.now_ns();
        let mut progress = |now| ends.iter_mut().filter_map(|end| end.progress(now)).min();
        let due = progress(now);
        if let Some(virtual_ns) = &mut self.virtual_ns {
            *virtual_ns = due.unwrap_or(now + PAUSE.as_nanos() as u64);
            assert!(*virtual_ns > now, "time stands still at {now}");
            progress(*virtual_ns);
        }
    }

    /// Lets nothing happen for a while.
    pub fn pause(&self) {
        if self.virtual_ns.is_none() {
            std::thread::sleep(PAUSE);
        }
    }
}

/// Time after which a test gives up.
pub const PATIENCE: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(1);
/// Bytes of the region of each endpoint.
pub const BYTES: usize = 1 << 16;
/// The one region of each endpoint.
pub const REGION: RegionId = RegionId(0);

impl Pair {
    pub fn new(
        (mut near, far_peer): (Box<dyn Endpoint>, Peer),
        (mut far, near_peer): (Box<dyn Endpoint>, Peer),
        clock: Clock,
    ) -> Self {
        for endpoint in [&mut near, &mut far] {
            let region = endpoint.add_region(SharedRegion::new(BYTES).unwrap());
            assert_eq!(region.unwrap(), REGION);
        }
        Self { near, far, far_peer, near_peer, clock }
    }

    /// Lets both ends go on.
    pub fn step(&mut self) {
        self.clock.go_on(&mut [&mut *self.near, &mut *self.far]);
    }

    /// The time after which the test gives up.
    pub fn patience_ends(&self) -> u64 {
        self.clock.now_ns() + PATIENCE.as_nanos() as u64
    }

    /// What both ends tell until each has told as many completions.
    pub fn told(&mut self, near: usize, far: usize) -> (Vec<Completion>, Vec<Completion>) {
        let mut told = (Vec::with_capacity(1000), Vec::with_capacity(1000));
        let patience_ends = self.patience_ends();
        while told.0.len() < near || told.1.len() < far {
            self.step();
            self.near.poll(&mut told.0);
            self.far.poll(&mut told.1);
            assert!(
                self.clock.now_ns() < patience_ends,
                "{near} and {far} asked for, told {told:?}"
            );
        }
        told
    }

    /// Nothing more is told for a while.
    pub fn is_quiet(&mut self) {
        let mut told = (Vec::with_capacity(1000), Vec::with_capacity(1000));
        for _ in 0..20 {
            self.step();
            self.near.poll(&mut told.0);
            self.far.poll(&mut told.1);
            self.clock.pause();
        }
        assert!(told.0.is_empty() && told.1.is_empty(), "{told:?}");
    }

    /// Opens a window of the far end for the near one.
    pub fn window(&mut self, offset: u64, bytes: u64, access: Access) -> Key {
        let start = Local { region: REGION, offset };
        let key = self.far.open_window(&Opening { start, bytes, access, label: 5 }).unwrap();
        let (near, _) = self.told(1, 0);
        let window = Window { key, bytes, access, label: 5 };
        assert_eq!(near, [Completion::WindowOpened { peer: self.far_peer, window }]);
        key
    }

    pub fn put(&self, source: u64, key: Key, offset: u64, bytes: u64) -> Put {
        let source = Local { region: REGION, offset: source };
        Put { source, target: Remote { peer: self.far_peer, key, offset }, bytes }
    }

    pub fn get(&self, key: Key, offset: u64, target: u64, bytes: u64) -> Get {
        let target = Local { region: REGION, offset: target };
        Get { source: Remote { peer: self.far_peer, key, offset }, target, bytes }
    }
}

/// All bytes of the region of an endpoint.
pub fn memory(endpoint: &dyn Endpoint) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    endpoint.region(REGION).read(0, &mut bytes);
    bytes
}

fn fill(endpoint: &dyn Endpoint, seed: u8) {
    let bytes: Vec<u8> = (0..BYTES).map(|at| ((at * 7) >> 3) as u8 ^ seed).collect();
    endpoint.region(REGION).write(0, &bytes);
}

fn done(request: Request) -> Completion {
    Completion::Done { request, outcome: Ok(()) }
}

/// A test of the suite.
type Test = fn(Pair);

/// The suite, by name.
pub const SUITE: [(&str, Test); 8] = [
    ("what is put is there, and nothing else", what_is_put_is_there_and_nothing_else),
    ("notifications come in order, after the bytes", notifications_come_in_order),
    ("what is got is what is there", what_is_got_is_what_is_there),
    ("what is not allowed is refused and moves nothing", what_is_not_allowed_is_refused),
    ("a window that is taken back is returned", a_window_that_is_taken_back_is_returned),
    ("queues are bounded", queues_are_bounded),
    ("who ends is told to have left, after its last word", who_ends_is_told_to_have_left),
    ("who takes nothing is given up", who_takes_nothing_is_given_up),
];

fn what_is_put_is_there_and_nothing_else(mut pair: Pair) {
    let key = pair.window(4096, 10_000, Access::Write);
    fill(&*pair.near, 0);
    fill(&*pair.far, 99);
    let source = memory(&*pair.near);
    let mut expected = memory(&*pair.far);
    // Lengths and places around words, lines and pages, and the whole window.
    let bytes = [0, 1, 7, 8, 9, 63, 64, 65, 4095, 4096, 4097, 10_000];
    for (number, bytes) in bytes.into_iter().enumerate() {
        let (from, to) = (number * 13, (10_000 - bytes).min(number * 31));
        let put = pair.put(from as u64, key, to as u64, bytes as u64);
        let request = pair.near.put(&put).unwrap();
        assert_eq!(pair.told(1, 0).0, [done(request)]);
        let flush = pair.near.flush(pair.far_peer).unwrap();
        assert_eq!(pair.told(1, 0).0, [done(flush)]);
        expected[4096 + to..][..bytes].copy_from_slice(&source[from..][..bytes]);
        let is_placed = pair.near.facts().done_is >= Level::Placed;
        let patience_ends = pair.patience_ends();
        while memory(&*pair.far) != expected {
            // What is only sent comes a little later.
            assert!(!is_placed && pair.clock.now_ns() < patience_ends, "{bytes} bytes");
            pair.step();
        }
    }
    assert!(memory(&*pair.near) == source, "the source is as it was");
    pair.is_quiet();
}

fn notifications_come_in_order(mut pair: Pair) {
    let key = pair.window(0, 4096, Access::Write);
    let peer = pair.near_peer;
    let mut told = Vec::with_capacity(64);
    let (mut posted, mut expected, mut completed) = (0u32, 0u32, 0);
    while expected < 3000 {
        // Some at a time, so that queues wrap in every phase, and nothing is overwritten that is to be read.
        while posted < 3000.min(expected + 37) {
            let (from, to) = (64 * u64::from(posted % 512), 64 * u64::from(posted % 64));
            pair.near.region(REGION).write(from as usize, &[posted as u8; 64]);
            let put = pair.put(from, key, to, u64::from(posted % 64));
            match pair.near.put_notify(&put, posted) {
                Ok(_) => posted += 1,
                Err(PostError::Full { .. }) => break,
                Err(error) => panic!("{error}"),
            }
        }
        pair.step();
        told.clear();
        pair.near.poll(&mut told);
        completed += told.len();
        told.clear();
        pair.far.poll(&mut told);
        for completion in &told {
            let immediate = expected;
            let (offset, bytes) = (64 * u64::from(immediate % 64), u64::from(immediate % 64));
            let notified = Completion::Notified { peer, key, offset, bytes, immediate };
            assert_eq!(*completion, notified);
            let mut there = vec![0; bytes as usize];
            pair.far.region(REGION).read(offset as usize, &mut there);
            assert!(there.iter().all(|&byte| byte == immediate as u8), "{immediate}");
            expected += 1;
        }
    }
    let (rest, _) = pair.told(3000 - completed, 0);
    assert!(rest.iter().all(|it| matches!(it, Completion::Done { outcome: Ok(()), .. })));
    assert_eq!(rest.len() + completed, 3000);
    pair.is_quiet();
}

fn what_is_got_is_what_is_there(mut pair: Pair) {
    let key = pair.window(100, 5000, Access::Read);
    fill(&*pair.far, 3);
    let there = memory(&*pair.far);
    for (offset, bytes) in [(0, 5000), (1, 1), (17, 4096), (4999, 1), (3, 0)] {
        let get = pair.get(key, offset, 1000, bytes);
        let request = pair.near.get(&get).unwrap();
        assert_eq!(pair.told(1, 0).0, [done(request)]);
        let here = memory(&*pair.near);
        let (from, bytes) = (100 + offset as usize, bytes as usize);
        assert!(here[1000..][..bytes] == there[from..][..bytes], "{offset} {bytes}");
    }
    assert!(memory(&*pair.far) == there);
    pair.is_quiet();
}

fn what_is_not_allowed_is_refused(mut pair: Pair) {
    let written = pair.window(4096, 4096, Access::Write);
    let read = pair.window(8192, 4096, Access::Read);
    fill(&*pair.near, 1);
    fill(&*pair.far, 2);
    let (near, far) = (memory(&*pair.near), memory(&*pair.far));
    let unknown = Key(written.0 ^ 1 << 22);
    for (key, offset, bytes, refusal) in [
        (unknown, 0, 1, Refusal::Unknown),
        (Key(0), 0, 1, Refusal::Unknown),
        (written, 4096, 1, Refusal::OutOfRange),
        (written, 0, 4097, Refusal::OutOfRange),
        (written, u64::MAX, 2, Refusal::OutOfRange),
        (written, 1 << 21, 1, Refusal::OutOfRange),
        (read, 0, 1, Refusal::ReadOnly),
    ] {
        let put = pair.put(0, key, offset, bytes);
        assert_eq!(pair.near.put(&put), Err(PostError::Remote(refusal)), "{put:?}");
        assert_eq!(pair.near.put_notify(&put, 1), Err(PostError::Remote(refusal)), "{put:?}");
        if refusal != Refusal::ReadOnly {
            let get = pair.get(key, offset, 0, bytes);
            assert_eq!(pair.near.get(&get), Err(PostError::Remote(refusal)), "{get:?}");
        }
    }
    for (offset, bytes) in [(BYTES as u64, 1), (0, BYTES as u64 + 1), (u64::MAX, 1)] {
        let put = pair.put(offset, written, 0, bytes);
        assert_eq!(pair.near.put(&put), Err(PostError::Local { offset, bytes }));
        let get = pair.get(read, 0, offset, bytes);
        assert_eq!(pair.near.get(&get), Err(PostError::Local { offset, bytes }));
    }
    let put = pair.put(0, written, 0, 1);
    let nobody = Peer(pair.far_peer.0 + 1);
    let nowhere = Put { target: Remote { peer: nobody, ..put.target }, ..put };
    assert_eq!(pair.near.put(&nowhere), Err(PostError::NotJoined(nobody)));
    let bytes_max = pair.near.facts().bytes_max;
    let long = Put { bytes: bytes_max + 1, ..put };
    let too_long = PostError::TooLong { bytes: bytes_max + 1, bytes_max };
    assert_eq!(pair.near.put(&long), Err(too_long));
    let start = Local { region: REGION, offset: 1 };
    let (bytes, access) = (BYTES as u64, Access::Read);
    let opening = Opening { start, bytes, access, label: 0 };
    assert_eq!(pair.far.open_window(&opening), Err(OpenError::Local { offset: 1, bytes }));
    pair.is_quiet();
    assert!(memory(&*pair.near) == near && memory(&*pair.far) == far);
}

fn a_window_that_is_taken_back_is_returned(mut pair: Pair) {
    let key = pair.window(0, 64, Access::Write);
    let kept = pair.window(64, 64, Access::Write);
    let peer = pair.far_peer;
    let put = pair.put(0, key, 0, 8);
    assert!(pair.far.close_window(key));
    assert!(!pair.far.close_window(key), "it is closed already");
    // Before the other side has heard of it the window may still be used, and its events count.
    let request = pair.near.put_notify(&put, 7).unwrap();
    let (near, far) = pair.told(2, 2);
    assert_eq!(near, [done(request), Completion::WindowClosed { peer, key }]);
    assert!(matches!(far[0], Completion::Notified { immediate: 7, .. }), "{far:?}");
    assert_eq!(far[1], Completion::WindowReturned { key });
    let refused = PostError::Remote(Refusal::Unknown);
    assert_eq!(pair.near.put(&put), Err(refused));
    assert_eq!(pair.near.get(&pair.get(key, 0, 0, 8)), Err(refused));
    let put = pair.put(0, kept, 0, 8);
    pair.near.put_notify(&put, 8).unwrap();
    pair.told(1, 1);
    pair.is_quiet();
}

fn queues_are_bounded(mut pair: Pair) {
    let key = pair.window(0, 64, Access::Write);
    let put = pair.put(0, key, 0, 8);
    let mut posted = 0;
    let full = loop {
        match pair.near.put(&put) {
            Ok(_) => posted += 1,
            Err(error) => break error,
        }
        assert!(posted < 1_000_000, "nothing stops it");
    };
    assert!(matches!(full, PostError::Full { .. }), "{full}");
    // A list with little room is given no more than it holds.
    let mut few = Vec::with_capacity(3);
    let patience_ends = pair.patience_ends();
    while few.len() < 3 {
        // Not every backend takes as many as three before something is done.
        posted += usize::from(pair.near.put(&put).is_ok());
        pair.step();
        pair.near.poll(&mut few);
        assert!(pair.clock.now_ns() < patience_ends, "{few:?}");
    }
    pair.near.poll(&mut few);
    assert!(few.len() == 3 && few.capacity() == 3);
    let mut told = few.len();
    while told < posted {
        told += pair.told(1, 0).0.len();
    }
    assert_eq!(told, posted);
    pair.near.put_notify(&put, 1).unwrap();
    pair.told(1, 1);
    pair.is_quiet();
}

fn who_ends_is_told_to_have_left(mut pair: Pair) {
    let key = pair.window(0, 64, Access::Write);
    let peer = pair.near_peer;
    let put = pair.put(0, key, 0, 8);
    let mut posted = 0;
    let (mut told, patience_ends) = (Vec::with_capacity(100), pair.patience_ends());
    // What is told to be done gets there, whether or not the other end has looked.
    while told.len() < 3 {
        if posted < 3 && pair.near.put_notify(&put, posted).is_ok() {
            posted += 1;
        }
        pair.step();
        pair.near.poll(&mut told);
        assert!(pair.clock.now_ns() < patience_ends, "{told:?}");
    }
    let (mut told, patience_ends) = (Vec::with_capacity(100), pair.patience_ends());
    let Pair { near, mut far, mut clock, .. } = pair;
    drop(near);
    while told.len() < 4 {
        clock.go_on(&mut [&mut *far]);
        far.poll(&mut told);
        assert!(clock.now_ns() < patience_ends, "{told:?}");
    }
    let words = |it: &Completion| matches!(it, Completion::Notified { .. });
    assert!(told[..3].iter().all(words), "{told:?}");
    assert_eq!(told[3], Completion::Left { peer, failure: Failure::Ended });
    assert_eq!(far.flush(peer), Err(PostError::NotJoined(peer)));
}

fn who_takes_nothing_is_given_up(mut pair: Pair) {
    let key = pair.window(0, 64, Access::Write);
    let peer = pair.far_peer;
    let put = pair.put(0, key, 0, 8);
    let (mut told, patience_ends) = (Vec::with_capacity(100), pair.patience_ends());
    let last = loop {
        // The far end does nothing at all. What is under way may be told to have failed first.
        let _ = pair.near.put_notify(&put, 1);
        pair.clock.go_on(&mut [&mut *pair.near]);
        told.clear();
        pair.near.poll(&mut told);
        if let Some(last) = told.iter().find(|it| !matches!(it, Completion::Done { .. })) {
            break *last;
        }
        assert!(pair.clock.now_ns() < patience_ends);
    };
    assert_eq!(last, Completion::Left { peer, failure: Failure::Unresponsive });
    assert_eq!(pair.near.put(&put), Err(PostError::NotJoined(peer)));
}
