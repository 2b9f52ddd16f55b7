use gannet_wire::trigger_candidate::{Algorithm, Type};

use super::*;
use crate::activity::{ActivityConfig, ActivityStage, Prescale};
use crate::fixture::{START, tp};
use crate::sampling::Sampling;

/// An activity of one primitive on each of `channels`, that starts at `offset`, with `charge`.
fn activity(offset: u64, channels: &[u32], charge: u64) -> Activity {
    let inputs: Vec<_> = channels.iter().map(|&channel| tp(offset, channel)).collect();
    let mut made = Vec::new();
    let config = ActivityConfig::Prescale(Prescale::default());
    let mut stage = ActivityStage::new(&config, Sampling::default()).unwrap();
    stage.push(&inputs[0], &mut made);
    let mut data = made[0].data;
    data.adc_integral = charge;
    Activity { data, inputs }
}

fn candidates(config: CandidateConfig, activities: &[Activity]) -> Vec<Candidate> {
    let mut stage = CandidateStage::new(&config).unwrap();
    let mut made = Vec::new();
    activities.iter().for_each(|activity| stage.push(activity, &mut made));
    stage.finish(&mut made);
    made
}

/// Starts of the activities of each candidate, from the start of the test.
fn starts(candidates: &[Candidate]) -> Vec<Vec<u64>> {
    let starts = |c: &Candidate| c.inputs.iter().map(|a| a.time_start - START).collect();
    candidates.iter().map(starts).collect()
}

#[test]
fn prescale_and_adc_window_make_a_candidate_of_each_activity() {
    let activities = [activity(10, &[1], 5), activity(20, &[2], 6)];
    let made = candidates(CandidateConfig::Prescale(EachActivity::default()), &activities);
    assert_eq!(starts(&made), [[10], [20]]);
    let data = made[1].data;
    assert_eq!((data.candidate_type, data.algorithm), (Type::Prescale, Algorithm::Prescale));
    assert_eq!((data.time_candidate, data.time_end), (START + 20, START + 20 + 320));
    let made = candidates(CandidateConfig::AdcSimpleWindow(EachActivity::default()), &activities);
    let data = made[1].data;
    assert_eq!(data.candidate_type, Type::AdcSimpleWindow);
    assert_eq!(data.time_candidate, START + 20 + 128, "the time of the activity");
}

#[test]
fn one_of_n_candidates_is_kept() {
    let activities: Vec<_> = (0..7).map(|i| activity(i, &[1], 5)).collect();
    let made = candidates(CandidateConfig::Prescale(EachActivity { prescale: 3 }), &activities);
    assert_eq!(starts(&made), [[2], [5]]);
}

fn charge(adc_threshold: u64) -> ActivityWindow {
    ActivityWindow {
        trigger_on_adc: true,
        adc_threshold,
        window_length: 100,
        ..ActivityWindow::default()
    }
}

#[test]
fn a_window_without_condition_makes_a_candidate_of_each_activity() {
    let config = CandidateConfig::HorizontalMuon(ActivityWindow::default());
    let made = candidates(config, &[activity(10, &[1], 5), activity(20, &[2], 6)]);
    assert_eq!(starts(&made), [[10], [20]]);
    assert_eq!(made[0].data.candidate_type, Type::HorizontalMuon);
    assert_eq!(made[0].data.time_candidate, START + 10);
}

#[test]
fn a_window_fires_as_soon_as_its_charge_is_above_the_threshold() {
    let activities = [activity(0, &[1], 60), activity(10, &[2], 41), activity(20, &[3], 100)];
    let made = candidates(CandidateConfig::ChannelAdjacency(charge(100)), &activities);
    assert_eq!(starts(&made), [[0, 10]], "and begins anew");
    let data = made[0].data;
    assert_eq!(data.candidate_type, Type::ChannelAdjacency);
    assert_eq!(data.algorithm, Algorithm::ChannelAdjacency);
    assert_eq!((data.time_start, data.time_end), (START, START + 10 + 320));
    assert_eq!(data.time_candidate, START);
}

#[test]
fn a_window_slides_over_activities() {
    let activities = [activity(0, &[1], 60), activity(99, &[2], 30), activity(100, &[3], 75)];
    let made = candidates(CandidateConfig::HorizontalMuon(charge(100)), &activities);
    assert_eq!(starts(&made), [[99, 100]]);
}

#[test]
fn an_earlier_activity_joins_the_window_and_does_not_erase_it() {
    let activities = [activity(50, &[1], 60), activity(20, &[2], 30), activity(110, &[3], 15)];
    let made = candidates(CandidateConfig::ChannelAdjacency(charge(100)), &activities);
    assert_eq!(starts(&made), [[20, 50, 110]]);
    assert_eq!(made[0].data.time_start, START + 20);
}

#[test]
fn a_window_counts_channels_once() {
    let config = CandidateConfig::HorizontalMuon(ActivityWindow {
        trigger_on_n_channels: true,
        n_channels_threshold: 3,
        ..ActivityWindow::default()
    });
    let activities = [activity(0, &[1, 2, 3], 1), activity(9, &[2, 3], 1), activity(8, &[4], 1)];
    assert_eq!(starts(&candidates(config, &activities)), [[0, 8, 9]], "in the order of time");
}

#[test]
fn a_window_forgets_the_channels_of_activities_that_left() {
    let config = CandidateConfig::HorizontalMuon(ActivityWindow {
        trigger_on_n_channels: true,
        n_channels_threshold: 3,
        window_length: 100,
        ..ActivityWindow::default()
    });
    let activities = [activity(0, &[1, 2, 3], 1), activity(100, &[4], 1)];
    assert!(candidates(config, &activities).is_empty());
}

#[test]
fn distance_collects_up_to_a_number_of_primitives() {
    let config = |max_tp_count| {
        CandidateConfig::ChannelDistance(DistanceCandidate {
            max_tp_count,
            ..DistanceCandidate::default()
        })
    };
    let activities =
        [activity(0, &[1, 2], 1), activity(10, &[1, 2], 1), activity(20, &[1, 2, 3], 1)];
    let made = candidates(config(5), &activities);
    assert_eq!(starts(&made), [vec![0, 10], vec![20]], "the rest comes at the end");
    let data = made[0].data;
    assert_eq!((data.time_start, data.time_end), (START, START + 10 + 320));
    assert_eq!(data.time_candidate, START + 10, "the start of the last activity");
    assert_eq!(starts(&candidates(config(1), &activities)), [[0], [10], [20]]);
}

#[test]
fn a_complete_collection_does_not_wait_for_the_next_activity() {
    let config = CandidateConfig::ChannelDistance(DistanceCandidate::default());
    let mut stage = CandidateStage::new(&config).unwrap();
    let mut made = Vec::new();
    stage.push(&activity(0, &[1, 2, 3, 4, 5, 6, 7, 8], 1), &mut made);
    assert_eq!(starts(&made), [[0]]);
}

#[test]
fn bundle_takes_every_n_activities_and_no_rest() {
    let config =
        CandidateConfig::Bundle(BundleCandidate { bundle_size: 2, ..BundleCandidate::default() });
    let activities: Vec<_> = (0..5).map(|i| activity(i, &[1], 5)).collect();
    let made = candidates(config, &activities);
    assert_eq!(starts(&made), [[0, 1], [2, 3]]);
    assert_eq!(made[0].data.time_candidate, START);
}

#[test]
fn every_activity_algorithm_has_a_candidate_algorithm_of_its_name() {
    for name in [
        "prescale",
        "adc-simple-window",
        "horizontal-muon",
        "channel-adjacency",
        "channel-distance",
        "bundle",
    ] {
        let text = format!("algorithm = \"{name}\"");
        let activity: ActivityConfig = toml::from_str(&text).unwrap();
        let candidate: CandidateConfig = toml::from_str(&text).unwrap();
        assert_eq!(CandidateConfig::mirror(&activity), candidate);
        assert_eq!(candidate.activity_algorithm(), activity.algorithm());
    }
}

#[test]
fn bad_parameters_are_refused_by_name() {
    let refused = |config: CandidateConfig| config.check().unwrap_err().path;
    assert_eq!(refused(CandidateConfig::Prescale(EachActivity { prescale: 0 })), "prescale");
    let window = ActivityWindow { window_length: 0, ..ActivityWindow::default() };
    assert_eq!(refused(CandidateConfig::HorizontalMuon(window)), "window_length");
    let bundle = BundleCandidate { bundle_size: 1025, ..BundleCandidate::default() };
    assert_eq!(refused(CandidateConfig::Bundle(bundle)), "bundle_size");
}
