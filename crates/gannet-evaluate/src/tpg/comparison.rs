//! Results beside those of an earlier report.

use gannet_dune::tpg::Chain;
use serde::{Deserialize, Serialize};

use super::{FrameFormat, PathChoice, TpgResult};

/// Part of the earlier figure by which one may be lower.
pub const TOLERANCE: f64 = 0.05;

/// What is compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Figure {
    /// The rate of searching over that of reading, which holds from one machine and day to the next
    /// better than a rate.
    #[default]
    Ratio,
    /// The rate of searching.
    Rate,
}

/// What two results must have in common to be compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Conditions {
    /// Steps between the samples and the threshold.
    pub chain: Chain,
    /// Instruction set of the kernels.
    pub isa: String,
    /// Form of the vector kernels.
    pub path: PathChoice,
    /// Format of the frames.
    pub format: FrameFormat,
    /// A sample belongs to a hit when it is above this; ADC counts.
    pub threshold: u16,
    /// Hits a second on each channel.
    pub hit_rate_hz: f64,
    /// Memory of a thread.
    pub working_set_bytes: u64,
    /// Threads that searched at the same time.
    pub threads: usize,
    /// Streams of a thread.
    pub streams: usize,
}

/// An earlier report, as far as it is compared.
#[derive(Clone, Debug, Deserialize)]
pub struct Earlier {
    results: Vec<EarlierResult>,
}

#[derive(Clone, Debug, Deserialize)]
struct EarlierResult {
    #[serde(flatten)]
    conditions: Conditions,
    gbit_per_s: f64,
    ratio: f64,
}

/// A result beside the earlier one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Compared {
    /// What both have in common.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The earlier figure: a ratio, or Gbit/s.
    pub earlier: f64,
    /// The figure of now.
    pub now: f64,
    /// Difference as a part of the earlier figure; below 0 if it was higher.
    pub change: f64,
    /// Whether the figure of now is lower by more than [`TOLERANCE`].
    pub is_worse: bool,
}

/// Results beside those of an earlier report.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// What is compared.
    pub figure: Figure,
    /// What both reports have.
    pub compared: Vec<Compared>,
    /// What the earlier report does not have.
    pub only_now: Vec<Conditions>,
    /// What only the earlier report has.
    pub only_earlier: Vec<Conditions>,
}

impl Comparison {
    /// Compares `results` with those of `earlier` that were measured under the same conditions.
    pub fn of(results: &[TpgResult], earlier: &Earlier, figure: Figure) -> Self {
        let (mut compared, mut only_now) = (Vec::new(), Vec::new());
        for result in results {
            let conditions = result.conditions();
            let same = earlier.results.iter().find(|one| one.conditions == conditions);
            let Some(same) = same else {
                only_now.push(conditions);
                continue;
            };
            let (before, now) = match figure {
                Figure::Ratio => (same.ratio, result.ratio),
                Figure::Rate => (same.gbit_per_s, result.gbit_per_s),
            };
            let is_worse = now < (1.0 - TOLERANCE) * before;
            let change = now / before - 1.0;
            compared.push(Compared { conditions, earlier: before, now, change, is_worse });
        }
        let of_earlier = earlier.results.iter().map(|one| &one.conditions);
        let is_alone = |one: &&Conditions| !compared.iter().any(|both| both.conditions == **one);
        let only_earlier = of_earlier.filter(is_alone).cloned().collect();
        Self { figure, compared, only_now, only_earlier }
    }

    /// Whether a figure is lower than the earlier one by more than [`TOLERANCE`].
    pub fn is_worse(&self) -> bool {
        self.compared.iter().any(|one| one.is_worse)
    }
}

impl TpgResult {
    fn conditions(&self) -> Conditions {
        Conditions {
            chain: self.chain,
            isa: self.isa.to_owned(),
            path: self.path,
            format: self.format,
            threshold: self.threshold,
            hit_rate_hz: self.hit_rate_hz,
            working_set_bytes: self.working_set_bytes,
            threads: self.threads,
            streams: self.streams,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::{TpgPlan, WorkingSet, measure};
    use gannet_measure::quantity::Bytes;

    fn results() -> Vec<TpgResult> {
        let plan = TpgPlan {
            hit_rates_hz: vec![100.0, 9e4],
            working_sets: vec![WorkingSet::Size(Bytes(1 << 16))],
            time: std::time::Duration::ZERO,
            ..TpgPlan::default()
        };
        measure(&plan, &mut |_| ()).unwrap().results
    }

    /// A report of these results with figures higher by a factor.
    fn earlier(results: &[TpgResult], factor: f64) -> Earlier {
        let earlier = |result: &TpgResult| EarlierResult {
            conditions: result.conditions(),
            gbit_per_s: result.gbit_per_s,
            ratio: factor * result.ratio,
        };
        Earlier { results: results.iter().map(earlier).collect() }
    }

    #[test]
    fn a_figure_lower_by_more_than_a_twentieth_is_worse() {
        let results = results();
        for (factor, is_worse) in [(0.5, false), (1.0, false), (1.04, false), (1.07, true)] {
            let comparison = Comparison::of(&results, &earlier(&results, factor), Figure::Ratio);
            assert_eq!((comparison.compared.len(), comparison.is_worse()), (2, is_worse));
            let change = comparison.compared[0].change;
            assert!((change - (1.0 / factor - 1.0)).abs() < 1e-9, "{change}");
        }
        let by_rate = Comparison::of(&results, &earlier(&results, 2.0), Figure::Rate);
        assert!(!by_rate.is_worse() && by_rate.compared[0].change == 0.0);
    }

    #[test]
    fn what_one_report_alone_has_is_named() {
        let results = results();
        let comparison = Comparison::of(&results[..1], &earlier(&results[1..], 9.0), Figure::Ratio);
        assert!(comparison.compared.is_empty() && !comparison.is_worse());
        let rates = |conditions: &[Conditions]| conditions[0].hit_rate_hz;
        assert_eq!((rates(&comparison.only_now), rates(&comparison.only_earlier)), (100.0, 9e4));
    }
}
