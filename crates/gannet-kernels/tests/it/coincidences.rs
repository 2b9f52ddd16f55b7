//! Coincidences in a module: every instruction set gives what a definition that asks every pair gives.

use gannet_kernels::Isa;
use gannet_kernels::coincidences::supernova::coincidences;
use gannet_kernels::coincidences::{
    CalibratedHit, Calibration, Coincidence, Confirmed, Counts, HITS_MAX, ModuleSlice, Partners,
    Rule,
};
use gannet_measure::random::Random;
use gannet_wire::Record;
use gannet_wire::km3net::{CHANNELS, Hit, detector_file};

const LENGTH_NS: u32 = 100_000;
const SLICES: u64 = 1000;

fn slice(isa: Isa) -> ModuleSlice {
    ModuleSlice::new(LENGTH_NS, isa).unwrap()
}

fn bytes(hits: &[Hit]) -> Vec<u8> {
    let mut bytes = vec![0; hits.len() * Hit::LEN];
    for (hit, place) in hits.iter().zip(bytes.chunks_mut(Hit::LEN)) {
        hit.emit(place);
    }
    bytes
}

/// Hits of a slice: in some alone, in some close together, in some out of order, in some wrong.
fn random_hits(random: &mut Random, number: u64) -> Vec<Hit> {
    let count = random.below(400);
    let span = [LENGTH_NS + 100, 3000, 300, 1][(number % 4) as usize];
    let channels = if number.is_multiple_of(7) { 2 } else { CHANNELS as u64 + 1 };
    let mut hits: Vec<Hit> = (0..count)
        .map(|_| Hit {
            channel: random.below(channels) as u8,
            time: random.below(u64::from(span)) as u32,
            time_over_threshold: random.below(256) as u8,
        })
        .collect();
    if !number.is_multiple_of(3) {
        hits.sort_by_key(|hit| hit.time);
    }
    hits
}

fn random_calibration(random: &mut Random) -> [u32; CHANNELS] {
    core::array::from_fn(|_| random.below(50) as u32)
}

fn sorted(hits: &[Hit], t0: &[u32; CHANNELS]) -> Vec<CalibratedHit> {
    let kept = hits.iter().filter(|it| usize::from(it.channel) < CHANNELS && it.time < LENGTH_NS);
    let mut hits: Vec<_> = kept
        .map(|it| {
            let time = it.time + t0[usize::from(it.channel)];
            CalibratedHit::new(time, it.channel, it.time_over_threshold)
        })
        .collect();
    hits.sort_by_key(|hit| (hit.time(), hit.channel(), hit.time_over_threshold()));
    hits
}

/// The definition: every hit is asked about every other.
fn confirmed(hits: &[CalibratedHit], rule: &Rule) -> Vec<CalibratedHit> {
    let confirms = |a: CalibratedHit, b: CalibratedHit| {
        a.time().abs_diff(b.time()) <= rule.window_ns && rule.partners.are(a.channel(), b.channel())
    };
    hits.iter().filter(|&&a| hits.iter().any(|&b| confirms(a, b))).copied().collect()
}

/// The definition of multiplicity: no hit is passed over.
fn multiplicities(hits: &[CalibratedHit], window: u32, least: usize) -> Vec<Coincidence> {
    let mut found = Vec::new();
    let mut free: Vec<_> = hits.to_vec();
    while let Some(&first) = free.first() {
        let (inside, rest): (Vec<CalibratedHit>, Vec<CalibratedHit>) =
            free.iter().partition(|hit| hit.time() <= first.time() + window);
        let lit = (0..CHANNELS as u8).filter(|&it| inside.iter().any(|hit| hit.channel() == it));
        let multiplicity = lit.count();
        if multiplicity >= least {
            let (multiplicity, hits) = (multiplicity as u32, inside.len() as u32);
            found.push(Coincidence { time: first.time(), multiplicity, hits });
        }
        free = rest;
    }
    found
}

#[test]
fn slices_and_their_coincidences_are_those_of_the_definition() {
    let axes = detector_file::directions();
    let rules = [
        Rule::default(),
        Rule { window_ns: 0, ..Rule::default() },
        Rule { window_ns: 25, partners: Partners::within(&axes, 1.0) },
        Rule { partners: Partners::within(&axes, 90_f64.to_radians()), ..Rule::default() },
    ];
    for isa in Isa::available() {
        let mut slice = slice(isa);
        let finders = rules.map(|rule| Confirmed::new(rule, isa).unwrap());
        let (mut random, mut some) = (Random::new(13), [0; 5]);
        for number in 0..SLICES {
            let hits = random_hits(&mut random, number);
            let t0 = random_calibration(&mut random);
            let expected = sorted(&hits, &t0);
            slice.clear();
            for packet in hits.chunks(1 + random.below(100) as usize) {
                slice.add(&bytes(packet), &Calibration::new(&t0));
            }
            let hits = slice.sorted();
            assert_eq!(hits, expected, "{isa}, slice {number}");
            let mut found = Vec::new();
            for ((finder, rule), some) in finders.iter().zip(&rules).zip(&mut some) {
                found.clear();
                finder.find(hits, &mut found);
                assert_eq!(found, confirmed(&expected, rule), "{isa}, slice {number}");
                *some += usize::from(!found.is_empty() && found.len() < hits.len());
            }
            let least = 2 + number as u32 % 3;
            let mut found = Vec::new();
            coincidences(hits, 10, least, &mut found);
            assert_eq!(found, multiplicities(&expected, 10, least as usize), "slice {number}");
            some[4] += usize::from(!found.is_empty());
        }
        assert!(some.iter().all(|&slices| slices > 200), "{some:?}");
    }
}

#[test]
fn a_limit_of_the_angle_leaves_the_neighbours() {
    let axes = detector_file::directions();
    let all = Partners::within(&axes, 4.0);
    assert_eq!(all, Partners::all());
    let near = Partners::within(&axes, 0.8);
    for (a, b) in (0..CHANNELS).flat_map(|a| (0..CHANNELS).map(move |b| (a, b))) {
        let cosine: f64 = axes[a].iter().zip(&axes[b]).map(|(a, b)| a * b).sum();
        assert_eq!(near.are(a as u8, b as u8), a != b && cosine.acos() <= 0.8, "{a} {b}");
    }
    assert!(!all.are(3, 31) && !all.are(3, 200));
}

#[test]
fn hits_that_are_left_out_are_counted() {
    let hit = |channel, time| Hit { channel, time, time_over_threshold: 20 };
    let bad = [hit(31, 5), hit(255, LENGTH_NS), hit(0, LENGTH_NS), hit(30, u32::MAX)];
    let good = [hit(30, LENGTH_NS - 1), hit(0, 0)];
    for isa in Isa::available() {
        let mut slice = slice(isa);
        let calibration = Calibration::new(&[7; CHANNELS]);
        slice.add(&bytes(&[bad, bad].concat()), &calibration);
        slice.add(&[&bytes(&good)[..], &[1, 2, 3]].concat(), &calibration);
        let expected = [CalibratedHit::new(7, 0, 20), CalibratedHit::new(LENGTH_NS + 6, 30, 20)];
        assert_eq!(slice.sorted(), expected);
        let counts = Counts { unknown_channel: 4, beyond_slice: 4, overflow: 0 };
        assert_eq!(slice.counts(), counts);
    }
}

#[test]
fn more_hits_than_there_is_room_for_are_counted_whatever_their_order() {
    for isa in Isa::available() {
        let mut slice = slice(isa);
        // All in one bucket and backwards, then more.
        let mut hits: Vec<Hit> = (0..HITS_MAX as u32)
            .rev()
            .map(|time| Hit { time: time / 65_536, ..Hit::default() })
            .collect();
        slice.add(&bytes(&hits), &Calibration::new(&[]));
        slice.add(&bytes(&hits[..3]), &Calibration::new(&[]));
        assert_eq!(slice.counts(), Counts { overflow: 3, ..Counts::default() });
        hits.reverse();
        let times: Vec<u32> = slice.sorted().iter().map(|hit| hit.time()).collect();
        assert_eq!(times, hits.iter().map(|hit| hit.time).collect::<Vec<_>>());
        let mut found = Vec::new();
        Confirmed::new(Rule::default(), isa).unwrap().find(slice.sorted(), &mut found);
        assert!(found.is_empty());
        slice.clear();
        slice.add(&bytes(&hits[..3]), &Calibration::new(&[]));
        assert_eq!(slice.sorted().len(), 3);
    }
}
