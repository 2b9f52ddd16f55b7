use gannet_wire::trigger_activity::Algorithm;
use gannet_wire::trigger_primitive::Repr;
use proptest::prelude::*;

use super::*;
use crate::fixture::{START, tp};
use crate::sampling::Sampling;

/// Runs `config` over primitives, and closes what is open at the end.
fn activities(config: impl Into<ActivityConfig>, tps: &[TriggerPrimitive]) -> Vec<Activity> {
    let mut stage = ActivityStage::new(&config.into(), Sampling::default()).unwrap();
    let mut made = Vec::new();
    tps.iter().for_each(|tp| stage.push(tp, &mut made));
    stage.close(&mut made);
    made
}

macro_rules! configs {
    ($($name:ident),*) => {$(
        impl From<$name> for ActivityConfig {
            fn from(parameters: $name) -> Self {
                Self::$name(parameters)
            }
        }
    )*};
}
configs!(Prescale, AdcSimpleWindow, HorizontalMuon, ChannelAdjacency, ChannelDistance, Bundle);

/// A primitive with integral, peak and samples over threshold of choice.
fn hit(offset: u64, channel: u32, adc_integral: u32, adc_peak: u16) -> TriggerPrimitive {
    TriggerPrimitive::new(Repr { adc_integral, adc_peak, ..tp(offset, channel).repr() })
}

/// One hit on each of `channels`, 10 ticks after one another.
fn track(offset: u64, channels: impl IntoIterator<Item = u32>) -> Vec<TriggerPrimitive> {
    channels.into_iter().zip(0..).map(|(channel, i)| tp(offset + 10 * i, channel)).collect()
}

/// Offsets of the inputs from the start of the test.
fn offsets(activity: &Activity) -> Vec<u64> {
    activity.inputs.iter().map(|tp| tp.time_start() - START).collect()
}

fn channels(activity: &Activity) -> Vec<u32> {
    activity.inputs.iter().map(|tp| tp.channel()).collect()
}

#[test]
fn prescale_makes_an_activity_of_every_primitive_and_keeps_one_of_n() {
    let tps: Vec<_> = (0..7).map(|i| tp(i, i as u32)).collect();
    let all = activities(Prescale::default(), &tps);
    assert_eq!(all.len(), 7);
    assert_eq!(all[2].data.algorithm, Algorithm::Prescale);
    assert_eq!((all[2].data.time_start, all[2].data.time_end), (START + 2, START + 2 + 320));
    assert_eq!((all[2].data.channel_peak, all[2].data.adc_integral), (2, 500));
    let third = activities(Prescale { prescale: 3, ..Prescale::default() }, &tps);
    assert_eq!(third.iter().map(|a| a.data.channel_start).collect::<Vec<_>>(), [2, 5]);
}

#[test]
fn long_primitives_are_not_looked_at() {
    let config = Prescale { max_time_over_threshold: 319, ..Prescale::default() };
    assert!(activities(config, &[tp(0, 1)]).is_empty());
    let config = Prescale { max_time_over_threshold: 320, ..Prescale::default() };
    assert_eq!(activities(config, &[tp(0, 1)]).len(), 1);
}

fn adc(window_length: u64, adc_threshold: u64) -> AdcSimpleWindow {
    AdcSimpleWindow { window_length, adc_threshold, ..AdcSimpleWindow::default() }
}

#[test]
fn adc_window_needs_more_than_the_threshold() {
    let tps = [tp(0, 1), tp(50, 2), tp(100, 3)];
    assert_eq!(activities(adc(100, 1000), &tps).len(), 0);
    assert_eq!(activities(adc(100, 999), &tps).len(), 1);
}

#[test]
fn adc_window_excludes_the_primitive_at_its_length_and_restarts_with_it() {
    let tps = [tp(0, 1), tp(99, 2), tp(100, 3), tp(150, 4)];
    let made = activities(adc(100, 900), &tps);
    assert_eq!(made.iter().map(offsets).collect::<Vec<_>>(), [vec![0, 99], vec![100, 150]]);
}

#[test]
fn adc_window_that_does_not_fire_slides() {
    let tps = [hit(0, 1, 100, 9), hit(90, 2, 500, 9), hit(120, 3, 600, 9)];
    let made = activities(adc(100, 1000), &tps);
    assert_eq!(made.iter().map(offsets).collect::<Vec<_>>(), [vec![90, 120]]);
}

#[test]
fn adc_window_that_is_left_far_behind_begins_anew() {
    let tps = [hit(0, 1, 900, 9), hit(5000, 2, 900, 9)];
    assert!(activities(adc(100, 1000), &tps).is_empty());
}

#[test]
fn adc_activity_carries_the_last_primitive_and_the_sum_of_the_window() {
    let made = activities(adc(100, 0), &[hit(10, 1, 700, 90), hit(60, 2, 300, 80)]);
    let data = made[0].data;
    assert_eq!((data.time_start, data.time_end), (START + 10, START + 60 + 320));
    assert_eq!((data.time_peak, data.time_activity), (START + 60 + 128, START + 60 + 128));
    assert_eq!((data.channel_start, data.channel_end, data.channel_peak), (2, 2, 2));
    assert_eq!((data.adc_integral, data.adc_peak, data.detid), (1000, 80, 3));
    assert_eq!(data.algorithm, Algorithm::AdcSimpleWindow);
}

fn muon(adjacency_threshold: u32) -> HorizontalMuon {
    HorizontalMuon { adjacency_threshold, ..HorizontalMuon::default() }
}

#[test]
fn muon_fires_on_a_run_longer_than_the_threshold() {
    assert_eq!(activities(muon(4), &track(0, 100..105)).len(), 1);
    assert!(activities(muon(5), &track(0, 100..105)).is_empty());
}

#[test]
fn muon_counts_channels_not_hits() {
    let twice = track(0, [7, 7, 8, 8, 9, 9]);
    assert!(activities(muon(3), &twice).is_empty());
    assert_eq!(activities(muon(2), &twice).len(), 1);
}

#[test]
fn muon_activity_spans_all_primitives_of_the_window() {
    let mut tps = track(100, [20, 21, 22, 23]);
    tps.push(hit(200, 500, 40, 3000));
    tps.push(hit(220, 3, 5060, 50));
    let made = activities(muon(3), &tps);
    let data = made[0].data;
    assert_eq!((data.time_start, data.time_end), (START + 100, START + 220 + 320));
    assert_eq!((data.channel_start, data.channel_end), (3, 500));
    assert_eq!((data.channel_peak, data.adc_peak), (500, 3000));
    assert_eq!(data.time_peak, START + 200 + 128);
    assert_eq!(data.time_activity, START + 220 + 128, "the peak of the last primitive");
    assert_eq!(data.adc_integral, 4 * 500 + 40 + 5060);
    assert_eq!(made[0].inputs, tps);
}

#[test]
fn muon_fires_on_charge_number_of_channels_and_length_only_when_told() {
    let off = HorizontalMuon { trigger_on_adjacency: false, ..HorizontalMuon::default() };
    let tps = track(0, (0..30).map(|i| 10 * i));
    let charge = HorizontalMuon { trigger_on_adc: true, adc_threshold: 14_999, ..off.clone() };
    assert_eq!(activities(charge.clone(), &tps).len(), 1);
    let charge = HorizontalMuon { adc_threshold: 15_000, ..charge };
    assert!(activities(charge, &tps).is_empty());
    let many = HorizontalMuon { trigger_on_n_channels: true, n_channels_threshold: 29, ..off };
    assert_eq!(activities(many.clone(), &tps).len(), 1);
    let many = HorizontalMuon { n_channels_threshold: 30, ..many };
    assert!(activities(many, &tps).is_empty());
}

#[test]
fn muon_fires_on_a_long_primitive_after_the_window() {
    let on = |tot_threshold| HorizontalMuon {
        trigger_on_adjacency: false,
        trigger_on_tot: true,
        tot_threshold,
        ..HorizontalMuon::default()
    };
    let tps = [tp(0, 1), tp(10, 2), tp(8000, 3)];
    let made = activities(on(319), &tps);
    assert_eq!(made.iter().map(channels).collect::<Vec<_>>(), [[1, 2]]);
    assert!(activities(on(320), &tps).is_empty());
    assert!(activities(on(319), &tps[..2]).is_empty(), "inside the window it does not count");
}

fn adjacency(adjacency_threshold: u32) -> ChannelAdjacency {
    ChannelAdjacency { adjacency_threshold, ..ChannelAdjacency::default() }
}

#[test]
fn adjacency_takes_only_the_primitives_of_the_run() {
    let mut tps = track(0, [300, 10, 11, 12, 14, 50]);
    tps.push(hit(70, 12, 1, 1));
    let made = activities(adjacency(3), &tps);
    assert_eq!(made.len(), 1);
    assert_eq!(channels(&made[0]), [10, 11, 12, 14]);
    assert_eq!(offsets(&made[0]), [10, 20, 30, 40], "the earliest of each channel");
    let data = made[0].data;
    assert_eq!((data.time_start, data.time_end), (START + 10, START + 40));
    assert_eq!((data.channel_start, data.channel_end, data.adc_integral), (10, 14, 2000));
    assert_eq!(data.algorithm, Algorithm::ChannelAdjacency);
}

#[test]
fn adjacency_takes_the_latest_of_the_first_channel_and_the_earliest_of_the_others() {
    // Two runs, 10 to 13 and 60 to 63, with hits at 0 to 70, and all once more at 80 to 150.
    let once = [10, 60, 11, 61, 12, 62, 13, 63];
    let made = activities(adjacency(3), &track(0, once.into_iter().chain(once)));
    assert_eq!(made.iter().map(offsets).collect::<Vec<_>>(), [[80, 20, 40, 60], [90, 30, 50, 70]]);
    assert_eq!((made[0].data.time_start, made[0].data.time_end), (START + 20, START + 80));
}

#[test]
fn sums_of_charge_do_not_wrap() {
    let tps: Vec<_> = (0..3).map(|i| hit(10 * i, 10 + i as u32, u32::MAX, 1)).collect();
    let charge = 3 * u64::from(u32::MAX);
    assert_eq!(activities(adjacency(2), &tps)[0].data.adc_integral, charge);
    assert_eq!(activities(adc(100, charge - 1), &tps)[0].data.adc_integral, charge);
    assert_eq!(activities(adc(100, charge), &tps), []);
}

#[test]
fn adjacency_makes_an_activity_of_each_long_run() {
    let tps = track(0, [10, 60, 11, 61, 12, 62, 13, 200]);
    let made = activities(adjacency(2), &tps);
    assert_eq!(
        made.iter().map(channels).collect::<Vec<_>>(),
        [vec![10, 11, 12, 13], vec![60, 61, 62]]
    );
}

fn distance(max_channel_distance: u32, min_tps: u32) -> ChannelDistance {
    ChannelDistance { max_channel_distance, min_tps, ..ChannelDistance::default() }
}

#[test]
fn distance_passes_over_what_is_far_and_grows_with_what_is_near() {
    let tps = track(0, [100, 106, 104, 108, 94, 99]);
    let made = activities(distance(5, 4), &tps);
    assert_eq!(made.len(), 1);
    assert_eq!(channels(&made[0]), [100, 104, 108, 99], "94 came before 99 brought it near");
    let data = made[0].data;
    assert_eq!((data.channel_start, data.channel_end), (100, 99));
    assert_eq!((data.time_start, data.time_end), (START, START + 50));
    assert_eq!((data.channel_peak, data.time_peak), (100, START + 128), "the first of equal peaks");
}

#[test]
fn distance_needs_a_number_of_primitives_within_the_window() {
    let tps = [tp(0, 1), tp(10, 1), tp(8000, 1), tp(8001, 1)];
    assert_eq!(
        activities(distance(5, 3), &tps).iter().map(offsets).collect::<Vec<_>>(),
        [[0, 10, 8000]]
    );
    assert!(activities(distance(5, 4), &tps).is_empty());
}

#[test]
fn distance_accepts_low_channel_numbers() {
    assert_eq!(activities(distance(50, 2), &track(0, [3, 0])).len(), 1);
}

#[test]
fn bundle_takes_every_n_primitives_and_no_rest() {
    let tps = track(0, [5, 3, 9, 4, 1]);
    let made = activities(Bundle { bundle_size: 2, ..Bundle::default() }, &tps);
    assert_eq!(made.iter().map(channels).collect::<Vec<_>>(), [[5, 3], [9, 4]]);
    assert_eq!(made[1].data.algorithm, Algorithm::Bundle);
}

#[test]
fn bundle_is_prescaled_and_passes_over_long_primitives() {
    let tps = track(0, [5, 3, 9, 4]);
    let all = Bundle { bundle_size: 1, ..Bundle::default() };
    let half = activities(Bundle { prescale: 2, ..all.clone() }, &tps);
    assert_eq!(half.iter().map(channels).collect::<Vec<_>>(), [[3], [4]]);
    assert_eq!(activities(Bundle { max_time_over_threshold: 319, ..all }, &tps), []);
}

#[test]
fn a_window_that_is_full_loses_its_oldest_and_says_so() {
    let config = adc(1 << 40, 1 << 40).into();
    let mut stage = ActivityStage::new(&config, Sampling::default()).unwrap();
    let mut made = Vec::new();
    for i in 0..WINDOW_TPS_MAX as u64 + 3 {
        stage.push(&tp(i, 1), &mut made);
    }
    assert_eq!(stage.counters().overflows.get(), 3);
    assert!(made.is_empty());
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let refuses = |config: ActivityConfig, path: &str| {
        assert_eq!(config.check().unwrap_err().path, path);
    };
    refuses(Prescale { prescale: 0, ..Prescale::default() }.into(), "prescale");
    refuses(adc(0, 1).into(), "window_length");
    refuses(muon(0).into(), "adjacency_threshold");
    refuses(distance(1, 0).into(), "min_tps");
    refuses(Bundle { bundle_size: 32_769, ..Bundle::default() }.into(), "bundle_size");
    let idle = HorizontalMuon { trigger_on_adjacency: false, ..HorizontalMuon::default() };
    refuses(idle.into(), "trigger_on_adjacency");
}

#[test]
fn parameters_are_read_by_their_published_names() {
    let text = r#"
        algorithm = "horizontal-muon"
        window_length = 4000
        adjacency_threshold = 20
    "#;
    let expected = HorizontalMuon { window_length: 4000, ..muon(20) };
    assert_eq!(toml::from_str::<ActivityConfig>(text).unwrap(), expected.into());
    let unknown = "algorithm = \"bundle\"\nbundle = 3";
    assert!(
        toml::from_str::<ActivityConfig>(unknown).unwrap_err().message().contains("bundle_size")
    );
}

mod naive;

/// Bursts of hits: gap in time from the one before, channel, integral.
fn bursts() -> impl Strategy<Value = Vec<TriggerPrimitive>> {
    let step = prop_oneof![4 => 0u64..12, 1 => 0u64..150];
    prop::collection::vec((step, 0u32..60, 1u32..1000), 0..150).prop_map(|hits| {
        let mut offset = 0;
        let mut tps: Vec<_> = hits
            .into_iter()
            .map(|(step, channel, integral)| {
                offset += step;
                hit(offset, channel, integral, (integral / 7) as u16)
            })
            .collect();
        tps.sort_by_key(TriggerPrimitive::time_order);
        tps
    })
}

/// Runs `config` and closes windows as soon as data time has reached their end, by steps.
fn activities_in_steps(
    config: ActivityConfig,
    tps: &[TriggerPrimitive],
    step: u64,
) -> Vec<Activity> {
    let mut stage = ActivityStage::new(&config, Sampling::default()).unwrap();
    let mut made = Vec::new();
    let mut tick = START;
    for tp in tps {
        while tick <= tp.time_start() {
            while stage.due().is_some_and(|due| due <= tick) {
                stage.close(&mut made);
            }
            tick += step;
        }
        stage.push(tp, &mut made);
    }
    stage.close(&mut made);
    made
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn adc_window_agrees_with_its_definition(
        tps in bursts(), length in 1u64..100, threshold in 0u64..8000, step in 1u64..60,
    ) {
        let config = adc(length, threshold);
        let expected = naive::windows(&tps, length, |window| {
            let sum: u64 = window.iter().map(|tp| u64::from(tp.adc_integral())).sum();
            if sum > threshold { vec![window.to_vec()] } else { vec![] }
        });
        let made = activities(config.clone(), &tps);
        prop_assert_eq!(made.iter().map(|a| a.inputs.clone()).collect::<Vec<_>>(), expected);
        prop_assert_eq!(activities_in_steps(config.into(), &tps, step), made);
    }

    #[test]
    fn muon_agrees_with_its_definition(
        tps in bursts(), length in 1u64..100, threshold in 1u32..8, tolerance in 0u32..6,
        n_channels in 0u32..20, step in 1u64..60, trigger_on_n_channels: bool,
    ) {
        let config = HorizontalMuon {
            window_length: length,
            adjacency_tolerance: tolerance,
            trigger_on_n_channels,
            n_channels_threshold: n_channels,
            ..muon(threshold)
        };
        let expected = naive::windows(&tps, length, |window| {
            let fires = naive::adjacency(window, tolerance) > threshold
                || (trigger_on_n_channels && naive::channels(window).len() as u32 > n_channels);
            if fires { vec![window.to_vec()] } else { vec![] }
        });
        let made = activities(config.clone(), &tps);
        prop_assert_eq!(made.iter().map(|a| a.inputs.clone()).collect::<Vec<_>>(), expected);
        prop_assert_eq!(activities_in_steps(config.into(), &tps, step), made);
    }

    #[test]
    fn channel_adjacency_agrees_with_its_definition(
        tps in bursts(), length in 1u64..100, threshold in 1u32..8, tolerance in 0u32..6,
        step in 1u64..60,
    ) {
        let config = ChannelAdjacency {
            window_length: length,
            adjacency_tolerance: tolerance,
            ..adjacency(threshold)
        };
        let expected =
            naive::windows(&tps, length, |window| naive::tracks(window, threshold, tolerance));
        let made = activities(config.clone(), &tps);
        let mut inputs: Vec<_> = made.iter().map(|a| a.inputs.clone()).collect();
        // The published code finds the runs of one window in an order of its own.
        let mut expected = expected;
        inputs.sort();
        expected.sort();
        prop_assert_eq!(inputs, expected);
        prop_assert_eq!(activities_in_steps(config.into(), &tps, step), made);
    }

    #[test]
    fn distance_does_not_depend_on_when_it_is_closed(
        tps in bursts(), length in 1u64..100, far in 1u32..20, min_tps in 1u32..6, step in 1u64..60,
    ) {
        let config = ChannelDistance { window_length: length, ..distance(far, min_tps) };
        let made = activities(config.clone(), &tps);
        prop_assert_eq!(activities_in_steps(config.into(), &tps, step), made);
    }
}
