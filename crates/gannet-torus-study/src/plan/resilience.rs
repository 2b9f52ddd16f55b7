//! What random failures leave of a machine.

use gannet_lattice::{Cable, Direction, Faults, Lattice, Node};
use gannet_measure::random::Random;
use gannet_torus::Routes;
use gannet_torus::routes::MAX_CHECKED_NODES;
use serde::Serialize;

use super::{Demand, Stage};

/// Virtual channels of the routers that routes are planned for.
const VCS: u8 = 4;
/// Random machines for each number of failures.
const TRIALS: usize = 100;
/// The same of large machines.
const TRIALS_LEAST: usize = 5;
/// Nodes that are looked at for each number of failures, unless trials are asked for.
const VISITS: usize = 4_000_000;
/// Steps of routes that are walked for each number of failures, unless trials are asked for.
const STEPS: f64 = 2.5e6;
/// Machines whose routes are planned at least, and how many more steps they may take then.
const ROUTED_LEAST: [(usize, f64); 2] = [(3, 10.0), (1, 100.0)];

/// What a number of failures leaves of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survival {
    /// What fails: `cables` or `nodes`.
    pub what: &'static str,
    /// How many of them.
    pub failed: usize,
    /// Random machines that were looked at: 100, or of large machines fewer, unless asked for.
    pub trials: usize,
    /// Part of them whose working nodes are all connected.
    pub connected: f64,
    /// Working nodes in the largest connected part, mean over the machines.
    pub largest_part: f64,
    /// Machines for which routes were planned: as many as take some seconds, unless asked for.
    pub routed_trials: usize,
    /// Part of these in which all connected pairs of nodes got routes; absent without any.
    pub routed: Option<f64>,
    /// Links that a packet passes more than it did without failures, mean over the pairs of nodes
    /// that are still connected in the routed machines; absent without such pairs.
    pub extra_hops: Option<f64>,
}

/// Random cables that fail, then random nodes, more and more of them.
pub(super) struct RandomFailures<'a> {
    base: &'a Faults,
    seed: u64,
    rows: Vec<(&'static str, usize)>,
    trials: usize,
    routed: usize,
    /// The ways before anything fails, if routes are planned.
    usual: Option<Usual>,
    cables: Vec<Cable>,
    nodes: Vec<Node>,
}

impl<'a> RandomFailures<'a> {
    /// Failures beside the faults of `base`, round which `routes` lead.
    pub fn new(demand: &Demand, base: &'a Faults, routes: &Routes) -> Self {
        let lattice = base.lattice();
        let cables = working_cables(base);
        let nodes: Vec<Node> = lattice.all().filter(|&node| base.node_works(node)).collect();
        let rows = rows(demand.fail, cables.len(), nodes.len());
        let few = (VISITS / lattice.nodes()).clamp(TRIALS_LEAST, TRIALS);
        let trials = demand.trials.unwrap_or(few);
        let routed = match demand.trials {
            _ if lattice.nodes() > MAX_CHECKED_NODES => 0,
            None => affordable(base).min(trials),
            Some(trials) => trials,
        };
        let usual = (routed > 0 && !rows.is_empty()).then(|| Usual::new(lattice, routes));
        Self { base, seed: demand.seed, rows, trials, routed, usual, cables, nodes }
    }

    /// Numbers of failures that are looked at.
    pub fn rows(&self) -> usize {
        self.rows.len()
    }

    /// What one of them leaves; `progress` hears of every machine.
    pub fn row(&self, row: usize, progress: &mut dyn FnMut(Stage)) -> Survival {
        let (what, failed) = self.rows[row];
        let (mut connected, mut largest) = (0, 0.0);
        let mut detours = Detours::default();
        let total = self.trials * self.rows.len();
        for trial in 0..self.trials {
            progress(Stage { name: "failures", done: row * self.trials + trial, total });
            let faults = self.draw(what, failed, trial);
            let part = largest_part(&faults);
            connected += usize::from(part >= 1.0);
            largest += part;
            if trial < self.routed {
                detours.add(&faults, self.usual.as_ref());
            }
        }
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        Survival {
            what,
            failed,
            trials: self.trials,
            connected: share(connected, self.trials),
            largest_part: largest / self.trials.max(1) as f64,
            routed_trials: self.routed,
            routed: (self.routed > 0).then(|| share(detours.routed, self.routed)),
            extra_hops: self.usual.as_ref().and_then(|_| detours.mean()),
        }
    }

    /// The base with failures of its working cables or nodes, all different.
    fn draw(&self, what: &str, failed: usize, trial: usize) -> Faults {
        let stream = (trial as u64) << 32 | (failed as u64) << 1 | u64::from(what == "nodes");
        let mut random = Random::stream(self.seed, stream);
        let mut faults = self.base.clone();
        if what == "cables" {
            picked(self.cables.clone(), failed, &mut random, |cable| faults.kill_cable(cable));
        } else {
            picked(self.nodes.clone(), failed, &mut random, |node| faults.kill_node(node));
        }
        faults
    }
}

/// What fails, and how many of it: at most all cables, and all nodes but one.
fn rows(most: usize, cables: usize, nodes: usize) -> Vec<(&'static str, usize)> {
    [("cables", cables), ("nodes", nodes.saturating_sub(1))]
        .into_iter()
        .flat_map(|(what, all)| counts(most.min(all)).into_iter().map(move |count| (what, count)))
        .collect()
}

fn working_cables(base: &Faults) -> Vec<Cable> {
    let works = |cable: &Cable| base.link_works(cable.from, Direction::of(cable.dimension, true));
    base.lattice().cables().filter(works).collect()
}

/// 1, 2, 5, 10 and so on up to `most`, which is the last.
fn counts(most: usize) -> Vec<usize> {
    let decades = (0..9).flat_map(|decade| [1, 2, 5].map(|digit| digit * 10_usize.pow(decade)));
    let below = decades.take_while(|count| *count < most);
    below.chain((most > 0).then_some(most)).collect()
}

/// Machines whose routes can be planned in some seconds; none where one would take minutes.
fn affordable(base: &Faults) -> usize {
    let lattice = base.lattice();
    // Up to three means are tried for each.
    let steps = 3.0 * (lattice.nodes() as f64).powi(2) * (1.0 + lattice.mean_distance());
    let least = ROUTED_LEAST.into_iter().find(|(_, times)| steps <= times * STEPS);
    let least = least.map_or(0, |(machines, _)| machines);
    ((STEPS / steps) as usize).clamp(least, TRIALS)
}

/// The ways of a machine before anything fails.
struct Usual {
    nodes: usize,
    /// By source and destination: links of the route; 0 where there is none.
    hops: Vec<u16>,
}

impl Usual {
    fn new(lattice: Lattice, routes: &Routes) -> Self {
        let pairs = lattice.all().flat_map(|from| lattice.all().map(move |to| (from, to)));
        let links = |(from, to)| routes.walk(from, to).map_or(0, |walk| walk.links().count());
        let hops = pairs.map(|pair| links(pair).try_into().unwrap_or(u16::MAX)).collect();
        Self { nodes: lattice.nodes(), hops }
    }

    /// Links between all pairs of nodes that `faults` leaves connected.
    fn hops(&self, faults: &Faults) -> u64 {
        let parts = faults.parts();
        let mut sum = 0;
        for (part, hops) in parts.iter().zip(self.hops.chunks(self.nodes)) {
            let still =
                parts.iter().zip(hops).filter(|(other, _)| part.is_some() && *other == part);
            sum += still.map(|(_, &hops)| u64::from(hops)).sum::<u64>();
        }
        sum
    }
}

/// Links that routes round failures take more than before, over all pairs that are left.
#[derive(Default)]
struct Detours {
    routed: usize,
    pairs: u64,
    hops: u64,
    usual: u64,
}

impl Detours {
    /// Adds a machine, if there are routes for it.
    fn add(&mut self, faults: &Faults, usual: Option<&Usual>) {
        let Ok((.., proven)) = Routes::around(faults, VCS) else { return };
        self.routed += 1;
        self.pairs += proven.pairs;
        self.hops += proven.hops;
        self.usual += usual.map_or(0, |usual| usual.hops(faults));
    }

    fn mean(&self) -> Option<f64> {
        (self.pairs > 0).then(|| (self.hops as f64 - self.usual as f64) / self.pairs as f64)
    }
}

/// Calls `pick` with `count` of `all`, or with as many as there are.
fn picked<T>(mut all: Vec<T>, count: usize, random: &mut Random, mut pick: impl FnMut(T)) {
    for _ in 0..count.min(all.len()) {
        let index = random.below(all.len() as u64) as usize;
        pick(all.swap_remove(index));
    }
}

/// The largest connected part in terms of all working nodes; 1 without any.
fn largest_part(faults: &Faults) -> f64 {
    let mut sizes: Vec<usize> = Vec::new();
    for part in faults.parts().into_iter().flatten() {
        let part = part as usize;
        sizes.resize(sizes.len().max(part + 1), 0);
        sizes[part] += 1;
    }
    let all: usize = sizes.iter().sum();
    sizes.into_iter().max().map_or(1.0, |largest| largest as f64 / all as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn survival(demand: &Demand, faults: &Faults) -> Vec<Survival> {
        let (routes, ..) = Routes::around(faults, VCS).unwrap();
        let failures = RandomFailures::new(demand, faults, &routes);
        (0..failures.rows()).map(|row| failures.row(row, &mut |_| ())).collect()
    }

    #[test]
    fn large_machines_are_drawn_less_often_unless_asked_for() {
        let trials = |lattice: &str, asked| {
            let faults = Faults::none(lattice.parse().unwrap());
            let demand = Demand { trials: asked, fail: 0, ..Demand::new(8, 6, 1e9) };
            let failures =
                RandomFailures::new(&demand, &faults, &Routes::dimension_order(faults.lattice()));
            (failures.trials, failures.routed)
        };
        assert_eq!((trials("4x4x4", None).0, trials("100x100x100", None)), (100, (5, 0)));
        assert_eq!((trials("8x8x4", None), trials("32x32", None)), ((100, 3), (100, 1)));
        assert_eq!((trials("16x16x16", None), trials("16x16x16", Some(2))), ((100, 0), (2, 2)));
    }

    #[test]
    fn failures_grow_by_about_two_up_to_the_last() {
        assert_eq!(counts(10), [1, 2, 5, 10]);
        assert_eq!(counts(7), [1, 2, 5, 7]);
        assert_eq!(counts(0), [0; 0]);
    }

    #[test]
    fn a_ring_bears_one_failure_and_not_two() {
        let faults = Faults::none("8".parse().unwrap());
        let demand = Demand { fail: 2, trials: Some(200), ..Demand::new(8, 2, 1e9) };
        let found = survival(&demand, &faults);
        let [one, two, node, nodes] = &found[..] else { panic!("{found:?}") };
        assert_eq!((one.what, one.connected, one.routed), ("cables", 1.0, Some(1.0)));
        // A line of eight has 3 links between two nodes on average, the ring 16 / 7.
        assert!((one.extra_hops.unwrap() - (3.0 - 16.0 / 7.0)).abs() < 1e-9, "{one:?}");
        assert_eq!((two.connected, two.routed), (0.0, Some(1.0)));
        assert_eq!((node.connected, node.failed), (1.0, 1));
        // Two dead nodes leave the others together only side by side: 8 of 28 pairs.
        assert!((nodes.connected - 8.0 / 28.0).abs() < 0.1, "{nodes:?}");
    }

    #[test]
    fn no_more_fails_than_there_is() {
        assert_eq!(rows(10, 2, 2), [("cables", 1), ("cables", 2), ("nodes", 1)]);
        assert_eq!(rows(1000, 32, 16).last(), Some(&("nodes", 15)));
    }

    #[test]
    fn ways_are_compared_between_nodes_that_are_still_connected() {
        let faults = Faults::none("4x4".parse().unwrap());
        let demand = Demand { fail: 32, trials: Some(20), ..Demand::new(16, 4, 1e9) };
        let found = survival(&demand, &faults);
        assert!(found.iter().all(|row| row.extra_hops.is_none_or(|hops| hops >= 0.0)), "{found:?}");
        let all = found.iter().rfind(|row| row.what == "cables").unwrap();
        assert_eq!((all.failed, all.connected, all.extra_hops), (32, 0.0, None));
    }

    #[test]
    fn the_largest_part_counts_working_nodes() {
        let mut faults = Faults::none("6".parse().unwrap());
        faults.kill_node(Node(0));
        faults.kill_node(Node(2));
        assert_eq!(largest_part(&faults), 0.75);
    }
}
