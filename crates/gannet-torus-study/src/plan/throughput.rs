//! What each pattern of traffic can reach.

use gannet_torus::simulator::Pattern;
use serde::Serialize;

use super::Demand;
use crate::limits::Limits;
use crate::machine::{Machine, pattern_name};
use crate::{Error, Experiment, Timing};

/// What a pattern of traffic can reach.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternPlan {
    /// Its name.
    pub pattern: &'static str,
    /// Mean links of a packet; absent, as all that follows, where none can arrive because of empty
    /// places.
    pub mean_hops: Option<f64>,
    /// Load of the busiest link for each flit per cycle that a node really sends, in the mean over
    /// all that send.
    pub max_channel_load: Option<f64>,
    /// What a node can send at most, in the mean, in terms of the rate of a link.
    pub bound: Option<f64>,
    /// The same as a rate of each node, headers included.
    pub bound_bit_per_s: Option<f64>,
    /// What a node sends at the highest load that the simulator keeps up with, if it was asked;
    /// absent where packets to empty places leave it no load that would be too high.
    pub measured: Option<f64>,
    /// The same as a rate of each node.
    pub measured_bit_per_s: Option<f64>,
}

/// All patterns that need no options, uniform traffic first.
pub(super) const PATTERNS: [Pattern; 6] = [
    Pattern::Uniform,
    Pattern::Neighbour,
    Pattern::Tornado,
    Pattern::BitComplement,
    Pattern::Halo,
    Pattern::AllToAll,
];

/// The bounds of a pattern on a machine with these limits.
pub(super) fn bounds(demand: &Demand, pattern: &Pattern, limits: &Limits) -> PatternPlan {
    let max_channel_load = limits.sent.map(|sent| limits.max_channel_load / sent);
    // Nodes do not offer what would be refused, so that their own rate is no bound before 1.
    let rounded = |load: f64| (load * 1e12).round() / 1e12;
    let full = [limits.channel_bound, limits.class_bound, limits.ejection_bound];
    let full = full.into_iter().flatten();
    let bound =
        limits.sent.map(|sent| full.fold(1.0, |least: f64, load| least.min(rounded(load * sent))));
    PatternPlan {
        pattern: pattern_name(pattern),
        mean_hops: limits.mean_hops,
        max_channel_load,
        bound,
        bound_bit_per_s: bound.map(|bound| bound * demand.rate_bit_per_s),
        measured: None,
        measured_bit_per_s: None,
    }
}

/// Measures the saturation of one of the [`PATTERNS`], by its place among them.
pub(super) fn measure(
    demand: &Demand,
    place: usize,
    machine: &dyn Fn(Pattern) -> Machine,
    plan: &mut PatternPlan,
) -> Result<(), Error> {
    let experiment = Experiment::new(machine(PATTERNS[place].clone()), Timing::default())?;
    let Some(sent) = experiment.limits().sent else { return Ok(()) };
    let load = experiment.saturation(&mut |_| ())?.load;
    let is_held_back = load >= 1.0 && sent < 1.0;
    plan.measured = (!is_held_back).then_some(load * sent);
    plan.measured_bit_per_s = plan.measured.map(|load| load * demand.rate_bit_per_s);
    Ok(())
}
