use gannet_wire::trigger_candidate::{Algorithm, TriggerCandidateData, Type};
use proptest::prelude::*;

use super::*;
use crate::candidate::CandidateType;
use crate::fixture::START;

const MS: u64 = 1_000_000;
/// Data time, from the start of the test, at which a decision for a candidate at 0 is due.
const DUE: u64 = 1001 + 125_000;

/// A candidate at `offset` that lasts `length` ticks.
fn candidate(offset: u64, length: u64, candidate_type: Type) -> Candidate {
    let data = TriggerCandidateData {
        time_start: START + offset,
        time_end: START + offset + length,
        time_candidate: START + offset,
        detid: 3,
        candidate_type,
        algorithm: Algorithm::Custom,
    };
    Candidate { data, inputs: Vec::new() }
}

fn random(offset: u64) -> Candidate {
    candidate(offset, 0, Type::Random)
}

struct Bench {
    trigger: ModuleLevelTrigger,
    out: Decided,
}

impl Bench {
    fn new(config: ModuleLevelConfig) -> Self {
        let mut trigger = ModuleLevelTrigger::new(&config, 42).unwrap();
        let mut out = Decided::default();
        trigger.release(START, 0, &mut out);
        Self { trigger, out }
    }

    fn push(&mut self, candidate: Candidate) {
        self.trigger.push(candidate, &mut self.out);
    }

    fn release(&mut self, offset: u64) {
        self.trigger.release(START + offset, 0, &mut self.out);
    }

    /// Windows of the decisions, from the start of the test.
    fn windows(&self) -> Vec<(i64, i64)> {
        let offset = |tick: u64| tick.wrapping_sub(START) as i64;
        let decisions = self.out.decisions.iter();
        decisions.map(|d| (offset(d.window_begin), offset(d.window_end))).collect()
    }

    fn dropped(&self, reason: CandidateDrop) -> u64 {
        self.trigger.counters().candidates.dropped(reason)
    }

    fn closes(&self) -> bool {
        self.trigger.counters().statement().closes()
    }
}

#[test]
fn a_decision_is_issued_when_data_time_has_passed_its_window_and_the_wait() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    bench.push(candidate(0, 0, Type::HorizontalMuon));
    bench.release(DUE - 1);
    assert!(bench.out.decisions.is_empty());
    bench.release(DUE);
    let decision = &bench.out.decisions[0];
    assert_eq!((decision.trigger_number, decision.run), (1, 42));
    assert_eq!(decision.timestamp, START);
    assert_eq!(decision.trigger_type, 1 << 7);
    assert_eq!(bench.windows(), [(-1000, 1001)]);
    assert!(bench.closes());
}

#[test]
fn overlapping_candidates_become_one_decision() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    bench.push(candidate(0, 0, Type::HorizontalMuon));
    bench.push(candidate(2001, 0, Type::Random));
    bench.push(candidate(10_000, 0, Type::Random));
    bench.release(2 * DUE);
    assert_eq!(bench.windows(), [(-1000, 3002), (9000, 11_001)]);
    assert_eq!(bench.out.decisions[0].trigger_type, 1 << 7 | 1 << 4);
    assert_eq!(bench.out.decisions[0].candidates.len(), 2);
    assert!(bench.closes());
}

#[test]
fn a_candidate_joins_decisions_that_it_bridges() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    bench.push(random(0));
    bench.push(random(4000));
    bench.push(random(2000));
    bench.release(2 * DUE);
    assert_eq!(bench.windows(), [(-1000, 5001)]);
    assert_eq!(bench.out.decisions[0].timestamp, START, "the earliest candidate");
}

#[test]
fn decisions_are_issued_in_the_order_in_which_their_windows_end() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    [20_000, 0, 10_000].into_iter().for_each(|offset| bench.push(random(offset)));
    bench.release(DUE);
    assert_eq!(bench.windows(), [(-1000, 1001)]);
    bench.release(2 * DUE);
    assert_eq!(bench.windows()[1..], [(9000, 11_001), (19_000, 21_001)]);
}

#[test]
fn a_candidate_after_the_wait_has_a_decision_of_its_own() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    bench.push(random(0));
    bench.release(DUE);
    bench.push(random(100));
    bench.release(2 * DUE);
    assert_eq!(bench.windows(), [(-1000, 1001), (-900, 1101)]);
}

#[test]
fn overlapping_candidates_are_dropped_or_kept_apart_when_told() {
    let with = |overlap| {
        let mut bench = Bench::new(ModuleLevelConfig { overlap, ..ModuleLevelConfig::default() });
        bench.push(random(0));
        bench.push(random(10));
        bench.release(2 * DUE);
        bench
    };
    let bench = with(Overlap::Drop);
    assert_eq!(bench.windows(), [(-1000, 1001)]);
    assert_eq!(bench.dropped(CandidateDrop::Overlap), 1);
    assert!(bench.closes());
    assert_eq!(with(Overlap::Separate).windows(), [(-1000, 1001), (-990, 1011)]);
}

#[test]
fn a_type_with_a_window_is_read_out_around_its_time() {
    let window = ReadoutWindow { time_before: 5, time_after: 7 };
    let readout = [(CandidateType(Type::HorizontalMuon), window)].into();
    let mut bench = Bench::new(ModuleLevelConfig { readout, ..ModuleLevelConfig::default() });
    bench.push(candidate(100, 900, Type::HorizontalMuon));
    bench.push(candidate(9000, 900, Type::Random));
    bench.release(2 * DUE);
    assert_eq!(bench.windows(), [(95, 107), (8000, 10_901)]);
}

#[test]
fn ignored_types_are_dropped() {
    let ignore = vec![CandidateType(Type::Random)];
    let mut bench = Bench::new(ModuleLevelConfig { ignore, ..ModuleLevelConfig::default() });
    bench.push(random(0));
    bench.push(candidate(0, 0, Type::Timing));
    bench.release(DUE);
    assert_eq!(bench.out.decisions[0].trigger_type, 1 << 1);
    assert_eq!(bench.dropped(CandidateDrop::Ignored), 1);
    assert!(bench.closes());
}

#[test]
fn a_window_that_reaches_its_limit_is_issued_at_once() {
    let mut bench =
        Bench::new(ModuleLevelConfig { td_readout_limit: 4001, ..ModuleLevelConfig::default() });
    bench.push(random(0));
    bench.push(random(1999));
    assert!(bench.out.decisions.is_empty());
    bench.push(random(2000));
    assert_eq!(bench.windows(), [(-1000, 3001)]);
}

#[test]
fn a_full_decision_is_issued_at_once_and_the_next_begins() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    (0..DECISION_CANDIDATES_MAX as u64 + 1).for_each(|offset| bench.push(random(offset)));
    bench.release(2 * DUE);
    let sizes: Vec<_> = bench.out.decisions.iter().map(|d| d.candidates.len()).collect();
    assert_eq!(sizes, [DECISION_CANDIDATES_MAX, 1]);
    assert!(bench.closes());
}

#[test]
fn with_too_many_that_wait_the_first_to_end_is_issued() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    (0..=PENDING_DECISIONS_MAX as u64).for_each(|i| bench.push(random(10_000 * i)));
    assert_eq!(bench.windows(), [(-1000, 1001)]);
}

#[test]
fn data_time_stands_still_when_it_has_not_moved_for_the_timeout() {
    let mut bench = Bench::new(ModuleLevelConfig::default());
    assert!(!bench.trigger.stands_still(100 * MS - 1));
    assert!(bench.trigger.stands_still(100 * MS));
    bench.trigger.release(START, 100 * MS, &mut bench.out);
    assert!(bench.trigger.stands_still(100 * MS), "data time is where it was");
    bench.trigger.release(START + 1, 100 * MS, &mut bench.out);
    assert!(!bench.trigger.stands_still(100 * MS));
}

#[test]
fn settled_decisions_are_those_that_no_window_to_come_can_touch() {
    let window = ReadoutWindow { time_before: 5000, time_after: 0 };
    let readout = [(CandidateType(Type::HorizontalMuon), window)].into();
    let mut bench = Bench::new(ModuleLevelConfig { readout, ..ModuleLevelConfig::default() });
    bench.push(random(0));
    bench.push(random(9000));
    bench.trigger.issue_settled(START + 1001 + 5000, &mut bench.out);
    assert!(bench.out.decisions.is_empty(), "a horizontal muon there would touch the first");
    bench.trigger.issue_settled(START + 1001 + 5001, &mut bench.out);
    assert_eq!(bench.windows(), [(-1000, 1001)]);
    bench.push(candidate(1001 + 5001, 0, Type::HorizontalMuon));
    bench.release(2 * DUE);
    assert_eq!(bench.windows()[1..], [(1002, 6002), (8000, 10_001)]);
}

#[test]
fn dead_time_drops_what_comes_too_soon_and_is_recorded() {
    let config = ModuleLevelConfig {
        dead_time_ticks: 50_000,
        merge_wait_ticks: 0,
        ..ModuleLevelConfig::default()
    };
    let mut bench = Bench::new(config);
    for offset in [0, 49_999, 50_000, 99_999, 100_000] {
        bench.push(random(offset));
        bench.release(offset + 1001);
    }
    assert_eq!(bench.windows(), [(-1000, 1001), (49_000, 51_001), (99_000, 101_001)]);
    assert_eq!(bench.dropped(CandidateDrop::DeadTime), 2);
    let interval = |begin| BusyInterval {
        begin: START + begin,
        end: START + begin + 50_000,
        cause: BusyCause::DeadTime,
    };
    assert_eq!(bench.out.busy, [interval(0), interval(50_000), interval(100_000)]);
    assert_eq!(bench.trigger.counters().busy_ticks[BusyCause::DeadTime as usize].get(), 150_000);
}

#[test]
fn too_many_records_in_flight_drop_candidates_until_one_is_done() {
    let config = ModuleLevelConfig {
        records_in_flight_max: 2,
        merge_wait_ticks: 0,
        ..ModuleLevelConfig::default()
    };
    let mut bench = Bench::new(config);
    for i in 0..3 {
        bench.push(random(10_000 * i));
        bench.release(10_000 * i + 1001);
    }
    assert_eq!(bench.out.decisions.len(), 2);
    assert_eq!(bench.dropped(CandidateDrop::Busy), 1);
    bench.trigger.records_done(1, &mut bench.out);
    let busy = BusyInterval {
        begin: START + 11_001,
        end: START + 21_001,
        cause: BusyCause::RecordsInFlight,
    };
    assert_eq!(bench.out.busy, [busy]);
    bench.push(random(30_000));
    bench.release(31_001);
    assert_eq!(bench.out.decisions[2].trigger_number, 3, "numbers have no gap");
    assert!(bench.closes());
}

#[test]
fn a_paused_trigger_drops_candidates_and_records_since_when() {
    let mut trigger = ModuleLevelTrigger::new(&ModuleLevelConfig::default(), 1).unwrap();
    let mut out = Decided::default();
    trigger.pause();
    trigger.release(START, 0, &mut out);
    trigger.push(random(0), &mut out);
    trigger.release(START + DUE, 0, &mut out);
    trigger.resume(&mut out);
    let cause = BusyCause::Paused;
    assert_eq!(out.busy, [BusyInterval { begin: START, end: START + DUE, cause }]);
    assert!(out.decisions.is_empty());
    assert_eq!(trigger.counters().candidates.dropped(CandidateDrop::Paused), 1);
}

#[test]
fn the_end_of_a_run_issues_what_waits_and_ends_what_is_busy() {
    let config = ModuleLevelConfig { records_in_flight_max: 1, ..ModuleLevelConfig::default() };
    let mut bench = Bench::new(config);
    bench.push(random(0));
    bench.push(random(10_000));
    bench.release(20_000);
    bench.trigger.finish(&mut bench.out);
    assert_eq!(bench.windows(), [(-1000, 1001)]);
    assert_eq!(bench.dropped(CandidateDrop::Busy), 1);
    assert_eq!(bench.out.busy.len(), 1);
    assert!(bench.closes());
}

#[test]
fn bad_values_are_refused_by_name() {
    let refused = |config: ModuleLevelConfig| config.check().unwrap_err().path;
    let config = ModuleLevelConfig { records_in_flight_max: 0, ..ModuleLevelConfig::default() };
    assert_eq!(refused(config), "records_in_flight_max");
    let config = ModuleLevelConfig { td_readout_limit: 0, ..ModuleLevelConfig::default() };
    assert_eq!(refused(config), "td_readout_limit");
}

#[test]
fn windows_by_type_are_read_from_a_table() {
    let text = r#"
        overlap = "drop"
        ignore = ["Timing"]
        [readout.HorizontalMuon]
        time_before = 9000
    "#;
    let config: ModuleLevelConfig = toml::from_str(text).unwrap();
    let window = ReadoutWindow { time_before: 9000, time_after: 1001 };
    assert_eq!(config.readout[&CandidateType(Type::HorizontalMuon)], window);
    assert!(toml::from_str::<ModuleLevelConfig>("[readout.Muon]\ntime_before = 1").is_err());
}

/// What happens to a trigger.
#[derive(Clone, Debug)]
enum Step {
    Candidate { ago: u64, length: u64, kind: u8 },
    Time(u64),
    Settled(u64),
    RecordDone,
    Pause,
    Resume,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0u64..3000, 0u64..500, 0u8..4)
            .prop_map(|(ago, length, kind)| Step::Candidate { ago, length, kind }),
        6 => (0u64..2000).prop_map(Step::Time),
        1 => (0u64..500).prop_map(Step::Settled),
        3 => Just(Step::RecordDone),
        1 => Just(Step::Pause),
        1 => Just(Step::Resume),
    ];
    prop::collection::vec(step, 1..150)
}

fn configs() -> impl Strategy<Value = ModuleLevelConfig> {
    let overlap = prop_oneof![Just(Overlap::Merge), Just(Overlap::Drop), Just(Overlap::Separate)];
    (overlap, 0u64..3000, 0u64..2000, 1usize..4, 500u64..5000).prop_map(
        |(overlap, merge_wait_ticks, dead_time_ticks, records_in_flight_max, td_readout_limit)| {
            ModuleLevelConfig {
                overlap,
                merge_wait_ticks,
                dead_time_ticks,
                records_in_flight_max,
                td_readout_limit,
                time_before: 100,
                time_after: 101,
                ignore: vec![CandidateType(Type::Supernova)],
                ..ModuleLevelConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_candidate_is_in_one_decision_or_dropped(config in configs(), steps in steps()) {
        let mut bench = Bench::new(config.clone());
        let (mut offset, mut done, mut offered) = (0u64, 0, 0);
        for step in steps {
            match step {
                Step::Candidate { ago, length, kind } => {
                    let kind = Type::from_number(i32::from(kind) + 1);
                    bench.push(candidate(offset.saturating_sub(ago), length, kind));
                    offered += 1;
                }
                Step::Time(ticks) => {
                    offset += ticks;
                    bench.release(offset);
                }
                Step::Settled(ago) => {
                    bench.trigger.issue_settled(START + offset.saturating_sub(ago), &mut bench.out);
                }
                Step::RecordDone => {
                    done = (done + 1).min(bench.out.decisions.len());
                    bench.trigger.records_done(1, &mut bench.out);
                }
                Step::Pause => bench.trigger.pause(),
                Step::Resume => bench.trigger.resume(&mut bench.out),
            }
            prop_assert!(bench.out.decisions.len() - done <= config.records_in_flight_max);
        }
        bench.trigger.finish(&mut bench.out);

        let statement = bench.trigger.counters().statement();
        prop_assert!(statement.closes(), "{}", statement);
        prop_assert_eq!(statement.offered, offered);
        let delivered: usize = bench.out.decisions.iter().map(|d| d.candidates.len()).sum();
        prop_assert_eq!(statement.delivered, delivered as u64);
        for (decision, number) in bench.out.decisions.iter().zip(1..) {
            prop_assert_eq!(decision.trigger_number, number);
            for candidate in &decision.candidates {
                let data = candidate.data;
                prop_assert!(decision.window_begin <= data.time_start - 100);
                prop_assert!(decision.window_end >= data.time_end + 101);
                prop_assert!(decision.trigger_type & data.candidate_type.mask() != 0);
                prop_assert!(data.candidate_type != Type::Supernova);
            }
        }
        for pair in bench.out.decisions.windows(2) {
            let apart = pair[1].timestamp.abs_diff(pair[0].timestamp);
            prop_assert!(apart >= config.dead_time_ticks);
        }
        prop_assert!(bench.out.busy.iter().all(|interval| interval.begin <= interval.end));
    }
}
