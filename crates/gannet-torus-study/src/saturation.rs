//! The highest load that a network keeps up with.

use serde::Serialize;

use super::Error;
use super::experiment::Experiment;
use super::point::Point;

/// How closely the saturation load is searched.
const RESOLUTION: f64 = 0.005;

/// Where a network saturates, and what it does beyond.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Saturation {
    /// Highest load tried of which at least 98 % were accepted.
    pub load: f64,
    /// The highest load of which everything can be accepted, for comparison.
    pub bound: f64,
    /// `load` in terms of `bound`.
    pub ratio: f64,
    /// Highest accepted throughput seen, flits per node and cycle.
    pub peak_accepted: f64,
    /// Load at which it was seen.
    pub peak_load: f64,
    /// Accepted when every node offers a flit in each cycle.
    pub overload_accepted: f64,
    /// Least of a node in that case; absent where some cannot send.
    pub overload_accepted_least: Option<f64>,
    /// All loads tried, in their order.
    pub trials: Vec<Point>,
}

impl Experiment {
    /// Searches the saturation load by halving; `progress` hears of every trial.
    ///
    /// # Errors
    /// When the traffic is a trace, whose load cannot be chosen.
    pub fn saturation(&self, progress: &mut dyn FnMut(&Point)) -> Result<Saturation, Error> {
        if self.own_load().is_some() {
            return Err(Error::TraceLoad);
        }
        let bound = self.limits().saturation_bound;
        let mut trials = Vec::new();
        let mut keeps_up = |load: f64| {
            let point = self.measure(load)?;
            progress(&point);
            trials.push(point);
            Ok::<_, Error>(trials[trials.len() - 1].keeps_up())
        };
        // Sources that offer more than a flit in each cycle do not exist, so 1 is tried first.
        let mut most = 1.0;
        let mut least = if keeps_up(most)? { most } else { 0.0 };
        if least == 0.0 && bound < 0.9 {
            // Just above the bound there is nothing to be found.
            most = (bound * 1.03).min(1.0);
        }
        while most - least > RESOLUTION {
            let middle = round(f64::midpoint(least, most));
            if keeps_up(middle)? {
                least = middle;
            } else {
                most = middle;
            }
        }
        Ok(Self::summed_up(least, bound, trials))
    }

    fn summed_up(load: f64, bound: f64, trials: Vec<Point>) -> Saturation {
        let peak = trials.iter().max_by(|a, b| a.accepted.total_cmp(&b.accepted));
        let overload = &trials[0];
        Saturation {
            load,
            bound,
            ratio: load / bound,
            peak_accepted: peak.map_or(0.0, |point| point.accepted),
            peak_load: peak.map_or(0.0, |point| point.load),
            overload_accepted: overload.accepted,
            overload_accepted_least: overload.accepted_least,
            trials,
        }
    }
}

/// Loads as people write them: four digits.
fn round(load: f64) -> f64 {
    (load * 1e4).round() / 1e4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Machine, Timing};
    use gannet_torus::simulator::{Pattern, Setup, WarmUp};

    fn saturation(pattern: Pattern, vcs: u8) -> Saturation {
        let mut setup = Setup::new("4x4".parse().unwrap());
        setup.vcs = vcs;
        let timing = Timing { warm_up: Some(WarmUp::Cycles(500)), window: Some(3000), drain: 0 };
        let experiment = Experiment::new(Machine::new(setup, pattern), timing).unwrap();
        experiment.saturation(&mut |_| ()).unwrap()
    }

    #[test]
    fn two_channels_saturate_at_half_on_one_way_traffic() {
        // One channel for each side of the dateline takes a new packet every second cycle.
        let found = saturation(Pattern::Neighbour, 2);
        assert!((0.47..0.53).contains(&found.load), "{found:?}");
        assert!((0.48..0.52).contains(&found.peak_accepted), "{found:?}");
    }

    #[test]
    fn neighbours_take_all_with_four_channels() {
        let found = saturation(Pattern::Neighbour, 4);
        assert_eq!((found.load, found.ratio, found.trials.len()), (1.0, 1.0, 1));
    }
}
