//! What each pattern of traffic can reach.

use gannet_torus::simulator::Pattern;
use serde::Serialize;

use super::{Demand, Stage};
use crate::torus::limits::Limits;
use crate::torus::machine::{Machine, pattern_name};
use crate::torus::{Error, Experiment, Timing};

/// What a pattern of traffic can reach.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatternPlan {
    /// Its name.
    pub pattern: &'static str,
    /// Mean links of a packet.
    pub mean_hops: f64,
    /// Load of the busiest link for each unit of load.
    pub max_channel_load: f64,
    /// Load that cannot be surpassed, in terms of the rate of a link.
    pub bound: f64,
    /// The same as a rate of each node, headers included.
    pub bound_bit_per_s: f64,
    /// The highest load that the simulator keeps up with, if it was asked.
    pub measured: Option<f64>,
    /// The same as a rate of each node.
    pub measured_bit_per_s: Option<f64>,
}

/// All patterns that need no options.
const PATTERNS: [Pattern; 6] = [
    Pattern::Uniform,
    Pattern::Neighbour,
    Pattern::Tornado,
    Pattern::BitComplement,
    Pattern::Halo,
    Pattern::AllToAll,
];

/// Looks at each pattern on the machine that `machine` makes for it.
pub fn patterns(
    demand: &Demand,
    machine: &dyn Fn(Pattern) -> Machine,
    progress: &mut dyn FnMut(Stage),
) -> Result<Vec<PatternPlan>, Error> {
    let mut plans = Vec::new();
    for pattern in PATTERNS {
        progress(Stage { name: pattern_name(&pattern), done: plans.len(), total: PATTERNS.len() });
        plans.push(reach(demand, machine(pattern))?);
    }
    Ok(plans)
}

fn reach(demand: &Demand, machine: Machine) -> Result<PatternPlan, Error> {
    let pattern = pattern_name(&machine.pattern);
    let experiment = Experiment::new(machine, Timing::default())?;
    let measured = match demand.simulate {
        true => Some(experiment.saturation(&mut |_| ())?.load),
        false => None,
    };
    let Limits { mean_hops, max_channel_load, saturation_bound: bound, .. } = *experiment.limits();
    Ok(PatternPlan {
        pattern,
        mean_hops,
        max_channel_load,
        bound,
        bound_bit_per_s: bound * demand.rate_bit_per_s,
        measured,
        measured_bit_per_s: measured.map(|load| load * demand.rate_bit_per_s),
    })
}
