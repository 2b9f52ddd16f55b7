use std::collections::BTreeSet;

use gannet_measure::quantity::Span;
use gannet_wire::trigger_candidate::Type;
use proptest::prelude::*;

use super::*;
use crate::activity::{
    AdcSimpleWindow, Bundle, ChannelAdjacency, ChannelDistance, HorizontalMuon, Prescale,
};
use crate::candidate::ActivityWindow;
use crate::fixture::{START, tp};
use gannet_trigger::merge::MergeConfig;
use gannet_trigger::module_level::{Decision, ModuleLevelConfig};
use gannet_trigger::source::{Periodic, Poisson, SourceConfig};

const FRAME: u64 = 2048;

/// The end of frame `frame` of every stream, ticks.
fn end_of(frame: u64) -> u64 {
    START + FRAME * (frame + 1)
}

fn chain(config: &TriggerConfig, streams: usize) -> TriggerChain {
    TriggerChain::new(config, streams, 7, Sampling::default()).unwrap()
}

/// A track over channels 100 to 119 that begins in `frame`.
fn track(frame: u64) -> Vec<TriggerPrimitive> {
    (0..20).map(|i| tp(frame * FRAME + 10 * u64::from(i), 100 + i)).collect()
}

#[test]
fn a_track_over_two_streams_becomes_one_decision() {
    let mut chain = chain(&TriggerConfig::default(), 2);
    let mut out = TriggerOutput::default();
    for frame in 0..200 {
        let tps = if frame == 10 { track(frame) } else { Vec::new() };
        let (low, high) = tps.split_at(tps.len() / 2);
        chain.push(1, high, end_of(frame), 0, &mut out);
        chain.push(0, low, end_of(frame), 0, &mut out);
        chain.advance(0, &mut out);
    }
    assert_eq!(out.primitives.ordered, track(10));
    assert_eq!(out.activities.len(), 1);
    let [decision] = &out.decided.decisions[..] else { panic!("{:?}", out.decided) };
    assert_eq!((decision.run, decision.trigger_type), (7, Type::HorizontalMuon.mask()));
    assert_eq!(decision.timestamp, START + 10 * FRAME);
    assert_eq!(decision.window_begin, decision.timestamp - 1000);
    assert_eq!(decision.window_end, decision.timestamp + 190 + 320 + 1001);
    assert_eq!(decision.candidates[0].inputs, [out.activities[0].data]);
}

#[test]
fn a_quiet_detector_triggers_without_a_further_primitive() {
    let mut chain = chain(&TriggerConfig::default(), 1);
    let mut out = TriggerOutput::default();
    chain.push(0, &track(0), end_of(0), 0, &mut out);
    // 8000 ticks of window, 10000 of hold.
    chain.push(0, &[], START + 18_000, 0, &mut out);
    chain.advance(0, &mut out);
    assert_eq!(out.activities.len(), 1);
}

/// Nanoseconds for which data pause: longer than the timeout of the module-level trigger.
const PAUSE_NS: u64 = 200_000_000;

/// Pushes `tps` and advances, and again after a pause.
fn push_and_pause(
    chain: &mut TriggerChain,
    tps: &[TriggerPrimitive],
    processed_to: u64,
    now_ns: &mut u64,
    out: &mut TriggerOutput,
) {
    chain.push(0, tps, processed_to, *now_ns, out);
    chain.advance(*now_ns, out);
    *now_ns += PAUSE_NS;
    chain.advance(*now_ns, out);
}

/// A track so long that it is two activities, whose windows overlap.
fn long_track() -> Vec<TriggerPrimitive> {
    (0..60).map(|i| tp(200 * u64::from(i), 100 + i)).collect()
}

#[test]
fn a_pause_between_recorded_windows_does_not_part_the_activities_of_a_track() {
    let mut chain = chain(&TriggerConfig::default(), 1);
    let (mut out, mut now_ns) = (TriggerOutput::default(), 0);
    // The windows that were recorded end where the second activity is still open.
    push_and_pause(&mut chain, &long_track(), START + 19_000, &mut now_ns, &mut out);
    assert_eq!((out.activities.len(), out.decided.decisions.len()), (1, 0));
    push_and_pause(&mut chain, &[], START + 10_000_000, &mut now_ns, &mut out);
    let [decision] = &out.decided.decisions[..] else { panic!("{:?}", out.decided) };
    assert_eq!(decision.candidates.len(), 2);
    assert_eq!((decision.window_begin, decision.window_end), (START - 1000, START + 13_121));
}

#[test]
fn a_hit_that_goes_on_after_a_pause_is_part_of_its_track() {
    let mut chain = chain(&TriggerConfig::default(), 1);
    let (mut out, mut now_ns) = (TriggerOutput::default(), 0);
    // Without these the second activity would have no run that is long enough.
    let mut tps = long_track();
    let spanning: Vec<_> = tps.drain(48..53).collect();
    push_and_pause(&mut chain, &tps, START + 18_500, &mut now_ns, &mut out);
    push_and_pause(&mut chain, &spanning, START + 20_548, &mut now_ns, &mut out);
    push_and_pause(&mut chain, &[], START + 1_000_000, &mut now_ns, &mut out);
    assert_eq!((&out.primitives.ordered, &out.primitives.late), (&long_track(), &Vec::new()));
    assert_eq!(out.decided.decisions.len(), 1);
    assert_eq!(out.decided.decisions[0].candidates.len(), 2);
}

#[test]
fn a_decision_that_nothing_can_join_does_not_wait_for_the_end_of_a_pause() {
    let mut chain = chain(&TriggerConfig::default(), 1);
    let (mut out, mut now_ns) = (TriggerOutput::default(), 0);
    // Its window ends at 1511, that of the activity at 8000; after that of a candidate to come
    // begins 1000 before it, and primitives are held for 10000.
    push_and_pause(&mut chain, &track(0), START + 18_000, &mut now_ns, &mut out);
    assert_eq!(out.decided.decisions.len(), 1);
}

#[test]
fn a_drain_leaves_nothing_behind() {
    let mut chain = chain(&TriggerConfig::default(), 2);
    let mut out = TriggerOutput::default();
    chain.push(0, &track(0), end_of(0), 0, &mut out);
    chain.advance(0, &mut out);
    assert_eq!(out, TriggerOutput::default());
    chain.drain(0, &mut out);
    assert_eq!(out.primitives.ordered, track(0));
    assert_eq!(out.decided.decisions.len(), 1);
    let statements = chain.counters().statements();
    assert_eq!(statements.len(), 4);
    assert!(statements.iter().all(|statement| statement.closes()), "{statements:?}");
}

#[test]
fn sources_trigger_in_data_time() {
    let config = TriggerConfig {
        activity: Vec::new(),
        source: vec![SourceConfig::Periodic(Periodic {
            interval_ticks: 100_000,
            ..Periodic::default()
        })],
        ..TriggerConfig::default()
    };
    let mut chain = chain(&config, 1);
    let mut out = TriggerOutput::default();
    for frame in 0..400 {
        chain.push(0, &[], end_of(frame), 0, &mut out);
        chain.advance(0, &mut out);
    }
    let first = START.next_multiple_of(100_000);
    let times: Vec<_> = out.decided.decisions.iter().map(|d| d.timestamp).collect();
    // What lies before the last frame by hold, window and wait.
    let horizon = end_of(399) - 10_000 - 1_001 - 125_000;
    let expected: Vec<_> = (first..=horizon).step_by(100_000).collect();
    assert_eq!(times, expected);
}

#[test]
fn events_are_played_in_the_order_of_data_time() {
    let periodic =
        |interval_ticks| SourceConfig::Periodic(Periodic { interval_ticks, ..Periodic::default() });
    let config = TriggerConfig {
        source: vec![periodic(100_000), periodic(130_000)],
        ..TriggerConfig::default()
    };
    let decisions = |step: usize| {
        let mut chain = chain(&config, 1);
        let mut out = TriggerOutput::default();
        chain.push(0, &[], START + 20_000, 0, &mut out);
        chain.advance(0, &mut out);
        for offset in (0..=3_000_000).step_by(step) {
            chain.push(0, &[], START + 20_000 + offset, 0, &mut out);
            chain.advance(0, &mut out);
        }
        out.decided.decisions.iter().map(|d| d.timestamp).collect::<Vec<_>>()
    };
    let horizon = START + 3_020_000 - 10_000 - 1_001 - 125_000;
    let times =
        |interval: u64| (START.next_multiple_of(interval)..=horizon).step_by(interval as usize);
    let expected: BTreeSet<u64> = times(100_000).chain(times(130_000)).collect();
    assert_eq!(decisions(2000), Vec::from_iter(expected));
    assert_eq!(decisions(3_000_000), decisions(2000));
}

#[test]
fn a_leap_of_data_time_is_not_filled_with_candidates() {
    let config = TriggerConfig {
        source: vec![SourceConfig::Random(Poisson::default())],
        ..TriggerConfig::default()
    };
    let mut chain = chain(&config, 1);
    let mut out = TriggerOutput::default();
    chain.push(0, &[], end_of(0), 0, &mut out);
    chain.advance(0, &mut out);
    for frame in 0..2 {
        chain.push(0, &[], (1 << 62) + frame * FRAME, 0, &mut out);
        chain.advance(0, &mut out);
    }
    assert!(out.decided.decisions.len() < 2);
}

#[test]
fn configuration_is_read_with_defaults_and_checked_by_path() {
    let text = r#"
        [merge]
        late_after = "50 ms"
        [[activity]]
        algorithm = "adc-simple-window"
        [[activity]]
        algorithm = "horizontal-muon"
        prescale = 10
        [[candidate]]
        algorithm = "horizontal-muon"
        trigger_on_adc = true
        [[source]]
        kind = "random"
        [module_level]
        dead_time_ticks = 1000
    "#;
    let config: TriggerConfig = toml::from_str(text).unwrap();
    config.check().unwrap();
    assert_eq!(config.merge.late_after, Span::ms(50));
    let path = |text: &str| {
        let config: TriggerConfig = toml::from_str(text).unwrap();
        config.check().unwrap_err().path
    };
    assert_eq!(path("merge.waiting_max = 0"), "merge.waiting_max");
    assert_eq!(path("[[activity]]\nalgorithm = \"bundle\"\nprescale = 0"), "activity[0].prescale");
    assert_eq!(path("[[candidate]]\nalgorithm = \"bundle\""), "candidate[0].algorithm");
    let twice = "[[candidate]]\nalgorithm = \"horizontal-muon\"\n".repeat(2);
    assert_eq!(path(&twice), "candidate[1].algorithm");
    let fast = "[[source]]\nkind = \"periodic\"\ninterval_ticks = 1";
    assert_eq!(path(fast), "source[0].interval_ticks");
    assert_eq!(
        path("module_level.records_in_flight_max = 0"),
        "module_level.records_in_flight_max"
    );
    assert_eq!(TriggerConfig::default(), toml::from_str("").unwrap());
}

/// Several algorithms and sources with small numbers, so that all of them fire.
fn busy_config() -> TriggerConfig {
    let window_length = 3000;
    TriggerConfig {
        activity: vec![
            ActivityConfig::HorizontalMuon(HorizontalMuon {
                window_length,
                adjacency_threshold: 3,
                ..HorizontalMuon::default()
            }),
            ActivityConfig::AdcSimpleWindow(AdcSimpleWindow {
                window_length: 2 * window_length,
                adc_threshold: 5000,
                ..AdcSimpleWindow::default()
            }),
            ActivityConfig::ChannelAdjacency(ChannelAdjacency {
                window_length,
                adjacency_threshold: 4,
                prescale: 2,
                ..ChannelAdjacency::default()
            }),
        ],
        source: vec![SourceConfig::Random(Poisson {
            mean_interval_ticks: 8000,
            ..Poisson::default()
        })],
        module_level: ModuleLevelConfig {
            // Shorter than the windows, so that candidates come before and after decisions.
            merge_wait_ticks: 1500,
            dead_time_ticks: 5000,
            records_in_flight_max: 1000,
            ..ModuleLevelConfig::default()
        },
        ..TriggerConfig::default()
    }
}

/// The same for streams that pause at different times, with candidates of several activities.
fn patient_config(merge_wait_ticks: u64) -> TriggerConfig {
    let patience = Span::ms(1_000_000);
    let busy = busy_config();
    TriggerConfig {
        merge: MergeConfig { late_after: patience, agree_within: patience, ..busy.merge },
        candidate: vec![CandidateConfig::HorizontalMuon(ActivityWindow {
            trigger_on_adc: true,
            adc_threshold: 8000,
            window_length: 6000,
            ..ActivityWindow::default()
        })],
        module_level: ModuleLevelConfig { merge_wait_ticks, ..busy.module_level },
        ..busy
    }
}

/// The algorithms and conditions that [`busy_config`] leaves out.
fn others() -> [ActivityConfig; 4] {
    [
        ActivityConfig::Prescale(Prescale::default()),
        ActivityConfig::Bundle(Bundle { bundle_size: 3, ..Bundle::default() }),
        ActivityConfig::ChannelDistance(ChannelDistance {
            window_length: 3000,
            min_tps: 3,
            ..ChannelDistance::default()
        }),
        ActivityConfig::HorizontalMuon(HorizontalMuon {
            window_length: 3000,
            trigger_on_adjacency: false,
            trigger_on_tot: true,
            tot_threshold: 319,
            ..HorizontalMuon::default()
        }),
    ]
}

/// Runs frames of primitives through a chain in some interleaving; `picks` says which stream is
/// next and whether the chain is advanced then, and again after a pause.
fn run(
    config: &TriggerConfig,
    frames: &[Vec<Vec<TriggerPrimitive>>],
    picks: &[(usize, bool, bool)],
) -> (TriggerOutput, TriggerCounters) {
    let mut chain = chain(config, frames.len());
    let mut now_ns = 0;
    let mut out = TriggerOutput::default();
    // All begin at the same time, so that the sources do too.
    (0..frames.len()).for_each(|stream| chain.push(stream, &[], START + 10_001, 0, &mut out));
    chain.advance(0, &mut out);
    let mut next = vec![0; frames.len()];
    let mut picks = picks.iter().cycle();
    while next.iter().zip(frames).any(|(&next, frames)| next < frames.len()) {
        let &(pick, advance, pause) = picks.next().unwrap();
        let open: Vec<_> = (0..frames.len()).filter(|&s| next[s] < frames[s].len()).collect();
        let stream = open[pick % open.len()];
        let frame = next[stream] as u64;
        chain.push(stream, &frames[stream][next[stream]], end_of(frame + 5), now_ns, &mut out);
        next[stream] += 1;
        if advance {
            chain.advance(now_ns, &mut out);
        }
        if advance && pause {
            now_ns += PAUSE_NS;
            chain.advance(now_ns, &mut out);
        }
    }
    chain.advance(now_ns, &mut out);
    chain.drain(now_ns, &mut out);
    (out, chain.counters())
}

/// For each stream, frames of primitives on its 16 channels.
fn frames() -> impl Strategy<Value = Vec<Vec<Vec<TriggerPrimitive>>>> {
    // Quiet frames between bursts, so that much happens between primitives.
    let burst = prop::collection::vec((0..FRAME, 0u32..16), 4..12);
    let frame = prop_oneof![5 => Just(Vec::new()), 1 => burst];
    let stream = prop::collection::vec(frame, 20);
    prop::collection::vec(stream, 1..4).prop_map(|streams| {
        let stream = |(frames, first): (Vec<Vec<(u64, u32)>>, u32)| {
            let frame = |(hits, frame): (Vec<(u64, u32)>, u64)| {
                let place = |(offset, channel)| tp((frame + 5) * FRAME + offset, first + channel);
                hits.into_iter().map(place).collect()
            };
            frames.into_iter().zip(0..).map(frame).collect()
        };
        streams.into_iter().zip((0..).step_by(16)).map(stream).collect()
    })
}

/// What must not depend on the interleaving.
fn essence(decisions: &[Decision]) -> Vec<(u64, u64, u64, u64, usize)> {
    let essence = |d: &Decision| {
        (d.timestamp, d.trigger_type, d.window_begin, d.window_end, d.candidates.len())
    };
    decisions.iter().map(essence).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn decisions_do_not_depend_on_interleaving_on_pauses_or_on_how_often_the_chain_is_advanced(
        frames in frames(),
        picks in prop::collection::vec(
            (0usize..12, prop::bool::weighted(0.3), prop::bool::weighted(0.3)),
            40,
        ),
        merge_wait_ticks in prop_oneof![Just(1500u64), Just(50_000)],
        all_algorithms in any::<bool>(),
    ) {
        let mut config = patient_config(merge_wait_ticks);
        if all_algorithms {
            config.activity.extend(others());
        }
        let in_turn: Vec<_> = (0..3).map(|stream| (stream, true, false)).collect();
        let (fine, fine_counters) = run(&config, &frames, &in_turn);
        let (coarse, coarse_counters) = run(&config, &frames, &picks);
        prop_assert_eq!(&fine.primitives, &coarse.primitives);
        prop_assert_eq!(essence(&fine.decided.decisions), essence(&coarse.decided.decisions));
        prop_assert_eq!(&fine.decided, &coarse.decided);
        for (fine, coarse) in
            fine_counters.statements().iter().zip(coarse_counters.statements())
        {
            prop_assert!(fine.closes(), "{}", fine);
            prop_assert_eq!(fine, &coarse);
        }
        prop_assert!(!fine.decided.decisions.is_empty());
    }

    #[test]
    fn nothing_starts_before_the_tick_to_which_all_was_said_to_be_complete(
        frames in frames(),
        all_algorithms in any::<bool>(),
    ) {
        let mut config = busy_config();
        if all_algorithms {
            config.activity.extend(others());
        }
        let mut chain = chain(&config, frames.len());
        let (mut complete_to, mut behind) = (0, 0);
        let quiet = vec![Vec::new(); 10];
        for turn in 0..frames[0].len() + quiet.len() {
            let mut out = TriggerOutput::default();
            for (stream, frames) in frames.iter().enumerate() {
                let tps = frames.iter().chain(&quiet).nth(turn).unwrap();
                chain.push(stream, tps, end_of(turn as u64 + 5), 0, &mut out);
            }
            chain.advance(0, &mut out);
            let mut starts: Vec<_> = out.activities.iter().map(|a| a.data.time_start).collect();
            starts.extend(out.primitives.ordered.iter().map(TriggerPrimitive::time_start));
            prop_assert!(starts.iter().all(|start| *start >= complete_to), "{} {:?}", complete_to, starts);
            prop_assert!(chain.complete_to() >= complete_to);
            complete_to = chain.complete_to();
            behind = end_of(turn as u64 + 5) - 10_000 - complete_to;
        }
        // Windows of 6000 ticks at most; a bundle may wait for ever.
        prop_assert!(all_algorithms || behind <= 6_000, "{}", behind);
        let mut out = TriggerOutput::default();
        chain.drain(0, &mut out);
        prop_assert!(out.activities.iter().all(|a| a.data.time_start >= complete_to));
        prop_assert_eq!(chain.complete_to(), end_of(frames[0].len() as u64 + 5 + 9));
    }

    #[test]
    fn any_primitives_and_any_times_are_survived_and_accounted_for(
        calls in prop::collection::vec(
            (0usize..2, prop::collection::vec(any::<[u64; 3]>(), 0..6), wild_time(), 0u64..1 << 40),
            0..40,
        ),
    ) {
        let mut chain = chain(&busy_config(), 2);
        let mut out = TriggerOutput::default();
        let (mut offered, mut epochs) = (0, vec![0]);
        for (stream, words, processed_to, now_ns) in calls {
            let near = |[a, b, c]: [u64; 3]| TriggerPrimitive {
                words: [a, processed_to.wrapping_sub(b >> 40), c],
            };
            let tps: Vec<_> = words.into_iter().map(near).collect();
            offered += tps.len();
            chain.push(stream, &tps, processed_to, now_ns, &mut out);
            chain.advance(now_ns, &mut out);
            if std::mem::take(&mut out.began_anew) {
                epochs.push(out.primitives.ordered.len());
            }
        }
        chain.drain(u64::MAX, &mut out);
        epochs.push(out.primitives.ordered.len());
        prop_assert_eq!(out.primitives.ordered.len() + out.primitives.late.len(), offered);
        for epoch in epochs.windows(2) {
            let ordered = &out.primitives.ordered[epoch[0]..epoch[1]];
            prop_assert!(ordered.is_sorted_by_key(TriggerPrimitive::time_order));
        }
        for statement in chain.counters().statements() {
            prop_assert!(statement.closes(), "{}", statement);
        }
    }
}

/// Times near one another, and others.
fn wild_time() -> impl Strategy<Value = u64> {
    prop_oneof![4 => START..START + 100_000, 1 => any::<u64>(), 1 => Just(u64::MAX)]
}
