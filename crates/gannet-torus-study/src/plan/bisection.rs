//! The links between two halves of a machine.

use gannet_lattice::{DIMENSIONS, Direction, Faults, Lattice, Node};
use gannet_torus::routes::MAX_CHECKED_NODES;

/// Links, both ways counted, between two halves of a machine without empty places, at the fewest: one half
/// has as many nodes as the other, or one more where their number is odd.
///
/// With rings of k1 >= k2 >= ... nodes, these are 4 (k2 k3 ... kn + k3 ... kn + ...), up to the term of the
/// first ring that has an even number of nodes: it can be halved, and of any other one layer is left over
/// that has to be halved along the next.
///
/// Source: J. Arjona Aroca and A. Fernandez Anta, "Bisection (band)width of product networks with application
/// to data centers", 2012, for rings of three and more. Rings of two have two cables as well, and the rule
/// holds for them too: see the test.
pub fn fewest_links(lattice: Lattice) -> usize {
    let mut layer = lattice.nodes();
    let mut cables = 0;
    for dimension in by_length(lattice) {
        let size = usize::from(lattice.sizes()[dimension]);
        if size == 1 {
            break;
        }
        layer /= size;
        // A ring is cut at two places.
        cables += 2 * layer;
        if size.is_multiple_of(2) {
            break;
        }
    }
    2 * cables
}

/// Links, both ways counted, between two halves of the nodes that are there.
///
/// Without empty places they are the [fewest](fewest_links). With empty places the halves are looked for
/// among those that fill the lattice layer by layer and row by row, which may miss the fewest.
pub fn bisection_links(faults: &Faults) -> usize {
    let lattice = faults.lattice();
    if faults.is_empty() {
        return fewest_links(lattice);
    }
    let cut = |order: [usize; DIMENSIONS]| {
        // Every layer may be the first, but in large machines that would take long.
        let starts =
            if lattice.nodes() > MAX_CHECKED_NODES { 1 } else { lattice.sizes()[order[0]] };
        (0..starts).map(move |start| cables_cut(faults, order, start))
    };
    2 * ORDERS.into_iter().flat_map(cut).min().unwrap_or(0)
}

/// All orders of the dimensions.
const ORDERS: [[usize; DIMENSIONS]; 6] =
    [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// The dimensions, the longest ring first.
fn by_length(lattice: Lattice) -> [usize; DIMENSIONS] {
    let mut order = [0, 1, 2];
    order.sort_by_key(|&dimension| std::cmp::Reverse(lattice.sizes()[dimension]));
    order
}

/// Cables between the first half of the nodes and the others, where coordinates of the first dimension of
/// the order change last, and begin at `start`.
fn cables_cut(faults: &Faults, order: [usize; DIMENSIONS], start: u16) -> usize {
    let lattice = faults.lattice();
    let sizes = order.map(|dimension| u32::from(lattice.sizes()[dimension]));
    let node = |place: u32| {
        let mut at = [0; DIMENSIONS];
        at[order[0]] = ((place / (sizes[1] * sizes[2]) + u32::from(start)) % sizes[0]) as u16;
        at[order[1]] = (place / sizes[2] % sizes[1]) as u16;
        at[order[2]] = (place % sizes[2]) as u16;
        lattice.node(at)
    };
    let works = |node: &Node| faults.node_works(*node);
    let half = lattice.all().filter(works).count() / 2;
    let mut is_first = vec![false; lattice.nodes()];
    let places = 0..lattice.nodes() as u32;
    for node in places.map(node).filter(works).take(half) {
        is_first[node.index()] = true;
    }
    let is_cut = |cable: &gannet_lattice::Cable| {
        let plus = Direction::of(cable.dimension, true);
        let far = lattice.neighbour(cable.from, plus);
        is_first[cable.from.index()] != is_first[far.index()] && faults.link_works(cable.from, plus)
    };
    lattice.cables().filter(is_cut).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intact(text: &str) -> Faults {
        Faults::none(text.parse().unwrap())
    }

    fn links(text: &str) -> usize {
        bisection_links(&intact(text))
    }

    /// The fewest links of all halves there are.
    fn tried(faults: &Faults) -> usize {
        let lattice = faults.lattice();
        let mut number = vec![0; lattice.nodes()];
        let working = lattice.all().filter(|&node| faults.node_works(node));
        let nodes = working.zip(0..).map(|(node, place)| number[node.index()] = place).count();
        let cables = lattice.cables().filter_map(|cable| {
            let plus = Direction::of(cable.dimension, true);
            let far = lattice.neighbour(cable.from, plus);
            let ends = (number[cable.from.index()], number[far.index()]);
            faults.link_works(cable.from, plus).then_some(ends)
        });
        let cables: Vec<(u32, u32)> = cables.collect();
        let halves = (0..1u32 << nodes).filter(|half| half.count_ones() as usize == nodes / 2);
        let cut =
            |half: u32| cables.iter().filter(|(a, b)| (half >> a ^ half >> b) & 1 == 1).count();
        2 * halves.map(cut).min().unwrap()
    }

    #[test]
    fn no_halves_have_fewer_links() {
        for text in [
            "2", "3", "4", "7", "2x2", "3x2", "3x3", "4x3", "5x2", "5x3", "4x4", "7x2", "2x2x2",
            "3x2x2", "4x2x2", "3x3x2", "6x3",
        ] {
            assert_eq!(links(text), tried(&intact(text)), "{text}");
        }
    }

    #[test]
    fn halves_in_order_have_as_many_links_as_the_rule_says() {
        for sizes in (1..7).flat_map(|x| (1..7).flat_map(move |y| (1..7).map(move |z| [x, y, z]))) {
            let lattice = Lattice::new(sizes).unwrap();
            let cables = cables_cut(&Faults::none(lattice), by_length(lattice), 0);
            assert_eq!(fewest_links(lattice), 2 * cables, "{lattice}");
        }
    }

    #[test]
    fn bisections_are_the_published_ones() {
        assert_eq!((links("4x4x1"), links("4x4x4"), links("8x8x8")), (16, 64, 256));
        assert_eq!((links("46x46x46"), links("1"), links("2")), (8464, 0, 4));
    }

    #[test]
    fn an_odd_ring_leaves_a_layer_that_is_halved_too() {
        assert_eq!((links("3x4x5"), links("5x4x4"), links("3x3x3")), (60, 80, 52));
    }

    #[test]
    fn empty_places_leave_halves_of_the_nodes_that_are_there() {
        let mut broken = intact("6");
        broken.kill_node(Node(3));
        assert_eq!(bisection_links(&broken), 2);
        for (text, nodes) in [("4x4", 14), ("4x4", 13), ("4x3", 11), ("3x2x2", 10), ("4x2x2", 15)] {
            let mut faults = intact(text);
            let lattice = faults.lattice();
            (nodes..lattice.nodes() as u32).for_each(|node| faults.kill_node(Node(node)));
            assert_eq!(bisection_links(&faults), tried(&faults), "{text} of {nodes}");
        }
    }
}
