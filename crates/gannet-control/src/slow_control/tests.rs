//! Both ends over a network that loses, doubles and reorders, in virtual time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::slow_control::{Address, Answer, LEN_MAX, Repr};

use super::*;

const MS: u64 = 1_000_000;
const TIMING: Timing = Timing { retry_ns: 10 * MS, deadline_ns: 200 * MS };

fn modules(count: u32) -> Vec<Module> {
    // Some share an address.
    let address = |id: u32| SocketAddr::from(([10, 0, 0, (id / 2) as u8], 7000));
    (0..count).map(|id| Module { id: id * 10, address: address(id) }).collect()
}

/// Datagrams under way, by the time of their arrival.
struct Network {
    random: Random,
    loss: f64,
    under_way: BTreeMap<(u64, u64), (SocketAddr, Vec<u8>)>,
    sent: u64,
}

impl Network {
    fn new(seed: u64, loss: f64) -> Self {
        Self { random: Random::new(seed), loss, under_way: BTreeMap::new(), sent: 0 }
    }

    /// Loses some, doubles some, and lets some take so long that others overtake them.
    fn send(&mut self, peer: SocketAddr, bytes: &[u8], now_ns: u64) {
        let copies = 1 + u64::from(self.random.chance(0.1));
        for _ in 0..copies {
            if self.random.chance(self.loss) {
                continue;
            }
            let slow = if self.random.chance(0.1) { 300 * MS } else { MS };
            self.sent += 1;
            let arrival = now_ns + 1 + self.random.below(slow);
            self.under_way.insert((arrival, self.sent), (peer, bytes.to_vec()));
        }
    }

    fn next_ns(&self) -> Option<u64> {
        self.under_way.keys().next().map(|(at, _)| *at)
    }

    fn arrived(&mut self, now_ns: u64) -> Option<(SocketAddr, Vec<u8>)> {
        let entry = self.under_way.first_entry()?;
        (entry.key().0 <= now_ns).then(|| entry.remove())
    }
}

/// A commander, its modules, and what these applied in their order.
struct World {
    commander: Commander,
    modules: Vec<(Module, Responder, Vec<String>)>,
    down: Network,
    up: Network,
    outcomes: Vec<Outcome>,
    now_ns: u64,
}

impl World {
    fn new(seed: u64, loss: f64, count: u32) -> Self {
        let modules = modules(count);
        Self {
            commander: Commander::new(seed, &modules, TIMING),
            modules: modules
                .into_iter()
                .map(|module| (module.clone(), Responder::new(module.id), Vec::new()))
                .collect(),
            down: Network::new(seed, loss),
            up: Network::new(!seed, loss),
            outcomes: Vec::new(),
            now_ns: 0,
        }
    }

    /// Goes on until nothing is under way any more.
    fn run(&mut self) {
        loop {
            let (down, now_ns) = (&mut self.down, self.now_ns);
            self.commander.due(now_ns, |to, bytes| down.send(to, bytes, now_ns));
            while let Some((to, bytes)) = self.down.arrived(now_ns) {
                for (module, responder, applied) in &mut self.modules {
                    if module.address != to {
                        continue;
                    }
                    let mut answer = [0; LEN_MAX];
                    let apply = |key: &str, value: &str| match key {
                        "odd" => Verdict::UnknownKey,
                        "locked" => Verdict::Refused("it is locked".into()),
                        _ => {
                            applied.push(value.to_owned());
                            Verdict::Applied
                        }
                    };
                    if let Some(len) = responder.take(&bytes, apply, &mut answer) {
                        self.up.send(to, &answer[..len], now_ns);
                    }
                }
            }
            while let Some((from, bytes)) = self.up.arrived(now_ns) {
                self.commander.take(from, &bytes, now_ns);
            }
            self.outcomes.extend(self.commander.ended());
            let next = [self.commander.wake_ns(), self.down.next_ns(), self.up.next_ns()];
            let Some(next_ns) = next.into_iter().flatten().min() else { return };
            self.now_ns = next_ns.max(now_ns);
        }
    }
}

/// Commands of every module under faults, as many as `loss` says.
fn commands_end_once(seed: u64, loss: f64) -> (usize, usize) {
    const COMMANDS: usize = 40;
    let mut world = World::new(seed, loss, 7);
    for place in 0..7 {
        for number in 0..COMMANDS {
            let key = ["hv", "hv", "threshold", "odd", "locked"][number % 5];
            submit(&mut world.commander, place, key, &number.to_string()).unwrap();
        }
    }
    world.run();
    let mut failed = 0;
    for (module, _, applied) in &world.modules {
        let what = format!("seed {seed}, module {}", module.id);
        let own = || world.outcomes.iter().filter(|outcome| outcome.module == module.id);
        let values: Vec<_> = own().map(|outcome| outcome.value.clone()).collect();
        let expected: Vec<_> = (0..COMMANDS).map(|number| number.to_string()).collect();
        assert_eq!(values, expected, "{what}: each command ends once, in order");
        let numbers: Vec<usize> = applied.iter().map(|value| value.parse().unwrap()).collect();
        assert!(numbers.is_sorted_by(|a, b| a < b), "{what}: once and in order: {numbers:?}");
        for outcome in own() {
            let is_applied = applied.contains(&outcome.value);
            let as_told = match (&outcome.ending, outcome.key.as_str()) {
                (Ending::Applied, "hv" | "threshold") => is_applied,
                (Ending::UnknownKey, "odd") => !is_applied,
                (Ending::Refused(reason), "locked") => !is_applied && reason == "it is locked",
                (Ending::NotAcknowledged, _) => {
                    failed += 1;
                    outcome.took_ns >= TIMING.deadline_ns
                }
                _ => false,
            };
            assert!(as_told, "{what}: {outcome}");
        }
    }
    let counts = world.commander.counts();
    assert_eq!(counts.acknowledged as usize + failed, 7 * COMMANDS, "seed {seed}");
    // A module has an address with another, which the commands to it reach as well.
    assert_eq!((counts.foreign, counts.damaged), (0, 0), "seed {seed}");
    (failed, counts.doubled as usize)
}

#[test]
fn each_command_is_acknowledged_once_or_reported_and_none_is_applied_twice() {
    let seeds = if std::env::var_os("GANNET_LONG").is_some() { 5000 } else { 100 };
    let (mut failed, mut doubled) = (0, 0);
    for seed in 0..seeds {
        let (more_failed, more_doubled) = commands_end_once(seed, 0.1);
        (failed, doubled) = (failed + more_failed, doubled + more_doubled);
    }
    assert!(failed == 0 && doubled > 1000, "{failed} failed, {doubled} doubled");
}

#[test]
fn what_is_given_up_is_reported_and_what_follows_goes_on() {
    let failed: usize = (0..100).map(|seed| commands_end_once(seed, 0.8).0).sum();
    assert!(failed > 100, "{failed}");
}

fn submit(
    commander: &mut Commander,
    place: usize,
    key: &str,
    value: &str,
) -> Result<Range<u32>, QueueFull> {
    commander.submit(place, [(key, value)].into_iter())
}

fn submitted(commands: usize) -> Commander {
    let mut commander = Commander::new(5, &modules(3), TIMING);
    for number in 0..commands {
        submit(&mut commander, 1, "hv", &number.to_string()).unwrap();
    }
    commander
}

/// The datagrams that are due.
fn due(commander: &mut Commander, now_ns: u64) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut sent = Vec::new();
    commander.due(now_ns, |to, bytes| sent.push((to, bytes.to_vec())));
    sent
}

fn applied(address: Address) -> Vec<u8> {
    let repr = Repr::Acknowledgement { address, answer: Answer::Applied };
    let mut bytes = vec![0; repr.buffer_len()];
    repr.emit(&mut bytes);
    bytes
}

#[test]
fn a_command_is_repeated_and_given_up_in_time_before_the_next_begins() {
    let mut commander = submitted(2);
    assert_eq!(commander.wake_ns(), Some(0));
    let first = due(&mut commander, 0);
    assert_eq!(first.len(), 1);
    assert_eq!(first[0].0, "10.0.0.0:7000".parse().unwrap());
    assert_eq!(commander.wake_ns(), Some(10 * MS));
    assert!(due(&mut commander, 10 * MS - 1).is_empty());
    for time in 1..20 {
        assert_eq!(due(&mut commander, time * 10 * MS), first, "{time}");
    }
    let next = due(&mut commander, 200 * MS);
    let Ok(Repr::Command { address, value, .. }) = Repr::parse(&next[0].1) else { panic!() };
    assert_eq!((address, value), (Address { session: 5, number: 2, module: 10 }, "1"));
    let ended = commander.ended();
    assert_eq!(ended.len(), 1);
    let text =
        "module 10: hv = 0 not acknowledged: it may or may not be applied (20 attempts, 200.0 ms)";
    assert_eq!(ended[0].to_string(), text);
    commander.take(next[0].0, &applied(Address { number: 1, ..address }), 201 * MS);
    assert_eq!((commander.counts().late, commander.ended().len()), (1, 0));
    commander.take(next[0].0, &applied(address), 201 * MS);
    assert_eq!(commander.ended()[0].to_string(), "module 10: hv = 1 applied (1 attempt, 1.0 ms)");
    assert_eq!(commander.wake_ns(), None);
}

#[test]
fn acknowledgements_of_strangers_and_doubles_change_nothing_and_are_counted() {
    let mut commander = submitted(2);
    let sent = due(&mut commander, 0);
    let home = sent[0].0;
    let address = Address { session: 5, number: 1, module: 10 };
    let strangers = [
        (home, Address { session: 6, ..address }),
        (home, Address { number: 2, ..address }),
        (home, Address { number: 0, ..address }),
        (home, Address { module: 20, ..address }),
        (home, Address { module: 11, ..address }),
        ("10.0.0.0:7001".parse().unwrap(), address),
        ("10.0.0.1:7000".parse().unwrap(), address),
    ];
    for (from, address) in strangers {
        commander.take(from, &applied(address), 1);
        assert!(commander.ended().is_empty(), "{from} {address:?}");
    }
    commander.take(home, &sent[0].1, 1);
    commander.take(home, b"garbage", 1);
    commander.take(home, &applied(address), 2);
    commander.take(home, &applied(address), 3);
    assert_eq!(commander.ended().len(), 1);
    let expected =
        Counts { acknowledged: 1, doubled: 1, foreign: 7, damaged: 2, ..Counts::default() };
    assert_eq!(commander.counts(), expected);
}

#[test]
fn a_queue_takes_so_many_and_no_more() {
    let mut commander = submitted(QUEUE_MAX);
    assert_eq!(submit(&mut commander, 1, "hv", "x"), Err(QueueFull(10)));
    assert!(submit(&mut commander, 0, "hv", "x").is_ok(), "another module has its own");
    due(&mut commander, 0);
    assert!(submit(&mut commander, 1, "hv", "x").is_ok(), "one is under way");
}

#[test]
fn a_module_remembers_sessions_and_leaves_what_was_overtaken() {
    let mut responder = Responder::new(4);
    let mut applied = Vec::new();
    let mut take = |session, number| {
        let address = Address { session, number, module: 4 };
        let value = number.to_string();
        let command = Repr::Command { address, key: "hv", value: &value };
        let mut bytes = vec![0; command.buffer_len()];
        command.emit(&mut bytes);
        let mut answer = [0; LEN_MAX];
        let apply = |_: &str, _: &str| {
            applied.push((session, number));
            Verdict::Applied
        };
        responder.take(&bytes, apply, &mut answer).is_some()
    };
    let told = [(1, 1), (1, 3), (1, 2), (1, 3), (2, 1), (1, 3), (2, 1)].map(|(s, n)| take(s, n));
    assert_eq!(told, [true, true, false, true, true, true, true]);
    assert!((3..SESSIONS_MAX as u64 + 1).all(|session| take(session, 1)));
    assert!(take(1, 3) && take(99, 1), "one more than are remembered");
    assert!(take(1, 3) && take(2, 1), "the one heard of longest ago is forgotten");
    assert_eq!(applied[..3], [(1, 1), (1, 3), (2, 1)]);
    assert_eq!(applied[applied.len() - 2..], [(99, 1), (2, 1)]);
    let received = responder.received();
    let expected = Received {
        applied: 3 + SESSIONS_MAX as u64,
        doubled: 5,
        overtaken: 1,
        ..Received::default()
    };
    assert_eq!(received, expected);
}

#[test]
fn behind_a_command_that_failed_the_rest_of_its_batch_is_not_sent() {
    let mut commander = submitted(0);
    let batch = [("hv", "1"), ("hv", "2"), ("hv", "3")];
    assert_eq!(commander.submit(1, batch.into_iter()), Ok(1..4));
    assert_eq!(commander.submit(1, [("hv", "4")].into_iter()), Ok(4..5));
    due(&mut commander, 0);
    let home = "10.0.0.0:7000".parse().unwrap();
    commander.take(home, &applied(Address { session: 5, number: 1, module: 10 }), 1);
    due(&mut commander, 2);
    let sent = due(&mut commander, 2 + TIMING.deadline_ns);
    let texts = commander.ended().into_iter().map(|outcome| (outcome.number, outcome.ending));
    let expected = [(1, Ending::Applied), (2, Ending::NotAcknowledged), (3, Ending::NotSent)];
    assert_eq!(texts.collect::<Vec<_>>(), expected);
    let Ok(Repr::Command { address, value, .. }) = Repr::parse(&sent[0].1) else { panic!() };
    assert_eq!((address.number, value), (4, "4"));
}
