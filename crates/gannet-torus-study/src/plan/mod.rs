//! A switchless machine on paper: shape, cables, throughput, and what it survives.

mod bisection;
mod cabling;
mod connectivity;
mod demand;
mod resilience;
mod shape;

use std::sync::Arc;

use gannet_lattice::{Faults, Lattice, Node};
use gannet_torus::Routes;

use serde::Serialize;

pub use self::cabling::{Wire, cabling, csv};
pub use self::demand::{Demand, Prices};
use self::resilience::RandomFailures;
pub use self::resilience::Survival;
pub use self::shape::{Shape, shapes};
use super::Error;
use super::experiment::{Experiment, Timing};
use super::limits::Limits;
use super::machine::{Machine, pattern_name};
use gannet_torus::routes::MAX_CHECKED_NODES;
use gannet_torus::simulator::{Pattern, Setup};

/// Where a plan is; `done` of `total` steps of the named work are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stage {
    /// The work.
    pub name: &'static str,
    /// Steps done.
    pub done: usize,
    /// All steps.
    pub total: usize,
}

/// A machine on paper.
#[derive(Clone, Debug, Serialize)]
pub struct Plan {
    /// What was asked for.
    pub demand: Demand,
    /// Shapes that do it, the best first.
    pub shapes: Vec<Shape>,
    /// The one that is planned.
    #[serde(skip)]
    pub sizes: Lattice,
    /// The same as text.
    pub lattice: String,
    /// Places of it that stay empty, from the last node down.
    pub missing: usize,
    /// Cables between nodes.
    pub cables: usize,
    /// Cables of the node that has most.
    pub node_cables: usize,
    /// Places between the ends of the longest cable, when nodes stand in the order of the cabling.
    pub longest_cable_places: u16,
    /// Links, both ways counted, between two halves of the nodes: the fewest without empty places, about the
    /// fewest with some.
    pub bisection_links: usize,
    /// Their rate together.
    pub bisection_bit_per_s: f64,
    /// Mean links of a packet to any node.
    pub mean_hops: f64,
    /// Links of the longest route.
    pub max_hops: u32,
    /// Nanoseconds from node to node over the mean way for a packet that meets no other, if the
    /// time of a hop is known.
    pub zero_load_latency_ns: Option<f64>,
    /// The same over the longest way.
    pub longest_latency_ns: Option<f64>,
    /// Part of a link's rate that is payload in packets of the APElink, their framing and words of
    /// credit taken off.
    pub payload_share: f64,
    /// What each pattern of traffic can reach.
    pub patterns: Vec<PatternPlan>,
    /// Cables of which the loss can separate a part at worst; any fewer cannot. Absent for large
    /// machines with empty places.
    pub separating_cables: Option<usize>,
    /// What random failures do.
    pub survival: Vec<Survival>,
    /// The same nodes on one switch.
    pub switch: demand::Switch,
    /// What of the prices of the torus is known.
    pub cost: Option<f64>,
    /// All cables; a table of its own.
    #[serde(skip)]
    pub wires: Arc<[Wire]>,
}

/// Plans a machine; `progress` hears where the plan is, with what it then holds, if there is
/// anything. Nothing is [measured](measure) yet.
///
/// # Errors
/// When nodes or ports are out of range, or the lattice asked for does not fit them.
pub fn plan(
    demand: &Demand,
    progress: &mut dyn FnMut(Stage, Option<&Plan>),
) -> Result<Plan, Error> {
    demand.check()?;
    progress(Stage { name: "shapes and cables", done: 0, total: 1 }, None);
    let shapes = shapes(demand.nodes, demand.ports / 2);
    let lattice = demand.lattice.unwrap_or(shapes[0].sizes);
    let faults = empty_places(lattice, demand.nodes);
    let machine = |pattern| machine(lattice, demand.nodes, pattern);
    let patterns = PATTERNS;
    let stage = |done| Stage { name: pattern_name(&patterns[done]), done, total: patterns.len() };
    progress(stage(0), None);
    let (routes, _) = machine(Pattern::Uniform).routes()?;
    let mut plan = unmeasured(demand, shapes, &faults, &routes);
    for (done, pattern) in patterns.iter().enumerate().skip(plan.patterns.len()) {
        progress(stage(done), Some(&plan));
        let limits = Limits::new(&machine(pattern.clone()), &routes);
        plan.patterns.push(bounds(demand, pattern, &limits));
    }
    progress(Stage { name: "failures", done: 0, total: 1 }, Some(&plan));
    plan.separating_cables = connectivity::separating_cables(&faults);
    let failures = RandomFailures::new(demand, &faults, &routes);
    for row in 0..failures.rows() {
        let row = failures.row(row, &mut |stage| progress(stage, Some(&plan)));
        plan.survival.push(row);
    }
    Ok(plan)
}

/// The plan with the bounds of uniform traffic, and without what takes longer.
fn unmeasured(demand: &Demand, shapes: Vec<Shape>, faults: &Faults, routes: &Routes) -> Plan {
    let lattice = faults.lattice();
    let uniform = Pattern::Uniform;
    let limits = Limits::new(&machine(lattice, demand.nodes, uniform.clone()), routes);
    let wires = cabling(faults);
    let bisection_links = bisection::bisection_links(faults);
    // There are always packets that arrive: those of a node to itself.
    let mean_hops = limits.mean_hops.unwrap_or(0.0);
    Plan {
        sizes: lattice,
        lattice: lattice.to_string(),
        missing: lattice.nodes() - demand.nodes,
        cables: wires.len(),
        node_cables: cabling::most_of_a_node(&wires, lattice.nodes()),
        longest_cable_places: wires.iter().map(|wire| wire.places).max().unwrap_or(0),
        bisection_links,
        bisection_bit_per_s: bisection_links as f64 * demand.rate_bit_per_s,
        mean_hops,
        max_hops: limits.max_hops,
        zero_load_latency_ns: demand.latency_ns(mean_hops),
        longest_latency_ns: demand.latency_ns(f64::from(limits.max_hops)),
        payload_share: demand.payload_share(),
        patterns: vec![bounds(demand, &uniform, &limits)],
        separating_cables: None,
        survival: Vec::new(),
        switch: demand.switch(),
        cost: demand.prices.cable.map(|cable| cable * wires.len() as f64),
        shapes,
        demand: demand.clone(),
        wires: wires.into(),
    }
}

/// Measures the saturation of each pattern; `progress` hears where it is, with what the plan then
/// holds.
///
/// # Errors
/// None for a plan as [`plan`] made it.
pub fn measure(plan: &mut Plan, progress: &mut dyn FnMut(Stage, &Plan)) -> Result<(), Error> {
    let (lattice, nodes, total) = (plan.sizes, plan.demand.nodes, plan.patterns.len());
    for place in 0..total {
        progress(Stage { name: plan.patterns[place].pattern, done: place, total }, plan);
        let machine = |pattern| machine(lattice, nodes, pattern);
        saturate(&plan.demand, place, &machine, &mut plan.patterns[place])?;
    }
    Ok(())
}

/// The machine in which routes lead round empty places.
///
/// They are walked pair by pair; of a larger machine, all places are taken for filled.
fn machine(lattice: Lattice, nodes: usize, pattern: Pattern) -> Machine {
    let machine = Machine::new(Setup::new(lattice), pattern);
    if lattice.nodes() <= MAX_CHECKED_NODES {
        Machine { faults: empty_places(lattice, nodes), ..machine }
    } else {
        machine
    }
}

/// A lattice whose last places are empty.
fn empty_places(lattice: Lattice, nodes: usize) -> Faults {
    let mut faults = Faults::none(lattice);
    (nodes..lattice.nodes()).for_each(|node| faults.kill_node(Node(node as u32)));
    faults
}

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
const PATTERNS: [Pattern; 6] = [
    Pattern::Uniform,
    Pattern::Neighbour,
    Pattern::Tornado,
    Pattern::BitComplement,
    Pattern::Halo,
    Pattern::AllToAll,
];

/// The bounds of a pattern on a machine with these limits.
fn bounds(demand: &Demand, pattern: &Pattern, limits: &Limits) -> PatternPlan {
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
fn saturate(
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

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(nodes: usize, ports: usize, lattice: Option<&str>) -> Plan {
        let lattice = lattice.map(|text| text.parse().unwrap());
        let demand = Demand { lattice, fail: 2, ..Demand::new(nodes, ports, 100e9) };
        plan(&demand, &mut |_, _| ()).unwrap()
    }

    #[test]
    fn sixty_four_nodes_make_a_cube() {
        let plan = planned(64, 6, None);
        assert_eq!((plan.lattice.as_str(), plan.missing, plan.cables), ("4x4x4", 0, 192));
        assert_eq!((plan.bisection_links, plan.bisection_bit_per_s), (64, 6.4e12));
        assert_eq!((plan.mean_hops, plan.max_hops, plan.separating_cables), (3.0, 6, Some(6)));
        assert_eq!(plan.longest_cable_places, 2);
        assert_eq!(plan.zero_load_latency_ns, None);
        let survival = &plan.survival[0];
        assert_eq!((survival.failed, survival.connected, survival.routed), (1, 1.0, Some(1.0)));
    }

    #[test]
    fn nodes_of_few_rings_use_few_of_their_ports() {
        for (nodes, lattice, cables) in
            [(16, "16", 2), (2, "2", 2), (14, "7x2", 4), (8, "4x2", 4), (8, "2x2x2", 6)]
        {
            assert_eq!(planned(nodes, 6, Some(lattice)).node_cables, cables, "{lattice}");
        }
        assert_eq!(planned(3, 6, Some("4x4x4")).node_cables, 2, "three in a line");
    }

    #[test]
    fn a_plan_grows_and_is_heard_of_while_it_does() {
        let demand = Demand { fail: 2, ..Demand::new(8, 6, 1e9) };
        let mut heard = Vec::new();
        let plan = plan(&demand, &mut |stage, plan| {
            let parts = plan.map(|plan| (plan.patterns.len(), plan.survival.len()));
            heard.push((stage.name, parts));
        });
        let plan = plan.unwrap();
        assert_eq!((plan.patterns.len(), plan.survival.len()), (6, 4));
        assert!(heard.is_sorted_by_key(|(_, parts)| *parts), "{heard:?}");
        assert!(heard.contains(&("neighbour", Some((1, 0)))), "{heard:?}");
        assert!(heard.contains(&("failures", Some((6, 3)))), "{heard:?}");
    }

    #[test]
    fn a_published_machine_has_its_published_figures() {
        let plan = planned(16, 4, Some("4x4x1"));
        assert_eq!((plan.bisection_links, plan.mean_hops, plan.cables), (16, 2.0, 32));
    }

    #[test]
    fn empty_places_take_their_cables_with_them() {
        let plan = planned(62, 6, Some("4x4x4"));
        assert_eq!((plan.missing, plan.cables), (2, 192 - 11), "the two share a cable");
        assert_eq!(plan.separating_cables, Some(5), "the neighbours have five left");
    }

    #[test]
    fn bounds_count_what_is_really_sent() {
        let uniform = |nodes| planned(nodes, 6, Some("4x4x4")).patterns.remove(0);
        // Three in a line: each cable carries, in one direction, 2 of the 9 ways between them, for 3
        // nodes.
        for nodes in [48, 3] {
            let load = uniform(nodes).max_channel_load.unwrap();
            assert!((load - 2.0 / 3.0).abs() < 1e-9, "{nodes}: {load}");
            assert_eq!(uniform(nodes).bound, Some(1.0));
        }
        let three = planned(3, 6, Some("4x4x4")).patterns;
        let complement = three.iter().find(|plan| plan.pattern == "bit-complement").unwrap();
        assert_eq!(
            (complement.bound, complement.mean_hops),
            (None, None),
            "all go to empty places"
        );
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |nodes, ports, lattice: Option<&str>| {
            let lattice = lattice.map(|text| text.parse().unwrap());
            let demand = Demand { lattice, ..Demand::new(nodes, ports, 1e9) };
            plan(&demand, &mut |_, _| ()).unwrap_err().to_string()
        };
        assert!(refused(64, 3, None).contains("2, 4 or 6"));
        assert!(refused(1, 6, None).contains("2 to 1048576"));
        assert!(refused(65, 6, Some("4x4x4")).contains("has 64 places for 65 nodes"));
        assert!(refused(16, 4, Some("4x2x2")).contains("needs 6 ports"));
    }
}
