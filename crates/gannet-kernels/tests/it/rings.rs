//! Rings: every instruction set gives the bits of the definition, and the definition finds rings.

use gannet_kernels::Isa;
use gannet_kernels::rings::{
    CHANNELS, Counts, Event, Found, Method, MultiRing, Positions, RINGS_MAX, Ring, SingleRing,
};
use gannet_measure::random::Random;
use gannet_wire::na62::pm_map::Pm;
use std::f32::consts::TAU;

/// A finder and its name.
type Finder<'a> = (&'static str, Box<dyn FnMut(&[u8], &mut Found) + 'a>);

fn positions() -> Positions {
    Positions::new(|channel| {
        let pm = Pm::new(usize::from(channel))?;
        Some(pm.position().map(|x| x as f32))
    })
}

fn finders<'a>(positions: &Positions, isa: Isa) -> [Finder<'a>; 4] {
    let single = |method| {
        let mut finder = SingleRing::new(positions, method, isa).unwrap();
        Box::new(move |bytes: &[u8], found: &mut Found| finder.find(bytes, found))
    };
    let mut multi = MultiRing::new(positions, isa).unwrap();
    let mut timed = multi.clone();
    let times: Vec<u8> =
        (0..60_000_u32).map(|hit| (hit.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    [
        ("kasa", single(Method::Kasa)),
        ("taubin", single(Method::Taubin)),
        ("multi", Box::new(move |bytes, found| multi.find(bytes, found))),
        (
            "multi with times",
            Box::new(move |bytes, found| timed.find_with_times(bytes, &times, found)),
        ),
    ]
}

/// An event in the format.
fn packet(time: u64, hits: &[u16]) -> Vec<u8> {
    let n = hits.len() as u8;
    let mut bytes = time.to_le_bytes()[..5].to_vec();
    bytes.extend([n, 0xFF, 0xFF, n, 0, 0, 0, 0, 0, 0, 0]);
    bytes.extend(hits.iter().flat_map(|hit| hit.to_le_bytes()));
    bytes.resize(bytes.len().next_multiple_of(16), 0);
    bytes
}

/// Photomultipliers whose cones light on these circles meets, and some more.
fn hits(random: &mut Random, rings: &[Ring], noise: usize) -> Vec<u16> {
    let near = |pm: &Pm, x: f32, y: f32| {
        let at = pm.position().map(|x| x as f32);
        (at[0] - x).hypot(at[1] - y) < 9.0
    };
    let mut hits = Vec::new();
    for ring in rings {
        for _ in 0..ring.hits {
            let (sin, cos) = (TAU * random.unit() as f32).sin_cos();
            let (x, y) = (ring.x + ring.radius * cos, ring.y + ring.radius * sin);
            let seen = Pm::all().filter(|pm| near(pm, x, y)).map(|pm| pm.number() as u16);
            hits.extend(seen.take(1));
        }
    }
    hits.extend((0..noise).map(|_| random.below(1952) as u16));
    hits.sort_unstable();
    hits.dedup();
    hits
}

fn ring(random: &mut Random, photons: u16) -> Ring {
    let mut within = |from: f32, to: f32| from + (to - from) * random.unit() as f32;
    Ring {
        x: within(-80.0, 80.0),
        y: within(-80.0, 80.0),
        radius: within(110.0, 190.0),
        hits: photons,
    }
}

/// Events of 0 to 4 rings.
fn events(seed: u64, count: usize) -> (Vec<Vec<Ring>>, Vec<Vec<u8>>) {
    let mut random = Random::new(seed);
    let mut event = |number: usize| {
        let rings: Vec<Ring> = (0..random.below(5)).map(|_| ring(&mut random, 20)).collect();
        let noise = random.below(4) as usize;
        let hits = hits(&mut random, &rings, noise);
        (rings, packet(number as u64, &hits))
    };
    (0..count).map(&mut event).unzip()
}

fn find((_, finder): &mut Finder<'_>, bytes: &[u8]) -> Found {
    let mut found = Found::default();
    finder(bytes, &mut found);
    found
}

/// Compares all bits, those of numbers that are none included.
fn assert_same(name: &str, isa: Isa, found: &Found, expected: &Found) {
    assert_eq!(found.events, expected.events, "{name}, {isa}");
    assert_eq!(found.counts, expected.counts, "{name}, {isa}");
    let bits = |ring: &Ring| ([ring.x, ring.y, ring.radius].map(f32::to_bits), ring.hits);
    let bits = |found: &Found| found.rings.iter().map(bits).collect::<Vec<_>>();
    assert_eq!(bits(found), bits(expected), "{name}, {isa}");
}

fn compare_on(positions: &Positions, bytes: &[u8]) {
    for isa in Isa::available() {
        let scalar = finders(positions, Isa::Scalar);
        for (mut finder, mut definition) in finders(positions, isa).into_iter().zip(scalar) {
            assert_same(finder.0, isa, &find(&mut finder, bytes), &find(&mut definition, bytes));
        }
    }
}

#[test]
fn every_instruction_set_equals_scalar_on_events() {
    let (_, packets) = events(1, 300);
    compare_on(&positions(), &packets.concat());
}

#[test]
fn every_instruction_set_equals_scalar_where_channels_are_dead_or_unknown() {
    let mut random = Random::new(2);
    let all = positions();
    let some = Positions::new(|channel| all.get(channel).filter(|_| channel % 5 > 0));
    let mut bytes = Vec::new();
    for number in 0..200 {
        let hits: Vec<u16> = (0..random.below(256)).map(|_| random.below(2100) as u16).collect();
        bytes.extend(packet(number, &hits));
    }
    compare_on(&some, &bytes);
    compare_on(&Positions::new(|_| None), &bytes);
    compare_on(&Positions::new(|_| Some([100.0, -50.0])), &bytes);
}

#[test]
fn every_instruction_set_equals_scalar_on_garbage() {
    let mut random = Random::new(3);
    let (_, packets) = events(4, 40);
    let valid = packets.concat();
    for _ in 0..60 {
        let mut bytes = valid.clone();
        for _ in 0..random.below(8) {
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.bits() as u8;
        }
        bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
        compare_on(&positions(), &bytes);
        // Headers with any number of hits, of which any channel may be.
        let mut any: Vec<u8> = (0..4096).map(|_| random.bits() as u8).collect();
        any.chunks_exact_mut(16).for_each(|word| word[6..8].fill(0xFF));
        compare_on(&positions(), &any);
    }
}

#[test]
fn rings_do_not_depend_on_the_other_events_of_the_buffer() {
    let (_, packets) = events(5, 150);
    let positions = positions();
    for isa in Isa::available() {
        // Times go on from event to event, so each has other ones in another buffer.
        for mut finder in finders(&positions, isa).into_iter().take(3) {
            let whole = find(&mut finder, &packets.concat());
            for size in [1, 7, 16, 33] {
                let mut parts = Found::default();
                packets.chunks(size).for_each(|part| (finder.1)(&part.concat(), &mut parts));
                assert_same(finder.0, isa, &parts, &whole);
            }
        }
    }
}

#[test]
fn exact_circles_are_recovered() {
    let mut random = Random::new(6);
    for _ in 0..50 {
        let truth = ring(&mut random, 0);
        let hits: Vec<u16> = (0..24).collect();
        let positions = Positions::new(|channel| {
            let (sin, cos) = (TAU * f32::from(channel) / 24.0).sin_cos();
            Some([truth.x + truth.radius * cos, truth.y + truth.radius * sin])
        });
        for mut finder in finders(&positions, Isa::best()).into_iter().take(3) {
            let found = find(&mut finder, &packet(0x12_3456_789A, &hits));
            let event = Event { time: 0x12_3456_789A, first: 0, rings: 1, hits: 24 };
            assert_eq!(found.events, [event], "{}", finder.0);
            let ring = found.rings[0];
            let off = [ring.x - truth.x, ring.y - truth.y, ring.radius - truth.radius];
            assert!(off.iter().all(|off| off.abs() < 0.02), "{}: {ring:?} for {truth:?}", finder.0);
            assert_eq!(ring.hits, 24);
        }
    }
}

/// Linear least squares about the mean in two passes, f64.
fn reference(hits: &[u16]) -> [f64; 3] {
    let at: Vec<[f64; 2]> =
        hits.iter().map(|&hit| Pm::new(usize::from(hit)).unwrap().position()).collect();
    let n = at.len() as f64;
    let [mx, my] = [0, 1].map(|i| at.iter().map(|at| at[i]).sum::<f64>() / n);
    let [mut uu, mut uv, mut vv, mut uw, mut vw] = [0.0; 5];
    for [x, y] in at {
        let (u, v) = (x - mx, y - my);
        let w = u * u + v * v;
        uu += u * u;
        uv += u * v;
        vv += v * v;
        uw += u * w;
        vw += v * w;
    }
    let det = 2.0 * (uu * vv - uv * uv);
    let (a, b) = ((uw * vv - vw * uv) / det, (vw * uu - uw * uv) / det);
    [a + mx, b + my, (a * a + b * b + (uu + vv) / n).sqrt()]
}

#[test]
fn sums_in_single_precision_agree_with_a_loop_in_double_precision() {
    let mut random = Random::new(7);
    let positions = positions();
    let mut finder = SingleRing::new(&positions, Method::Kasa, Isa::best()).unwrap();
    for _ in 0..500 {
        let ring = ring(&mut random, 24);
        let hits = hits(&mut random, &[ring], 0);
        let mut found = Found::default();
        finder.find(&packet(0, &hits), &mut found);
        let (got, [x, y, radius]) = (found.rings[0], reference(&hits));
        let off = [f64::from(got.x) - x, f64::from(got.y) - y, f64::from(got.radius) - radius];
        assert!(off.iter().all(|off| off.abs() < 0.05), "{got:?}, not {x} {y} {radius}: {hits:?}");
    }
}

#[test]
fn dead_and_unknown_hits_are_counted_and_take_no_part() {
    let all = positions();
    let mut random = Random::new(8);
    let live = hits(&mut random, &[Ring { x: 0.0, y: 0.0, radius: 150.0, hits: 24 }], 0);
    let dead = Pm::all().map(|pm| pm.number() as u16).find(|pm| !live.contains(pm)).unwrap();
    let positions = Positions::new(|channel| all.get(channel).filter(|_| channel != dead));
    let mixed: Vec<u16> =
        live.iter().flat_map(|&hit| [hit, dead, CHANNELS as u16, u16::MAX]).collect();
    for mut finder in finders(&positions, Isa::best()).into_iter().take(3) {
        let (clean, mixed) =
            (find(&mut finder, &packet(0, &live)), find(&mut finder, &packet(0, &mixed)));
        let close = |a: f32, b: f32| (a - b).abs() < 0.01;
        let (a, b) = (clean.rings[0], mixed.rings[0]);
        assert!(
            close(a.x, b.x) && close(a.y, b.y) && close(a.radius, b.radius) && a.hits == b.hits
        );
        let n = live.len() as u64;
        assert_eq!(
            (mixed.counts.dead_hits, mixed.counts.unknown_channels),
            (n, 2 * n),
            "{}",
            finder.0
        );
    }
}

#[test]
fn a_buffer_ends_at_an_event_that_lies_about_its_length() {
    let (_, packets) = events(9, 3);
    for mut finder in finders(&positions(), Isa::best()) {
        let mut bytes = packets.concat();
        bytes.extend([0; 16]);
        let found = find(&mut finder, &bytes);
        assert_eq!((found.events.len(), found.counts.malformed), (3, 1), "no delimiter");
        let mut bytes = packets.concat();
        let last = bytes.len() - packets[2].len();
        bytes[last + 5] = 255;
        let found = find(&mut finder, &bytes);
        assert_eq!((found.events.len(), found.counts.malformed), (2, 1), "beyond the buffer");
        bytes[last + 5] = packets[2][5];
        bytes[last + 8] ^= 1;
        let found = find(&mut finder, &bytes[..bytes.len()]);
        let wrong = Counts { board_counts_wrong: 1, ..found.counts };
        assert_eq!((found.events.len(), found.counts), (3, wrong));
        let found = find(&mut finder, &bytes[..last + 3]);
        assert_eq!((found.events.len(), found.counts.malformed), (2, 1), "part of a word");
    }
}

#[test]
fn an_event_without_a_ring_has_none() {
    let on_a_line = |channel| Some([f32::from(channel), 0.0]);
    for mut finder in finders(&Positions::new(on_a_line), Isa::best()).into_iter().take(3) {
        for hits in [&[][..], &[7], &[7, 9, 30], &[8; 200]] {
            let found = find(&mut finder, &packet(1, hits));
            assert_eq!((found.events.len(), found.rings.len()), (1, 0), "{}: {hits:?}", finder.0);
        }
    }
}

/// True rings of at least six photons, of these how many are found, and rings found in all.
fn judge(truth: &[Vec<Ring>], found: &Found) -> [usize; 3] {
    let mut sums = [0, 0, found.rings.len()];
    for (truth, event) in truth.iter().zip(&found.events) {
        let rings = found.rings_of(event);
        assert!(rings.len() <= RINGS_MAX);
        sums[0] += truth.len();
        let is = |a: &Ring, b: &Ring| {
            (a.x - b.x).hypot(a.y - b.y) < 20.0 && (a.radius - b.radius).abs() < 12.0
        };
        sums[1] += truth.iter().filter(|ring| rings.iter().any(|found| is(found, ring))).count();
    }
    sums
}

#[test]
fn rings_of_several_particles_are_found() {
    let (truth, packets) = events(10, 1500);
    let events = truth.into_iter().zip(packets).filter(|(rings, _)| rings.len() <= 2);
    let (truth, packets): (Vec<Vec<Ring>>, Vec<Vec<u8>>) = events.unzip();
    let mut finder = MultiRing::new(&positions(), Isa::best()).unwrap();
    let mut found = Found::default();
    finder.find(&packets.concat(), &mut found);
    let [truth, matched, reported] = judge(&truth, &found);
    assert!(matched as f64 > 0.93 * truth as f64, "{matched} of {truth}");
    assert!(matched as f64 > 0.95 * reported as f64, "{matched} of {reported} found");
}

#[test]
fn rings_apart_in_time_are_told_apart() {
    // Two rings on top of each other, whose hits are mixed.
    let mut random = Random::new(11);
    let rings =
        [(-15.0, 150.0), (15.0, 158.0)].map(|(x, radius)| Ring { x, y: 0.0, radius, hits: 24 });
    let of = rings.map(|ring| hits(&mut random, &[ring], 0));
    let mut timed: Vec<(u16, u8)> = [(0, 3), (1, 40)]
        .iter()
        .flat_map(|&(i, time)| of[i].iter().map(move |&hit| (hit, time)))
        .collect();
    timed.sort_unstable();
    let (channels, times): (Vec<u16>, Vec<u8>) = timed.into_iter().unzip();
    let mut finder = MultiRing::new(&positions(), Isa::best()).unwrap();
    let mut found = Found::default();
    finder.find_with_times(&packet(0, &channels), &times, &mut found);
    assert_eq!(found.rings.len(), 2);
    for (found, (truth, hits)) in found.rings.iter().zip(rings.iter().zip(&of)) {
        assert!(
            (found.x - truth.x).abs() < 6.0 && (found.radius - truth.radius).abs() < 6.0,
            "{found:?}"
        );
        assert!(usize::from(found.hits) + 2 >= hits.len());
    }
}
