//! Every fault of a clock, on a stream that is live, absent but for the fault, or the first of
//! the run: the others lose no primitive and no decision, and the stream is named.

use std::collections::BTreeSet;

use gannet_dune::sampling::Sampling;
use gannet_dune::{TriggerChain, TriggerConfig, TriggerOutput};
use gannet_trigger::merge::{MergeConfig, MergeDrop, TimeReference};
use gannet_trigger::module_level::ModuleLevelConfig;
use gannet_trigger::source::{Periodic, SourceConfig};
use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_primitive::Repr;

const STREAMS: usize = 8;
const START: u64 = 107_544_625_968_525_251;
const MS_NS: u64 = 1_000_000;
/// Ticks of a millisecond.
const MS: u64 = 62_500;
const SECOND: u64 = 1000 * MS;
const DAY: u64 = 86_400 * SECOND;
/// Ticks between two decisions of the periodic source.
const INTERVAL: u64 = 10 * MS;

/// What a clock does that should show `right`, `since` milliseconds after the fault began.
type Clock = fn(right: u64, since: u64) -> u64;

const FAULTS: [(&str, Clock); 9] = [
    ("one second ahead", |right, _| right + SECOND),
    ("a day ahead", |right, _| right + DAY),
    ("one second behind", |right, _| right - SECOND),
    ("a day behind", |right, _| right - DAY),
    ("a leap to the end of time", |_, since| u64::MAX / 2 + since * MS),
    ("drift", |right, since| right + since * MS / 2),
    ("frozen", |right, since| right - since * MS),
    ("back to zero", |_, since| (since + 1) * MS),
    ("random", |_, since| (since + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    /// It is right for a second, wrong for two, and right again.
    Live,
    /// All that is heard of it is one wrong claim, after a second.
    Absent,
    /// It is heard a second before the others, wrong for three seconds, and then right.
    First,
}

/// The stream with the fault.
const FAULTY: usize = 3;

struct Bench {
    chain: TriggerChain,
    out: TriggerOutput,
    ordered: Vec<TriggerPrimitive>,
    /// Number of primitives that had come before each time that the order began anew.
    restarts: Vec<usize>,
    decisions: BTreeSet<u64>,
    sent: Vec<u64>,
    now_ns: u64,
}

impl Bench {
    fn new(merge: MergeConfig, streams: usize) -> Self {
        let periodic = Periodic { interval_ticks: INTERVAL, ..Periodic::default() };
        let config = TriggerConfig {
            merge,
            source: vec![SourceConfig::Periodic(periodic)],
            // Decisions come in bursts when data come faster than time goes by.
            module_level: ModuleLevelConfig {
                records_in_flight_max: 10_000,
                ..ModuleLevelConfig::default()
            },
            ..TriggerConfig::default()
        };
        Self {
            chain: TriggerChain::new(&config, streams, 1, Sampling::default()).unwrap(),
            out: TriggerOutput::default(),
            ordered: Vec::new(),
            restarts: Vec::new(),
            decisions: BTreeSet::new(),
            sent: vec![0; streams],
            now_ns: 0,
        }
    }

    /// Stream `stream` was searched up to `tick` and has a primitive shortly before.
    fn push(&mut self, stream: usize, tick: u64) {
        let hit = TriggerPrimitive::new(Repr {
            channel: stream as u32,
            detid: 3,
            flag: 0,
            time_start: tick - 1000,
            samples_over_threshold: 10,
            samples_to_peak: 4,
            adc_integral: 500,
            adc_peak: 100,
        });
        self.sent[stream] += 1;
        self.chain.push(stream, &[hit], tick, self.now_ns, &mut self.out);
    }

    fn advance(&mut self) {
        self.chain.advance(self.now_ns, &mut self.out);
        self.take();
    }

    fn take(&mut self) {
        self.ordered.append(&mut self.out.primitives.ordered);
        let decided = self.out.decided.decisions.iter().map(|decision| decision.timestamp);
        self.decisions.extend(decided);
        let records = self.out.decided.decisions.len();
        if self.out.began_anew {
            self.restarts.push(self.ordered.len());
        }
        self.out.clear();
        self.chain.records_done(records, &mut self.out);
    }

    fn finish(&mut self) {
        self.chain.drain(self.now_ns, &mut self.out);
        self.take();
    }

    fn is_set_apart(&self, stream: usize) -> bool {
        self.chain.counters().merge.streams[stream].is_set_apart()
    }

    /// Checks that the ledger closes, the order holds, and each stream but `faulty` lost nothing.
    fn check(&self, faulty: Option<usize>, case: &str) {
        let statements = self.chain.counters().statements();
        assert!(statements.iter().all(|it| it.closes()), "{case}: {statements:?}");
        let mut begin = 0;
        for end in self.restarts.iter().copied().chain([self.ordered.len()]) {
            let epoch = &self.ordered[begin..end];
            assert!(epoch.is_sorted_by_key(TriggerPrimitive::time_order), "{case}: order");
            begin = end;
        }
        for (stream, sent) in self.sent.iter().enumerate() {
            let own = |tp: &&TriggerPrimitive| tp.channel() as usize == stream;
            let given = self.ordered.iter().filter(own).count() as u64;
            let dropped = self.chain.counters().statements()[0].clone();
            assert!(
                Some(stream) == faulty || given == *sent,
                "{case}: stream {stream} gave {sent}, {given} are in the order; {dropped}"
            );
        }
    }

    /// Checks that there is a decision at each interval from `begin` to `end`.
    fn check_decisions(&self, begin: u64, end: u64, case: &str) {
        for tick in (begin.next_multiple_of(INTERVAL)..end).step_by(INTERVAL as usize) {
            assert!(self.decisions.contains(&tick), "{case}: no decision at {}", tick - START);
        }
    }
}

/// Milliseconds at which the fault begins and ends, and at which the other streams begin.
fn times(role: Role) -> (u64, u64, u64) {
    match role {
        Role::Live => (1000, 3000, 0),
        Role::Absent => (1000, 1001, 0),
        Role::First => (0, 3000, 1000),
    }
}

/// Runs five seconds in which `speed` milliseconds of data come in each millisecond.
fn run(name: &str, clock: Clock, role: Role, speed: f64) {
    let case = format!("{name}, {role:?}, speed {speed}");
    let (from, until, others) = times(role);
    let mut bench = Bench::new(MergeConfig::default(), STREAMS);
    let (mut named, mut cleared) = (None, None);
    for ms in 0..5000 {
        bench.now_ns = ms * MS_NS;
        let right = START + (ms as f64 * speed * MS as f64) as u64 + MS;
        for stream in 0..STREAMS {
            if stream != FAULTY {
                if ms >= others {
                    bench.push(stream, right);
                }
            } else if (from..until).contains(&ms) {
                bench.push(stream, clock(right, ms - from));
            } else if role != Role::Absent {
                bench.push(stream, right);
            }
        }
        bench.advance();
        match bench.is_set_apart(FAULTY) {
            true if named.is_none() => named = Some(ms),
            false if ms >= until && cleared.is_none() => cleared = Some(ms),
            _ => {}
        }
    }
    let end = START + (5000.0 * speed * MS as f64) as u64;
    bench.finish();
    bench.check(Some(FAULTY), &case);
    let begin = START + ((others + 10) as f64 * speed * MS as f64) as u64;
    bench.check_decisions(begin.max(START + 20 * MS), end - 20 * MS, &case);
    // A fault is one once the stream is heard, and another one to compare it with.
    let since = from.max(others);
    assert!(named.is_some_and(|ms| ms <= since + 1000), "{case}: named at {named:?}");
    let again = role == Role::Absent || cleared.is_some_and(|ms| ms <= until + 1000);
    assert!(again, "{case}: cleared at {cleared:?}");
}

#[test]
fn no_clock_fault_costs_the_others_anything() {
    for (name, clock) in FAULTS {
        for role in [Role::Live, Role::Absent, Role::First] {
            run(name, clock, role, 1.0);
        }
    }
}

#[test]
fn data_may_come_faster_or_slower_than_time_goes_by() {
    let slow_enough = |name: &str| ["drift", "frozen"].iter().all(|it| *it != name);
    for (name, clock) in FAULTS.into_iter().filter(|(name, _)| slow_enough(name)) {
        for speed in [0.1, 20.0] {
            run(name, clock, Role::First, speed);
            run(name, clock, Role::Live, speed);
        }
    }
}

/// All streams go to another time after a second, one after the other within 20 ms.
fn all_jump(to: impl Fn(u64) -> u64, restarts: usize) {
    let mut bench = Bench::new(MergeConfig::default(), STREAMS);
    for ms in 0..3000 {
        bench.now_ns = ms * MS_NS;
        for stream in 0..STREAMS {
            let right = START + (ms + 1) * MS;
            let jumped = ms >= 1000 + 20 * stream as u64 / STREAMS as u64;
            bench.push(stream, if jumped { to(right) } else { right });
        }
        bench.advance();
    }
    assert!((0..STREAMS).all(|stream| !bench.is_set_apart(stream)));
    bench.finish();
    // What the last streams bring of the old time after most have left it has no place.
    let merge = bench.chain.counters().merge.statement();
    assert!(merge.closes() && merge.dropped_total() <= 3 * 20, "{merge}");
    assert_eq!(bench.restarts.len(), restarts);
    bench.check_decisions(START + 20 * MS, START + 990 * MS, "before");
    let (begin, end) = (to(START + 1050 * MS), to(START + 2980 * MS));
    for tick in (begin.next_multiple_of(INTERVAL)..end).step_by(INTERVAL as usize) {
        assert!(bench.decisions.contains(&tick), "no decision after the jump");
    }
}

#[test]
fn a_jump_of_all_clocks_is_followed_both_ways() {
    all_jump(|right| right - START, 1);
    all_jump(|right| right - DAY, 1);
    all_jump(|right| right + DAY, 0);
    all_jump(|right| right + SECOND, 0);
}

#[test]
fn streams_that_come_in_bursts_lose_nothing() {
    let mut bench = Bench::new(MergeConfig::default(), 2);
    for burst in 0..10 {
        bench.now_ns = burst * 600 * MS_NS;
        for stream in 0..2 {
            for ms in burst * 600..(burst + 1) * 600 {
                bench.push(stream, START + (ms + 1) * MS);
            }
            bench.advance();
            bench.now_ns += 5 * MS_NS;
        }
    }
    bench.finish();
    bench.check(None, "bursts");
}

#[test]
fn of_two_streams_the_one_that_was_right_before_goes_on() {
    for ahead in [true, false] {
        let mut bench = Bench::new(MergeConfig::default(), 2);
        for ms in 0..3000 {
            bench.now_ns = ms * MS_NS;
            let right = START + (ms + 1) * MS;
            let wrong = if ahead { right + SECOND } else { right - SECOND };
            bench.push(0, if ms < 1000 { right } else { wrong });
            bench.push(1, right);
            bench.advance();
        }
        assert!(bench.is_set_apart(0) && !bench.is_set_apart(1));
        bench.finish();
        bench.check(Some(0), "two");
    }
}

#[test]
fn the_one_stream_that_is_left_is_believed_when_it_goes_on() {
    let mut bench = Bench::new(MergeConfig::default(), 2);
    for ms in 0..3000 {
        bench.now_ns = ms * MS_NS;
        let right = START + (ms + 1) * MS;
        bench.push(0, right + if ms < 500 { 0 } else { DAY });
        if ms < 1000 {
            bench.push(1, right);
        }
        bench.advance();
        let is_apart = bench.is_set_apart(0);
        assert!(is_apart || !(850..1000).contains(&ms), "at {ms} ms");
        assert!(!is_apart || (750..1300).contains(&ms), "at {ms} ms");
    }
    assert!(bench.is_set_apart(1));
}

#[test]
fn the_clock_of_the_host_outvotes_all() {
    let merge = MergeConfig { reference: TimeReference::Host, ..MergeConfig::default() };
    let mut bench = Bench::new(merge, 4);
    bench.chain.refer_to_host(START * 16);
    for ms in 0..1000 {
        bench.now_ns = ms * MS_NS;
        let right = START + (ms + 1) * MS;
        (0..4).for_each(|stream| bench.push(stream, right + if stream < 3 { DAY } else { 0 }));
        bench.advance();
    }
    assert!((0..4).all(|stream| bench.is_set_apart(stream) == (stream < 3)));
    bench.finish();
    let given = bench.ordered.iter().filter(|tp| tp.channel() == 3).count();
    assert_eq!(given, 1000);
    let set_apart = bench.chain.counters().merge.primitives.dropped(MergeDrop::SetApart);
    assert_eq!((bench.ordered.len(), set_apart), (1000, 3000));
}
