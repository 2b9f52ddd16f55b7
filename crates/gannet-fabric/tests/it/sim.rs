//! The suite in virtual time, and what is its own.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use gannet_fabric::sim::{Faults, Hop, Network, Path, Sim};
use gannet_fabric::{
    Completion, Endpoint, Failure, Get, Key, Limits, Local, Opening, Peer, PostError, Put, Remote,
    Request,
};
use gannet_measure::clock::Clock as _;
use gannet_measure::random::Random;
use gannet_memory::{Access, SharedRegion};
use gannet_wire::rdma::HEADER_LEN;

use crate::conformance::{Clock, Pair, REGION, SUITE};
use crate::shm::limits;

const MS: u64 = 1_000_000;
const S: u64 = 1000 * MS;

/// A link of 100 Gbit/s and a microsecond.
pub const LINK: Hop = Hop { bytes_per_s: 12_500_000_000, latency_ns: 1000, queue_bytes: 1 << 20 };

/// Two links with a switch between them, and what it does to packets.
pub fn switched(faults: Faults) -> Path {
    let switch = Hop { latency_ns: 300, queue_bytes: 64 << 10, ..LINK };
    Path { faults, ..Path::new(vec![LINK, switch, LINK]) }
}

/// All that a path can do, at once.
pub fn bad() -> Faults {
    Faults {
        loss: 0.05,
        doubling: 0.05,
        damage: 0.05,
        reordering: 0.1,
        reordering_ns: 20_000,
        cuts: vec![100_000..400_000, 2 * MS..3 * MS],
    }
}

/// Nothing but a cut.
fn cut(times: Range<u64>) -> Faults {
    Faults { cuts: vec![times], ..Faults::default() }
}

pub fn joined(network: &Network, limits: &Limits, there: &Path, back: &Path) -> [(Sim, Peer); 2] {
    network.cable(there.clone(), back.clone()).map(|cable| {
        let mut endpoint = network.endpoint(limits.clone());
        let peer = endpoint.join(cable).unwrap();
        (endpoint, peer)
    })
}

fn pair(seed: u64, there: &Path, back: &Path) -> Pair {
    let [(near, far_peer), (far, near_peer)] = joined(&Network::new(seed), &limits(), there, back);
    let clock = Clock::in_virtual_time();
    Pair::new((Box::new(near), far_peer), (Box::new(far), near_peer), clock)
}

#[test]
fn conforms() {
    for (name, test) in SUITE {
        println!("{name}");
        test(pair(1, &Path::new(vec![LINK]), &Path::new(vec![LINK])));
        let far_away = Hop { latency_ns: 5 * MS, bytes_per_s: 1_250_000_000, ..LINK };
        test(pair(1, &Path::new(vec![far_away]), &Path::new(vec![LINK, far_away])));
    }
}

#[test]
fn conforms_over_bad_paths() {
    let seeds = if std::env::var_os("GANNET_LONG").is_some() { 200 } else { 20 };
    for (name, test) in SUITE {
        for seed in 0..seeds {
            println!("{name}, seed {seed}");
            // One way only, the other one, and both.
            let [there, back] =
                [2, 1].map(|way| switched(if seed % 3 == way { Faults::default() } else { bad() }));
            test(pair(seed, &there, &back));
        }
    }
}

/// A run of PUTs and GETs as chance has it: what was told, when and by whom.
fn run(seed: u64, faults: &Faults) -> Vec<(u64, bool, Completion)> {
    let path = switched(faults.clone());
    let mut pair = pair(seed, &path, &path);
    let key = pair.window(0, 1 << 15, Access::Write);
    let (mut told, mut chance) = (Vec::new(), Random::new(3));
    let (mut posted, mut done) = (0, 0);
    while done < 300 {
        while posted < 300 && chance.below(4) > 0 {
            let (at, bytes) = (chance.below(1 << 14), chance.below(1 << 14));
            let request = match chance.below(3) {
                0 => pair.near.put(&pair.put(at, key, at, bytes)),
                1 => pair.near.put_notify(&pair.put(at, key, at, bytes), posted),
                _ => pair.near.get(&pair.get(key, at, at, bytes)),
            };
            posted += u32::from(request.is_ok());
        }
        pair.step();
        let now = pair.clock.now_ns();
        for (is_far, end) in [(false, &mut pair.near), (true, &mut pair.far)] {
            let mut completions = Vec::with_capacity(8);
            end.poll(&mut completions);
            let is_done = |it: &&Completion| matches!(it, Completion::Done { outcome: Ok(()), .. });
            done += completions.iter().filter(is_done).count();
            told.extend(completions.into_iter().map(|completion| (now, is_far, completion)));
        }
    }
    told
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let first = run(5, &bad());
    assert!(first == run(5, &bad()));
    assert!(first != run(6, &bad()), "chance has a part in it");
    let times = |seed| run(seed, &Faults::default()).into_iter().map(|(at, ..)| at);
    assert!(times(1).eq(times(2)), "and none where nothing goes wrong");
}

/// Two joined endpoints with a region each, and a window of all of the far one's.
struct World {
    network: Network,
    near: Sim,
    far: Sim,
    far_peer: Peer,
    near_peer: Peer,
    key: Key,
    /// What the near end was told, and the far one, and when.
    told: [Vec<(u64, Completion)>; 2],
}

impl World {
    fn new(limits: &Limits, there: &Path, back: &Path, bytes: u64) -> Self {
        let network = Network::new(11);
        let [(mut near, far_peer), (mut far, near_peer)] = joined(&network, limits, there, back);
        for end in [&mut near, &mut far] {
            end.add_region(SharedRegion::new(bytes as usize).unwrap()).unwrap();
        }
        let start = Local { region: REGION, offset: 0 };
        let opening = Opening { start, bytes, access: Access::Write, label: 0 };
        let key = far.open_window(&opening).unwrap();
        let told = Default::default();
        let mut world = Self { network, near, far, far_peer, near_peer, key, told };
        world.run_until(|world| !world.told[0].is_empty());
        world.told[0].clear();
        world
    }

    fn now(&self) -> u64 {
        self.network.now_ns()
    }

    fn poll(&mut self) {
        let now = self.now();
        for (end, told) in [&mut self.near, &mut self.far].into_iter().zip(&mut self.told) {
            let mut completions = Vec::with_capacity(64);
            end.progress(now);
            end.poll(&mut completions);
            told.extend(completions.into_iter().map(|completion| (now, completion)));
        }
    }

    /// Goes on from one event to the next; gives how many there were.
    fn run_until(&mut self, is_over: impl Fn(&Self) -> bool) -> u64 {
        let mut events = 0;
        loop {
            self.poll();
            if is_over(self) {
                return events;
            }
            let due = self.network.due_ns().expect("something is to happen");
            self.near.progress(due);
            events += 1;
        }
    }

    /// Goes on to a time, whatever happens until then.
    fn run_to(&mut self, time: u64) {
        loop {
            self.poll();
            let due = self.network.due_ns().unwrap_or(u64::MAX).min(time);
            if self.now() >= time {
                return;
            }
            self.near.progress(due);
        }
    }

    fn put(&mut self, bytes: u64, immediate: u32) -> Result<(), PostError> {
        let target = Remote { peer: self.far_peer, key: self.key, offset: 0 };
        let source = Local { region: REGION, offset: 0 };
        self.near.put_notify(&Put { source, target, bytes }, immediate).map(drop)
    }
}

#[test]
fn times_are_those_of_the_path() {
    let path = Path { packet_bytes: 4000, ..switched(Faults::default()) };
    let mut world = World::new(&Limits::default(), &path, &path, 1 << 20);
    let begin = world.now();
    world.put(8, 1).unwrap();
    world.run_until(|world| !world.told[1].is_empty());
    let came = world.told[1][0].0 - begin;
    assert_eq!(came, path.packet_ns(8).ceil() as u64);
    world.run_until(|world| !world.told[0].is_empty());
    // The acknowledgement is a packet without data.
    assert_eq!(world.told[0][0].0 - begin, came + path.packet_ns(0).ceil() as u64);

    // As fast as a link, where 32 packets fill the path.
    let begin = world.now();
    world.put(1_000_000, 2).unwrap();
    world.run_until(|world| world.told[1].len() == 2);
    let seconds = (world.now() - begin) as f64 * 1e-9;
    let of_link = 250.0 * (4000 + HEADER_LEN) as f64 / 12.5e9;
    assert!(seconds > of_link && seconds < 1.1 * of_link, "{seconds} {of_link}");

    // And 32 packets for each round trip, where they do not.
    let far_away =
        Path { packet_bytes: 1000, ..Path::new(vec![Hop { latency_ns: 100_000, ..LINK }]) };
    let mut world = World::new(&Limits::default(), &far_away, &far_away, 1 << 20);
    let begin = world.now();
    world.put(1_000_000, 1).unwrap();
    world.run_until(|world| !world.told[1].is_empty());
    let seconds = (world.now() - begin) as f64 * 1e-9;
    let of_window = 1000.0 / 32.0 * 200e-6;
    assert!(seconds > 0.95 * of_window && seconds < 1.1 * of_window, "{seconds} {of_window}");
}

#[test]
fn a_path_of_milliseconds_is_learned_once() {
    let path = Path { packet_bytes: 1000, ..Path::new(vec![Hop { latency_ns: 5 * MS, ..LINK }]) };
    let mut world = World::new(&Limits::default(), &path, &path, 1 << 20);
    let timeouts = [1, 2].map(|number| {
        world.put(1_000_000, number).unwrap();
        world.run_until(|world| world.told[1].len() == number as usize);
        world.near.traffic(world.far_peer).unwrap().timeouts
    });
    // Answers come after 10 ms. The first window is sent again after 1, 3 and 7 ms, the second one after 8, the
    // third one is waited for, and what it tells is kept to.
    assert_eq!(timeouts, [4 * 32; 2]);
}

#[test]
fn hours_pass_in_moments() {
    let path = switched(Faults { loss: 0.01, ..Faults::default() });
    let mut world = World::new(&Limits::default(), &path, &path, 4096);
    for second in 1..10_000u32 {
        world.run_to(u64::from(second) * S);
        world.put(100, second).unwrap();
    }
    world.run_to(10_000 * S);
    let times = world.told[1].iter().zip(1..).map(|(&(at, completion), second)| {
        assert!(
            matches!(completion, Completion::Notified { immediate, .. } if immediate == second)
        );
        at - u64::from(second) * S
    });
    // A packet that is lost comes after the first time to wait, which is a millisecond.
    let late = times.filter(|&after| after > path.packet_ns(100).ceil() as u64);
    let late: Vec<_> = late.collect();
    assert_eq!(world.told[1].len(), 9999);
    assert!((50..200).contains(&late.len()) && late.iter().all(|&at| at > MS), "{late:?}");
}

#[test]
fn a_queue_that_is_too_short_costs_time_and_no_data() {
    let narrow = Hop { bytes_per_s: 1_250_000_000, queue_bytes: 16 << 10, ..LINK };
    let there = Path::new(vec![LINK, narrow]);
    let mut world = World::new(&Limits::default(), &there, &Path::new(vec![LINK]), 16 << 20);
    let bytes: Vec<u8> = (0..16 << 20).map(|at: u32| ((at * 31) >> 7) as u8).collect();
    world.near.region(REGION).write(0, &bytes);
    let begin = world.now();
    world.put(bytes.len() as u64, 1).unwrap();
    world.run_until(|world| !world.told[1].is_empty());
    let mut came = vec![0; bytes.len()];
    world.far.region(REGION).read(0, &mut came);
    assert!(came == bytes);
    let fates = world.near.fates(world.far_peer).unwrap();
    assert!(fates.dropped > 0 && fates.lost == 0 && fates.cut == 0, "{fates:?}");
    let seconds = (world.now() - begin) as f64 * 1e-9;
    assert!(seconds > bytes.len() as f64 / 1.25e9, "{seconds}");
}

#[test]
fn a_cut_for_a_while_is_waited_for() {
    let deadline = Duration::from_secs(2);
    let limits = Limits { deadline, ..Limits::default() };
    let path = switched(cut(10 * MS..1500 * MS));
    let mut world = World::new(&limits, &path, &path, 1 << 16);
    for number in 0..30 {
        world.run_to(MS * (1 + number));
        world.put(1000, number as u32).unwrap();
    }
    world.run_until(|world| world.told[1].len() == 30);
    assert!(world.now() > 1500 * MS && world.now() < 2000 * MS, "{}", world.now());
    assert!(world.near.fates(world.far_peer).unwrap().cut > 0);
}

/// When each end gives the other one up.
fn given_up(world: &mut World) -> [(u64, Failure); 2] {
    let left = |told: &[(u64, Completion)]| {
        told.iter().find_map(|&(at, completion)| match completion {
            Completion::Left { failure, .. } => Some((at, failure)),
            _ => None,
        })
    };
    world.run_until(|world| world.told.iter().all(|told| left(told).is_some()));
    [0, 1].map(|end| left(&world.told[end]).unwrap())
}

#[test]
fn a_path_that_stays_cut_is_noticed_by_the_deadline() {
    let limits = Limits { deadline: Duration::from_millis(300), ..Limits::default() };
    let cut = switched(cut(50 * MS..u64::MAX));
    let whole = switched(Faults::default());
    for (there, back) in [(&cut, &whole), (&whole, &cut), (&cut, &cut)] {
        let mut world = World::new(&limits, there, back, 4096);
        // Nobody has anything to say, or one has.
        assert_eq!(given_up(&mut world), [(350 * MS, Failure::Unresponsive); 2]);
        let mut world = World::new(&limits, there, back, 4096);
        world.run_to(60 * MS);
        world.put(8, 1).unwrap();
        let [(near, _), (far, _)] = given_up(&mut world);
        assert_eq!((near, far), (350 * MS, 350 * MS));
        assert!(world.near.flush(world.far_peer).is_err());
    }
}

#[test]
fn an_end_that_is_dropped_is_noticed_after_its_last_word() {
    let path = switched(Faults::default());
    let World { network, mut near, far, far_peer, .. } =
        World::new(&Limits::default(), &path, &path, 4096);
    let begin = network.now_ns();
    drop(far);
    let mut told = Vec::with_capacity(4);
    while told.is_empty() {
        near.progress(network.due_ns().unwrap());
        near.poll(&mut told);
    }
    assert_eq!(told, [Completion::Left { peer: far_peer, failure: Failure::Ended }]);
    assert_eq!(network.now_ns(), begin + path.latency_ns());
    assert_eq!(network.due_ns(), None, "nothing is left of it");

    // Many words are on their way, and those that arrive are told first.
    let World { network, mut near, mut far, far_peer, near_peer, key, .. } =
        World::new(&Limits::default(), &path, &path, 4096);
    let source = Local { region: REGION, offset: 0 };
    let target = Remote { peer: far_peer, key, offset: 0 };
    for number in 0..20 {
        near.put_notify(&Put { source, target, bytes: 100 }, number).unwrap();
    }
    near.get(&Get { source: target, target: source, bytes: 8 }).unwrap();
    drop(near);
    let mut told = Vec::with_capacity(64);
    while !matches!(told.last(), Some(Completion::Left { .. })) {
        far.progress(network.due_ns().unwrap());
        far.poll(&mut told);
    }
    let words = told.iter().take_while(|it| matches!(it, Completion::Notified { .. }));
    assert_eq!(words.count(), 20, "{told:?}");
    assert_eq!(told[20..], [Completion::Left { peer: near_peer, failure: Failure::Ended }]);
}

/// A path as chance has it, which may be slow, narrow, bad and cut for a while, or for good.
fn any_path(chance: &mut Random) -> Path {
    let count = 1 + chance.below(3);
    let hop = |_| Hop {
        bytes_per_s: 10_000_000 << chance.below(11),
        latency_ns: 1 << chance.below(22),
        queue_bytes: chance.below(200_000),
    };
    let hops = (0..count).map(hop).collect();
    let mut share = |most: f64| if chance.below(2) == 0 { 0.0 } else { most * chance.unit() };
    let faults = Faults {
        loss: share(0.2),
        doubling: share(0.2),
        damage: share(0.2),
        reordering: share(0.3),
        ..Faults::default()
    };
    let start = chance.below(2 * S);
    let cut = start..start + chance.below(S);
    let reordering_ns = chance.below(3 * MS);
    let packet_bytes = 100 + chance.below(9000) as usize;
    Path { hops, packet_bytes, faults: Faults { reordering_ns, cuts: vec![cut], ..faults } }
}

/// One end of a pair, what it has posted, and what it was told.
struct End {
    endpoint: Sim,
    peer: Peer,
    /// The other one's window.
    key: Option<Key>,
    /// Requests that were not told to be done, oldest first.
    posted: VecDeque<Request>,
    sent: u32,
    heard: u32,
    left: Option<Failure>,
}

/// Bytes of a slot of a window, and slots.
const SLOT: u64 = 20_000;
const SLOTS: u64 = 8;

impl End {
    fn new((mut endpoint, peer): (Sim, Peer)) -> Self {
        let region = SharedRegion::new(2 * (SLOT * SLOTS) as usize).unwrap();
        endpoint.add_region(region).unwrap();
        let start = Local { region: REGION, offset: 0 };
        let opening = Opening { start, bytes: SLOT * SLOTS, access: Access::Write, label: 0 };
        endpoint.open_window(&opening).unwrap();
        Self { endpoint, peer, key: None, posted: VecDeque::new(), sent: 0, heard: 0, left: None }
    }

    fn len(number: u32) -> usize {
        (u64::from(number) * 7919 % SLOT) as usize
    }

    /// Puts the next message, if none of those before is in its slot, here or there.
    fn post(&mut self, heard_there: u32) {
        let number = self.sent;
        let (Some(key), true) = (self.key, number - heard_there < SLOTS as u32) else { return };
        let offset = u64::from(number) % SLOTS * SLOT;
        let source = Local { region: REGION, offset: SLOT * SLOTS + offset };
        let bytes = vec![number as u8 ^ 0x5a; Self::len(number)];
        let target = Remote { peer: self.peer, key, offset };
        let put = Put { source, target, bytes: bytes.len() as u64 };
        if self.posted.len() < SLOTS as usize {
            self.endpoint.region(REGION).write(source.offset as usize, &bytes);
            match self.endpoint.put_notify(&put, number) {
                Ok(request) => (self.posted.push_back(request), self.sent += 1).0,
                Err(PostError::Full { .. } | PostError::NotJoined(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    fn go_on(&mut self, now: u64) {
        let mut told = Vec::with_capacity(16);
        self.endpoint.progress(now);
        self.endpoint.poll(&mut told);
        for completion in told {
            assert_eq!(self.left, None, "{completion:?} after its end");
            match completion {
                Completion::WindowOpened { window, .. } => self.key = Some(window.key),
                Completion::Done { request, outcome } => {
                    assert_eq!(self.posted.pop_front(), Some(request));
                    assert!(!matches!(outcome, Err(Failure::Refused(_))), "{outcome:?}");
                }
                Completion::Notified { offset, bytes, immediate, .. } => {
                    assert_eq!((immediate, bytes), (self.heard, Self::len(immediate) as u64));
                    let mut there = vec![0; bytes as usize];
                    self.endpoint.region(REGION).read(offset as usize, &mut there);
                    assert!(there.iter().all(|&byte| byte == immediate as u8 ^ 0x5a));
                    self.heard += 1;
                }
                Completion::Left { failure, .. } => self.left = Some(failure),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn whatever_the_path_each_operation_is_told_once_and_in_order() {
    let seeds = if std::env::var_os("GANNET_LONG").is_some() { 2000 } else { 100 };
    let (mut whole, mut parted) = (0, 0);
    for seed in 0..seeds {
        println!("seed {seed}");
        let mut chance = Random::stream(seed, 99);
        let network = Network::new(seed);
        let deadline = Duration::from_millis(1 << chance.below(12));
        let limits = Limits { deadline, ..Limits::default() };
        let [there, back] = [(), ()].map(|()| any_path(&mut chance));
        let [mut near, mut far] = joined(&network, &limits, &there, &back).map(End::new);
        let messages = 1 + chance.below(300) as u32;
        let mut now = 0;
        while now < 100 * S {
            for end in [&mut near, &mut far] {
                end.go_on(now);
            }
            let (near_heard, far_heard) = (near.heard, far.heard);
            for (end, heard) in [(&mut near, far_heard), (&mut far, near_heard)] {
                let posts = chance.below(3);
                for _ in 0..posts {
                    if end.sent < messages {
                        end.post(heard);
                    }
                }
            }
            let is_done = |end: &End, other: &End| {
                end.left.is_some() || (other.heard == messages && end.posted.is_empty())
            };
            if is_done(&near, &far)
                && is_done(&far, &near)
                && near.left.is_some() == far.left.is_some()
            {
                break;
            }
            now = network.due_ns().map_or(now + MS, |due| due.max(now + 1));
        }
        let of = |end: &End| (end.sent, end.heard, end.posted.len(), end.left);
        match (near.left, far.left) {
            (None, None) => {
                assert_eq!(of(&near), (messages, messages, 0, None), "{now}");
                assert_eq!(of(&far), (messages, messages, 0, None), "{now}");
                whole += 1;
            }
            (Some(_), Some(_)) => {
                assert!(near.posted.is_empty() && far.posted.is_empty());
                parted += 1;
            }
            other => panic!("{other:?} at {now}: {:?} {:?}", of(&near), of(&far)),
        }
    }
    assert!(whole > seeds / 5 && parted > seeds / 5, "{whole} {parted}");
}
