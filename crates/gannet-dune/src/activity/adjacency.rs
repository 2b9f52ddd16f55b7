//! Runs of adjacent channels with hits.
//!
//! Channels with hits are walked in rising order. A run goes on to the next channel when that is
//! the neighbour, or when it is at most 5 channels away and the tolerance is not used up; each
//! such gap uses tolerance. Otherwise the run ends there and the next begins, with the tolerance
//! whole again. A gap of more than 5 channels always ends a run, so that channels fall into
//! clusters which do not influence one another. [`AdjacencyWatch`] rests on that.
//!
//! Source: DUNE-DAQ/triggeralgs `TAMakerHorizontalMuonAlgorithm.cpp`,
//! `TAMakerChannelAdjacencyAlgorithm.cpp`, function `check_adjacency`.

use super::hit_channels::{HitChannels, REACH};

/// What a gap takes from the tolerance. The published algorithms differ in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapCost {
    /// The step to the next channel with hits: 2 for one missed channel (HorizontalMuon).
    Step,
    /// The channels missed: 1 for one missed channel (ChannelAdjacency).
    Missed,
}

/// When channels with hits belong to one run.
#[derive(Clone, Copy, Debug)]
pub(super) struct RunRule {
    /// A gap is bridged as long as the gaps before it in the run have used less than this.
    pub(super) tolerance: u32,
    /// What each gap uses.
    pub(super) cost: GapCost,
}

impl RunRule {
    /// Tolerance used after a step of `step` channels, or `None` when the run ends.
    fn bridge(self, step: u32, used: u32) -> Option<u32> {
        match step {
            1 => Some(used),
            2..=REACH if used < self.tolerance => match self.cost {
                GapCost::Step => Some(used + step),
                GapCost::Missed => Some(used + step - 1),
            },
            _ => None,
        }
    }

    /// Cuts channels in rising order, each once, into runs.
    pub(super) fn runs(self, channels: &[u32]) -> impl Iterator<Item = &[u32]> {
        let mut used = 0;
        channels.chunk_by(move |channel, next| {
            let bridged = self.bridge(next - channel, used);
            used = bridged.unwrap_or(0);
            bridged.is_some()
        })
    }
}

/// Says of a changing set of channels whether it has a run of more than a number of channels.
///
/// A cluster in which no run was too long is not looked at again before it changes, so the cost
/// follows the changes, not the size of the window.
#[derive(Clone, Debug)]
pub(super) struct AdjacencyWatch {
    rule: RunRule,
    threshold: u32,
    hits: HitChannels,
    /// Channels that came or went since no run was longer than the threshold.
    changed: Vec<u32>,
}

impl AdjacencyWatch {
    /// Watches for runs of more than `threshold` channels.
    pub(super) fn new(rule: RunRule, threshold: u32) -> Self {
        Self { rule, threshold, hits: HitChannels::default(), changed: Vec::new() }
    }

    /// Adds a hit on a channel.
    pub(super) fn insert(&mut self, channel: u32) {
        if self.hits.insert(channel) {
            self.changed.push(channel);
        }
    }

    /// Takes away a hit that was inserted.
    pub(super) fn remove(&mut self, channel: u32) {
        if self.hits.remove(channel) {
            self.changed.push(channel);
        }
        if self.hits.distinct() == 0 {
            self.changed.clear();
        }
    }

    /// Number of channels with hits.
    pub(super) fn distinct(&self) -> u32 {
        self.hits.distinct()
    }

    /// Whether some run has more channels than the threshold.
    pub(super) fn exceeds(&mut self) -> bool {
        if self.hits.distinct() > self.threshold && self.a_changed_cluster_exceeds() {
            return true;
        }
        self.changed.clear();
        false
    }

    fn a_changed_cluster_exceeds(&mut self) -> bool {
        self.changed.sort_unstable();
        let mut seen_to = None;
        for &channel in &self.changed {
            // A channel that went may have left a cluster on either side.
            let own = self.hits.contains(channel).then_some(channel);
            let sides = [self.hits.previous(channel), own, self.hits.next(channel)];
            for member in sides.into_iter().flatten() {
                if seen_to.is_some_and(|seen_to| member <= seen_to) {
                    continue;
                }
                match self.end_of_cluster_without_long_run(member) {
                    Some(end) => seen_to = Some(end),
                    None => return true,
                }
            }
        }
        false
    }

    /// Last channel of the cluster of `member`, or `None` if a run in it is too long.
    fn end_of_cluster_without_long_run(&self, member: u32) -> Option<u32> {
        let mut channel = member;
        while let Some(previous) = self.hits.previous(channel) {
            channel = previous;
        }
        let (mut run, mut used) = (1, 0);
        while let Some(next) = self.hits.next(channel) {
            match self.rule.bridge(next - channel, used) {
                Some(now_used) => (run, used) = (run + 1, now_used),
                None => (run, used) = (1, 0),
            }
            if run > self.threshold {
                return None;
            }
            channel = next;
        }
        Some(channel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const MUON: RunRule = RunRule { tolerance: 3, cost: GapCost::Step };
    const TRACK: RunRule = RunRule { tolerance: 3, cost: GapCost::Missed };

    fn lengths(rule: RunRule, channels: &[u32]) -> Vec<usize> {
        rule.runs(channels).map(<[u32]>::len).collect()
    }

    #[test]
    fn neighbours_make_a_run() {
        assert_eq!(lengths(MUON, &[5, 6, 7, 8]), [4]);
        assert_eq!(lengths(MUON, &[]), [0; 0]);
    }

    #[test]
    fn a_gap_of_more_than_five_channels_ends_a_run() {
        assert_eq!(lengths(MUON, &[5, 6, 11, 12]), [4]);
        assert_eq!(lengths(MUON, &[5, 6, 12, 13]), [2, 2]);
    }

    #[test]
    fn gaps_use_the_tolerance_by_their_step_or_by_what_they_miss() {
        // Steps of 2 use 2 of 3, then 4: the third gap ends the run.
        assert_eq!(lengths(MUON, &[1, 3, 5, 7, 9]), [3, 2]);
        // One missed channel each uses 1, 2, 3 of 3: the fourth gap ends the run.
        assert_eq!(lengths(TRACK, &[1, 3, 5, 7, 9, 11]), [4, 2]);
        // The last gap bridged may overdraw the tolerance.
        assert_eq!(lengths(TRACK, &[1, 3, 5, 10, 12]), [4, 1]);
    }

    #[test]
    fn no_tolerance_bridges_no_gap() {
        let strict = RunRule { tolerance: 0, cost: GapCost::Step };
        assert_eq!(lengths(strict, &[1, 2, 4, 5, 6]), [2, 3]);
    }

    #[test]
    fn a_channel_that_goes_can_make_a_run_longer() {
        // Without channel 1 the tolerance lasts further.
        let mut watch = AdjacencyWatch::new(MUON, 3);
        [1, 3, 5, 10, 11].into_iter().for_each(|channel| watch.insert(channel));
        assert!(!watch.exceeds());
        watch.remove(1);
        assert!(watch.exceeds());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn the_watch_agrees_with_the_runs_after_every_change(
            tolerance in 0u32..6,
            threshold in 1u32..6,
            missed: bool,
            steps in prop::collection::vec((0u32..40, any::<bool>(), 0u8..3), 1..80),
        ) {
            let cost = if missed { GapCost::Missed } else { GapCost::Step };
            let rule = RunRule { tolerance, cost };
            let mut watch = AdjacencyWatch::new(rule, threshold);
            let mut set = BTreeSet::new();
            for (channel, insert, look) in steps {
                if insert && set.insert(channel) {
                    watch.insert(channel);
                } else if !insert && set.remove(&channel) {
                    watch.remove(channel);
                }
                if look == 0 {
                    let channels: Vec<u32> = set.iter().copied().collect();
                    let longest = lengths(rule, &channels).into_iter().max().unwrap_or(0);
                    prop_assert_eq!(watch.exceeds(), longest as u32 > threshold);
                }
            }
        }
    }
}
