//! The choice of routes for a machine with faults.

use gannet_lattice::Faults;
use serde::Serialize;
use thiserror::Error;

use super::check::{Proven, Unfit, check};
use super::detour::Detours;
use super::ring::Rings;
use super::tree::Tree;
use super::{Routes, Scheme};

/// Most nodes of a machine with faults: every pair of them is walked before routes are installed.
pub const MAX_CHECKED_NODES: usize = 4096;

/// How routes get round the faults, from the least change to the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Means {
    /// The long way round broken rings, where any are met: dimension order in two classes.
    LongWay,
    /// Early turns: some pairs pass a node on the way, behind which they use escape channels; four
    /// classes.
    EarlyTurn,
    /// Up a tree and down again; one class, longer routes.
    Tree,
}

/// Why no routes are installed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refused {
    /// The machine is too large for all its routes to be walked.
    #[error(
        "routes round faults are walked pair by pair before they are installed, for machines of up \
         to {MAX_CHECKED_NODES} nodes; this one has {0}"
    )]
    TooLarge(usize),
    /// The machine has no virtual channels.
    #[error("there are no routes without virtual channels: a link needs one at least")]
    NoChannels,
    /// None of the means gave routes that pass the check.
    #[error("no routes round these faults pass the check; the last ones tried: {0}")]
    Unfit(Unfit),
}

impl Routes {
    /// Routes between all connected nodes of a machine with faults, by the least means for which
    /// `vcs` virtual channels suffice, and the proof that they are fit.
    ///
    /// # Errors
    ///
    /// [`Refused`], with the reason.
    pub fn around(faults: &Faults, vcs: u8) -> Result<(Self, Means, Proven), Refused> {
        let lattice = faults.lattice();
        if vcs == 0 {
            return Err(Refused::NoChannels);
        }
        if lattice.nodes() > MAX_CHECKED_NODES {
            return Err(Refused::TooLarge(lattice.nodes()));
        }
        let mut last = None;
        for means in [Means::LongWay, Means::EarlyTurn, Means::Tree] {
            let Some(routes) = Self::by(means, faults).filter(|routes| routes.classes() <= vcs)
            else {
                continue;
            };
            match check(&routes, faults) {
                Ok(proven) => return Ok((routes, means, proven)),
                Err(unfit) => last = Some(unfit),
            }
        }
        Err(Refused::Unfit(last.expect("routes up and down a tree need one channel")))
    }

    /// Routes by these means, unchecked; `None` where the means have nothing to add.
    fn by(means: Means, faults: &Faults) -> Option<Self> {
        let lattice = faults.lattice();
        let in_order = |detours| Scheme::DimensionOrder { rings: Rings::new(faults), detours };
        let scheme = match means {
            Means::LongWay => in_order(None),
            Means::EarlyTurn => {
                let direct = Self { lattice, scheme: in_order(None), parts: None };
                in_order(Some(Detours::find(faults, &direct)?))
            }
            Means::Tree => Scheme::Tree(Tree::new(faults)),
        };
        let parts = (!faults.is_empty()).then(|| faults.parts());
        Some(Self { lattice, scheme, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_lattice::{Direction, Lattice, Node};
    use gannet_measure::random::Random;

    fn lattice(text: &str) -> Lattice {
        text.parse().unwrap()
    }

    #[test]
    fn without_faults_dimension_order_is_minimal_and_acyclic() {
        for text in ["8", "5x4", "4x4x4", "2x3x7", "1x1x6"] {
            let (routes, means, proven) = Routes::around(&Faults::none(lattice(text)), 2).unwrap();
            let (from, all) = (Node(0), lattice(text).all());
            let nodes = lattice(text).nodes() as u64;
            let distances: u32 = all.map(|to| lattice(text).distance(from, to)).sum();
            assert_eq!(
                (means, proven.hops),
                (Means::LongWay, nodes * u64::from(distances)),
                "{text}"
            );
            assert_eq!(proven.longest, lattice(text).diameter());
            assert_eq!(routes.classes(), 2);
        }
    }

    #[test]
    fn one_class_has_a_cycle_in_every_ring_of_four() {
        let faults = Faults::none(lattice("4x4"));
        let unfit = check(&Routes::bubble(lattice("4x4")), &faults).unwrap_err();
        assert!(matches!(unfit, Unfit::Cycle { .. }), "{unfit}");
    }

    #[test]
    fn a_cut_cable_sends_packets_the_long_way_round() {
        let lattice = lattice("4x4x4");
        let mut faults = Faults::none(lattice);
        faults.kill_cable(lattice.cable(Node(0), Direction::XPlus));
        let (_, means, proven) = Routes::around(&faults, 2).unwrap();
        assert_eq!((means, proven.longest), (Means::LongWay, 7));
    }

    #[test]
    fn a_dead_node_needs_early_turns_or_with_two_channels_a_tree() {
        let lattice = lattice("4x4x4");
        let mut faults = Faults::none(lattice);
        faults.kill_node(Node(21));
        let (_, means, proven) = Routes::around(&faults, 4).unwrap();
        assert_eq!((means, proven.pairs), (Means::EarlyTurn, 63 * 62));
        assert_eq!(Routes::around(&faults, 2).unwrap().1, Means::Tree);
    }

    #[test]
    fn random_faults_are_all_routed() {
        for (text, seed) in [("4x4x4", 0..300), ("5x3x2", 300..450), ("7x4", 450..600)] {
            for seed in seed {
                let random = &mut Random::new(seed);
                let (nodes, cables) = (random.below(6) as usize, random.below(20) as usize);
                let faults = Faults::random(lattice(text), nodes, cables, random);
                let (_, _, proven) = Routes::around(&faults, 4).unwrap_or_else(|refused| {
                    panic!("{text}, seed {seed}, {nodes} nodes and {cables} cables: {refused}")
                });
                assert_eq!(proven.pairs, connected_pairs(&faults), "{text}, seed {seed}");
            }
        }
    }

    fn connected_pairs(faults: &Faults) -> u64 {
        let parts = faults.parts();
        let size = |part| parts.iter().filter(|other| **other == Some(part)).count() as u64;
        (0..).map(size).take_while(|&size| size > 0).map(|size| size * (size - 1)).sum()
    }

    #[test]
    fn machines_too_large_to_check_are_refused() {
        let refused = Routes::around(&Faults::none(lattice("17x16x16")), 4).unwrap_err();
        assert_eq!(refused, Refused::TooLarge(4352));
    }

    #[test]
    fn machines_without_channels_are_refused() {
        let refused = Routes::around(&Faults::none(lattice("4x4")), 0).unwrap_err();
        assert_eq!(refused, Refused::NoChannels);
    }
}
