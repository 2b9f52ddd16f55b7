//! Which lattices hold so many nodes.

use gannet_lattice::Lattice;
use serde::Serialize;

use super::{bisection, empty_places};

/// Shapes that a plan lists.
pub(super) const LISTED: usize = 8;
/// Places in terms of nodes that may stay empty: one for each so many, and one in any case.
const NODES_PER_EMPTY_PLACE: usize = 8;

/// A lattice for some nodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Sizes joined by `x`.
    pub lattice: String,
    /// Places that stay empty.
    pub missing: usize,
    /// Cables between nodes.
    pub cables: usize,
    /// Mean links to any place.
    pub mean_hops: f64,
    /// Links between the places farthest apart.
    pub max_hops: u32,
    /// Uniform load at which links are full, in terms of the rate of a link. It may be more than 1, which is more than a node
    /// sends: the bound of a [pattern](super::PatternPlan::bound) ends there.
    pub uniform_bound: f64,
    /// Links, both ways counted, between two halves of the nodes: the fewest without empty places, about the
    /// fewest with some.
    pub bisection_links: usize,
    /// The lattice.
    #[serde(skip)]
    pub sizes: Lattice,
}

impl Shape {
    fn new(lattice: Lattice, nodes: usize) -> Self {
        let faults = empty_places(lattice, nodes);
        let ends = |cable: &gannet_lattice::Cable| {
            faults.link_works(cable.from, gannet_lattice::Direction::of(cable.dimension, true))
        };
        Self {
            lattice: lattice.to_string(),
            missing: lattice.nodes() - nodes,
            cables: lattice.cables().filter(ends).count(),
            mean_hops: lattice.mean_distance(),
            max_hops: lattice.diameter(),
            uniform_bound: uniform_bound(lattice),
            bisection_links: bisection::bisection_links(&faults),
            sizes: lattice,
        }
    }
}

/// A bound that is enough: routers reach two thirds of it at least, and a node sends 1 at most.
const ENOUGH: f64 = 1.5;

/// All shapes of up to `dimensions` rings that hold `nodes` and leave few places empty, the best
/// first: that which carries most uniform traffic, then that of the shortest ways, their mean multiplied by the places for each
/// node, then that of the largest bisection, then that of
/// the fewest cables.
///
/// There is one at least, a ring, where `nodes` fit in one.
pub fn shapes(nodes: usize, dimensions: usize) -> Vec<Shape> {
    let most = nodes + (nodes / NODES_PER_EMPTY_PLACE).max(1);
    let mut lattices = Vec::new();
    for z in (1..=nodes).take_while(|z| *z == 1 || (dimensions > 2 && z * z * z <= most)) {
        for y in (z..=nodes).take_while(|y| *y == 1 || (dimensions > 1 && y * y * z <= most)) {
            let longest = nodes.div_ceil(y * z).max(y)..=most / (y * z);
            // A longer ring would only leave more places empty.
            let lattice = longest.take(1).filter_map(|x| sized([x, y, z]));
            lattices.extend(lattice);
        }
    }
    // Figures that are equal may be sums of different parts, and then differ in their last digits.
    let digits = |figure: f64| (figure * 1e9).round() as u64;
    let bound = |lattice: &Lattice| digits(uniform_bound(*lattice).min(ENOUGH));
    let hops = |lattice: &Lattice| {
        let missing = (lattice.nodes() - nodes) as f64 / nodes as f64;
        digits(lattice.mean_distance() * (1.0 + missing))
    };
    let bisection = |lattice: &Lattice| bisection::bisection_links(&empty_places(*lattice, nodes));
    let cables = |lattice: &Lattice| lattice.dimensions().count() * lattice.nodes();
    lattices.sort_by(|a, b| {
        (bound(b).cmp(&bound(a)))
            .then_with(|| hops(a).cmp(&hops(b)))
            .then_with(|| bisection(b).cmp(&bisection(a)))
            .then_with(|| cables(a).cmp(&cables(b)))
    });
    lattices.truncate(LISTED);
    lattices.into_iter().map(|lattice| Shape::new(lattice, nodes)).collect()
}

fn sized(sizes: [usize; 3]) -> Option<Lattice> {
    let [x, y, z] = sizes.map(u16::try_from);
    Lattice::new([x.ok()?, y.ok()?, z.ok()?]).ok()
}

/// Load at which the links of the longest ring are full: each carries half of the links that a
/// packet passes in its dimension, and some a little more where the packets that go half way round
/// cannot be divided evenly.
fn uniform_bound(lattice: Lattice) -> f64 {
    let sizes = lattice.sizes();
    let load = |dimension: usize| {
        let size = sizes[dimension];
        let half = Lattice::new([size, 1, 1]).map_or(0.0, |ring| ring.mean_distance() / 2.0);
        let others = lattice.nodes() / usize::from(size);
        let is_uneven = size % 4 == 2 && others % 2 == 1;
        let more = if is_uneven { 0.5 / lattice.nodes() as f64 } else { 0.0 };
        half + more
    };
    let busiest = (0..sizes.len()).map(load).fold(0.0, f64::max);
    1.0 / busiest.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Limits, Machine};
    use gannet_torus::simulator::{Pattern, Setup};

    fn best(nodes: usize, dimensions: usize) -> String {
        shapes(nodes, dimensions)[0].lattice.clone()
    }

    #[test]
    fn bounds_are_those_of_the_busiest_link() {
        for text in ["2", "3", "4", "6", "10x3", "2x2", "5x2", "6x3x3", "9x6x4", "4x4x4", "8x7"] {
            let machine = Machine::new(Setup::new(text.parse().unwrap()), Pattern::Uniform);
            let limits = Limits::new(&machine, &machine.routes().unwrap().0);
            let (link, bound) =
                (limits.channel_bound.unwrap(), uniform_bound(machine.setup.lattice));
            assert!((link / bound - 1.0).abs() < 1e-9, "{text}: {link} and {bound}");
        }
    }

    #[test]
    fn cubes_are_best_where_they_fit() {
        assert_eq!(
            (best(64, 3), best(512, 3), best(97_336, 3)),
            ("4x4x4".to_owned(), "8x8x8".to_owned(), "46x46x46".to_owned())
        );
        assert_eq!((best(16, 2), best(12, 1)), ("4x4x1".to_owned(), "12x1x1".to_owned()));
    }

    #[test]
    fn of_equal_ways_the_larger_bisection_is_better_then_fewer_cables() {
        let names = |nodes| {
            let shapes = shapes(nodes, 3);
            let name = |shape: &Shape| (shape.lattice.clone(), shape.bisection_links);
            shapes.iter().map(name).collect::<Vec<_>>()
        };
        // The ninth place of 3x3 makes ways count as if they were as long as those of the others.
        let eight = [("2x2x2".into(), 16), ("3x3x1".into(), 12), ("4x2x1".into(), 8)];
        assert_eq!(names(8)[..3], eight);
        assert_eq!(names(12)[..2], [("3x2x2".into(), 24), ("4x3x1".into(), 12)]);
        assert_eq!(names(16)[..2], [("4x4x1".into(), 16), ("4x2x2".into(), 16)]);
    }

    #[test]
    fn a_prime_number_leaves_places_empty_rather_than_make_a_ring() {
        let shapes = shapes(61, 3);
        assert_eq!((shapes[0].lattice.as_str(), shapes[0].missing), ("4x4x4", 3));
        assert!(shapes.iter().all(|shape| shape.missing <= 7), "{shapes:?}");
    }

    #[test]
    fn seven_nodes_may_take_a_place_less_than_eight() {
        let shapes = shapes(7, 2);
        let names: Vec<_> = shapes.iter().map(|shape| shape.lattice.as_str()).collect();
        assert_eq!(names, ["4x2x1", "7x1x1"]);
        assert_eq!((shapes[0].missing, shapes[1].missing), (1, 0));
    }

    #[test]
    fn every_number_has_a_shape_for_all_ports() {
        for nodes in 2..200 {
            for dimensions in 1..=3 {
                let shapes = shapes(nodes, dimensions);
                let fits = |shape: &Shape| shape.sizes.dimensions().count() <= dimensions;
                assert!(!shapes.is_empty() && shapes.iter().all(fits), "{nodes}, {dimensions}");
            }
        }
    }
}
