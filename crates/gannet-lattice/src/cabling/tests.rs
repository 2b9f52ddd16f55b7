use std::collections::BTreeSet;

use gannet_measure::random::Random;

use super::*;
use crate::lattice::Direction;

/// Hosts of a lattice, shuffled, with their ports in no order and so many spare ones.
fn wired(lattice: Lattice, spare: u8, random: &mut Random) -> Cabling {
    let mut order: Vec<usize> = (0..lattice.nodes()).collect();
    shuffle(&mut order, random);
    let links = 2 * lattice.dimensions().count() as u8;
    let mut left: Vec<Vec<u8>> = order
        .iter()
        .map(|_| {
            let mut ports: Vec<u8> = (0..links + spare).collect();
            shuffle(&mut ports, random);
            ports
        })
        .collect();
    let mut end = |node: Node| {
        let host = order[node.index()];
        End { host, port: left[host].pop().unwrap() }
    };
    let cables = lattice.cables().map(|cable| {
        let other = lattice.neighbour(cable.from, Direction::of(cable.dimension, true));
        [end(cable.from), end(other)]
    });
    let mut cables: Vec<[End; 2]> = cables.collect();
    shuffle(&mut cables, random);
    Cabling { ports: vec![links + spare; lattice.nodes()], cables }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for at in (1..items.len()).rev() {
        items.swap(at, random.below(at as u64 + 1) as usize);
    }
}

fn shapes_of(nodes: std::ops::RangeInclusive<u16>) -> Vec<Lattice> {
    let mut shapes = Vec::new();
    for x in 2..=*nodes.end() {
        for y in 1..=x {
            for z in 1..=y {
                if nodes.contains(&(x.saturating_mul(y).saturating_mul(z))) {
                    shapes.push(Lattice::new([x, y, z]).unwrap());
                }
            }
        }
    }
    shapes
}

/// Sizes without those of one, in falling order. A ring of four and two rings of two are wired alike but for the second
/// cable between each two hosts.
fn assert_is(found: &Recognised, cabling: &Cabling, lattice: Lattice) {
    assert_eq!((found.lattice, found.distance()), (lattice, 0), "{lattice}: {:?}", found.mends);
    // Ports lead where the lattice says.
    for node in lattice.all() {
        for direction in Direction::ALL.into_iter().filter(|&direction| lattice.has(direction)) {
            let end = |node: Node, direction: Direction| End {
                host: found.hosts[node.index()].unwrap(),
                port: found.ports[node.index()][direction.index()].unwrap(),
            };
            let ends = [
                end(node, direction),
                end(lattice.neighbour(node, direction), direction.opposite()),
            ];
            let is_cable = cabling.cables.iter().any(|&[a, b]| [a, b] == ends || [b, a] == ends);
            assert!(is_cable, "{lattice}: {ends:?}");
        }
    }
}

#[test]
fn every_lattice_of_4_to_64_nodes_is_recognised() {
    for (seed, lattice) in shapes_of(4..=64).into_iter().enumerate() {
        let random = &mut Random::new(seed as u64);
        let cabling = wired(lattice, seed as u8 % 3, random);
        let found = recognise(&cabling, None).unwrap();
        assert_is(&found, &cabling, lattice);
        // In whatever order the cables are told.
        let mut other = cabling.clone();
        shuffle(&mut other.cables, random);
        other.cables.iter_mut().for_each(|ends| ends.reverse());
        assert_eq!(recognise(&other, None).unwrap(), found);
    }
}

#[test]
fn a_large_lattice_is_recognised() {
    for lattice in ["6x4x4", "12x8", "96"] {
        let lattice: Lattice = lattice.parse().unwrap();
        let cabling = wired(lattice, 0, &mut Random::new(1));
        assert_is(&recognise(&cabling, None).unwrap(), &cabling, lattice);
    }
}

/// Kinds of errors in cables.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Error {
    Exchanged,
    Missing,
    ToItself,
    DeadHost,
    Misplaced,
    Surplus,
}

const ERRORS: [Error; 6] = [
    Error::Exchanged,
    Error::Missing,
    Error::ToItself,
    Error::DeadHost,
    Error::Misplaced,
    Error::Surplus,
];

/// Puts an error in; whether there was room for it.
fn spoil(
    cabling: &mut Cabling,
    dead: &mut BTreeSet<usize>,
    error: Error,
    random: &mut Random,
) -> bool {
    let pick = |random: &mut Random, of: usize| random.below(of as u64) as usize;
    let free = |cabling: &Cabling| -> Vec<End> {
        let used: BTreeSet<End> = cabling.cables.iter().flatten().copied().collect();
        let ports = cabling.ports.iter().enumerate();
        let all = ports.flat_map(|(host, &ports)| (0..ports).map(move |port| End { host, port }));
        all.filter(|end| !used.contains(end) && !dead.contains(&end.host)).collect()
    };
    let cables = cabling.cables.len();
    if cables < 2 {
        return false;
    }
    let (cable, end) = (pick(random, cables), pick(random, 2));
    match error {
        Error::Exchanged => {
            let (other, other_end) = (pick(random, cables), pick(random, 2));
            let (a, b) = (cabling.cables[cable][end], cabling.cables[other][other_end]);
            if cable == other || a.host == b.host {
                return false;
            }
            cabling.cables[cable][end] = b;
            cabling.cables[other][other_end] = a;
        }
        Error::Missing => _ = cabling.cables.swap_remove(cable),
        Error::ToItself | Error::Misplaced => {
            let stays = cabling.cables[cable][1 - end].host;
            let fits = |to: &&End| (to.host == stays) == (error == Error::ToItself);
            let free = free(cabling);
            let Some(&to) = free.iter().filter(fits).nth(pick(random, 3)) else { return false };
            if to.host == cabling.cables[cable][end].host {
                return false;
            }
            cabling.cables[cable][end] = to;
        }
        Error::DeadHost => {
            let host = cabling.cables[cable][end].host;
            dead.insert(host);
            cabling.cables.retain(|ends| ends.iter().all(|end| end.host != host));
        }
        Error::Surplus => {
            let free = free(cabling);
            if free.len() < 2 {
                return false;
            }
            let (a, b) = (free[pick(random, free.len())], free[pick(random, free.len())]);
            if a.host == b.host {
                return false;
            }
            cabling.cables.push([a, b]);
        }
    }
    true
}

/// Without the hosts that are dead, which nobody hears.
fn without(cabling: &Cabling, dead: &BTreeSet<usize>) -> Cabling {
    let left: Vec<usize> = (0..cabling.ports.len()).filter(|host| !dead.contains(host)).collect();
    let place =
        |end: End| End { host: left.iter().position(|&host| host == end.host).unwrap(), ..end };
    Cabling {
        ports: left.iter().map(|&host| cabling.ports[host]).collect(),
        cables: cabling.cables.iter().map(|ends| ends.map(place)).collect(),
    }
}

#[test]
fn what_is_wrong_with_500_cablings_is_named_and_mended() {
    let shapes = shapes_of(4..=64);
    let (mut others, mut longer, mut tries) = (Vec::new(), 0, 0);
    for seed in 0..500 {
        let random = &mut Random::new(seed);
        let lattice = shapes[random.below(shapes.len() as u64) as usize];
        let mut cabling = wired(lattice, random.below(3) as u8, random);
        let (wanted, mut dead, mut errors) =
            (random.below(5) as usize, BTreeSet::new(), Vec::new());
        while errors.len() < wanted && tries < 100_000 {
            tries += 1;
            let error = ERRORS[random.below(6) as usize];
            if spoil(&mut cabling, &mut dead, error, random) {
                errors.push(error);
            }
        }
        let cabling = without(&cabling, &dead);
        let told = recognise(&cabling, Some(lattice)).unwrap();
        // Seldom more is to be done than was done wrong, and never twice as much.
        assert!(
            told.distance() <= 2 * errors.len(),
            "seed {seed}: {lattice} {errors:?}: {:?}",
            told.mends
        );
        longer += usize::from(told.distance() > errors.len());
        assert_mends(&cabling, &told, Some(lattice), seed);
        let found = recognise(&cabling, None).unwrap();
        assert_mends(&cabling, &found, None, seed);
        if found.lattice != lattice {
            // Another one is said only if it is as near.
            assert!(found.distance() <= told.distance(), "seed {seed}: {lattice} {errors:?}");
            // A ring without a host is one that is smaller by one and lacks a cable.
            let is_ring = lattice.dimensions().count() == 1 && errors.contains(&Error::DeadHost);
            others.extend(
                (!is_ring).then(|| (lattice.to_string(), found.lattice.to_string(), errors)),
            );
        }
    }
    // Few hosts and many errors are as near to another lattice.
    let counts = (longer, others.len());
    assert!(longer <= 25 && others.len() <= 20, "{counts:?} of 500: {others:?}");
    eprintln!("of 500 cablings, more to do than done wrong, and as near to others: {counts:?}");
}

/// Does what is said, and finds nothing wrong any more but for hosts and ports that are not there.
fn assert_mends(cabling: &Cabling, found: &Recognised, wanted: Option<Lattice>, seed: u64) {
    let mut mended = cabling.clone();
    found.mends.iter().for_each(|mend| mend.apply(&mut mended.cables));
    let ends: Vec<End> = mended.cables.iter().flatten().copied().collect();
    let different: BTreeSet<End> = ends.iter().copied().collect();
    assert_eq!(ends.len(), different.len(), "seed {seed}: two cables in one port");
    let after = recognise(&mended, wanted.or(Some(found.lattice))).unwrap();
    let left: Vec<_> = after.mends.iter().filter(|mend| !matches!(mend, Mend::NoPort(_))).collect();
    assert!(left.is_empty(), "seed {seed}: {}: {:?}, then {left:?}", found.lattice, found.mends);
    assert_eq!(after.lattice, found.lattice, "seed {seed}");
}

#[test]
fn cables_without_any_order_are_borne() {
    for seed in 0..100 {
        let random = &mut Random::new(seed);
        let hosts = random.below(40) as usize;
        let mut free: Vec<End> =
            (0..hosts).flat_map(|host| (0..6).map(move |port| End { host, port })).collect();
        shuffle(&mut free, random);
        let cables = free.chunks_exact(2).map(|ends| [ends[0], ends[1]]);
        let cables = cables.take(random.below(100) as usize).collect();
        let cabling = Cabling { ports: vec![6; hosts], cables };
        match recognise(&cabling, None) {
            Some(found) => assert_mends(&cabling, &found, None, seed),
            None => assert_eq!(hosts, 0, "seed {seed}"),
        }
    }
}

#[test]
fn a_wrong_cable_is_told_by_name() {
    let lattice: Lattice = "4x4x2".parse().unwrap();
    let random = &mut Random::new(7);
    let mut cabling = wired(lattice, 0, random);
    let ([a, c], [b, d]) = (cabling.cables[3], cabling.cables[40]);
    cabling.cables[3][0] = b;
    cabling.cables[40][0] = a;
    let found = recognise(&cabling, None).unwrap();
    let [mend] = found.mends[..] else { panic!("{:?}", found.mends) };
    let name = |host: usize, port: Option<u8>| match port {
        Some(port) => format!("n{host:02} port {port}"),
        None => format!("n{host:02}"),
    };
    let Mend::Swap { from, wrong, right } = mend else { panic!("{mend:?}") };
    // To exchange the other two ends is as good.
    let ends = BTreeSet::from([wrong, right]);
    assert!(ends == BTreeSet::from([a, b]) || ends == BTreeSet::from([c, d]), "{ends:?}");
    let port = |end: End| name(end.host, Some(end.port));
    assert_eq!(
        mend.words(found.lattice, name).to_string(),
        format!(
            "{} goes to {}; for 4x4x2 it should go to {}: swap it with the cable of {}",
            port(from),
            port(wrong),
            port(right),
            port(right)
        )
    );
}
