//! What random failures leave of a machine.

use gannet_measure::random::Random;
use gannet_torus::routes::MAX_CHECKED_NODES;
use gannet_torus::{Cable, Direction, Faults, Node, Routes};
use serde::Serialize;

use super::{Demand, Stage};

/// Virtual channels of the routers that routes are planned for.
const VCS: u8 = 4;
/// Random machines for each number of failures.
const TRIALS: usize = 100;
/// Steps of routes that are walked for each number of failures, unless trials are asked for.
const STEPS: f64 = 2.5e6;
/// Machines whose routes are planned at least.
const ROUTED_LEAST: usize = 3;

/// What a number of failures leaves of a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Survival {
    /// What fails: `cables` or `nodes`.
    pub what: &'static str,
    /// How many of them.
    pub failed: usize,
    /// Random machines that were looked at.
    pub trials: usize,
    /// Part of them whose working nodes are all connected.
    pub connected: f64,
    /// Working nodes in the largest connected part, mean over the machines.
    pub largest_part: f64,
    /// Machines for which routes were planned.
    pub routed_trials: usize,
    /// Part of these in which all connected pairs of nodes got routes; absent without any.
    pub routed: Option<f64>,
    /// Links that a packet passes more than it did without failures, mean over the pairs of nodes
    /// that are still connected in the routed machines; absent without such pairs.
    pub extra_hops: Option<f64>,
}

/// Lets random cables fail, then random nodes, more and more of them.
pub fn survival(demand: &Demand, base: &Faults, progress: &mut dyn FnMut(Stage)) -> Vec<Survival> {
    let rows = rows(demand.fail, base);
    let trials = demand.trials.unwrap_or(TRIALS);
    let routed = demand.trials.unwrap_or_else(|| affordable(base)).min(trials);
    let routed = if base.lattice().nodes() > MAX_CHECKED_NODES { 0 } else { routed };
    let usual = (routed > 0 && !rows.is_empty()).then(|| Usual::new(base)).flatten();
    let mut found = Vec::new();
    for &(what, failed) in &rows {
        progress(Stage { name: "failures", done: found.len(), total: rows.len() });
        let sample = Sample { base, what, failed, seed: demand.seed };
        found.push(sample.survival(trials, routed, usual.as_ref()));
    }
    found
}

/// What fails, and how many of it: at most all cables, and all nodes but one.
fn rows(most: usize, base: &Faults) -> Vec<(&'static str, usize)> {
    let nodes = base.lattice().all().filter(|&node| base.node_works(node)).count();
    let (cables, nodes) = (working_cables(base).len(), nodes.saturating_sub(1));
    [("cables", cables), ("nodes", nodes)]
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

/// Machines whose routes can be planned in some seconds.
fn affordable(base: &Faults) -> usize {
    let lattice = base.lattice();
    // Up to three means are tried for each.
    let steps = 3.0 * (lattice.nodes() as f64).powi(2) * (1.0 + lattice.mean_distance());
    ((STEPS / steps) as usize).clamp(ROUTED_LEAST, TRIALS)
}

/// The ways of a machine before anything fails.
struct Usual {
    nodes: usize,
    /// By source and destination: links of the route; 0 where there is none.
    hops: Vec<u16>,
}

impl Usual {
    /// `None` where no routes are fit.
    fn new(base: &Faults) -> Option<Self> {
        let (routes, ..) = Routes::around(base, VCS).ok()?;
        let lattice = base.lattice();
        let pairs = lattice.all().flat_map(|from| lattice.all().map(move |to| (from, to)));
        let links = |(from, to)| routes.walk(from, to).map_or(0, |walk| walk.links().count());
        let hops = pairs.map(|pair| links(pair).try_into().unwrap_or(u16::MAX)).collect();
        Some(Self { nodes: lattice.nodes(), hops })
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

/// Machines with a number of failures.
struct Sample<'a> {
    base: &'a Faults,
    what: &'static str,
    failed: usize,
    seed: u64,
}

impl Sample<'_> {
    fn survival(&self, trials: usize, routed_trials: usize, usual: Option<&Usual>) -> Survival {
        let (mut connected, mut largest) = (0, 0.0);
        let mut detours = Detours::default();
        for trial in 0..trials {
            let faults = self.draw(trial);
            let part = largest_part(&faults);
            connected += usize::from(part >= 1.0);
            largest += part;
            if trial < routed_trials {
                detours.add(&faults, usual);
            }
        }
        let share = |count: usize, of: usize| count as f64 / of.max(1) as f64;
        Survival {
            what: self.what,
            failed: self.failed,
            trials,
            connected: share(connected, trials),
            largest_part: largest / trials.max(1) as f64,
            routed_trials,
            routed: (routed_trials > 0).then(|| share(detours.routed, routed_trials)),
            extra_hops: usual.and_then(|_| detours.mean()),
        }
    }

    /// The base with failures of its working cables or nodes, all different.
    fn draw(&self, trial: usize) -> Faults {
        let lattice = self.base.lattice();
        let stream =
            (trial as u64) << 32 | (self.failed as u64) << 1 | u64::from(self.what == "nodes");
        let mut random = Random::stream(self.seed, stream);
        let mut faults = self.base.clone();
        if self.what == "cables" {
            picked(working_cables(self.base), self.failed, &mut random, |cable| {
                faults.kill_cable(cable)
            });
        } else {
            let nodes: Vec<Node> = lattice.all().filter(|&n| self.base.node_works(n)).collect();
            picked(nodes, self.failed, &mut random, |node| faults.kill_node(node));
        }
        faults
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
        let found = survival(&demand, &faults, &mut |_| ());
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
        let pair = Faults::none("2".parse().unwrap());
        assert_eq!(rows(10, &pair), [("cables", 1), ("cables", 2), ("nodes", 1)]);
        let grid = Faults::none("4x4".parse().unwrap());
        assert_eq!(rows(1000, &grid).last(), Some(&("nodes", 15)));
    }

    #[test]
    fn ways_are_compared_between_nodes_that_are_still_connected() {
        let faults = Faults::none("4x4".parse().unwrap());
        let demand = Demand { fail: 32, trials: Some(20), ..Demand::new(16, 4, 1e9) };
        let found = survival(&demand, &faults, &mut |_| ());
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
