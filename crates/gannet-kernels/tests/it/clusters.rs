//! Muons and showers: every instruction set gives what a definition that asks every pair gives, however
//! the hits are handed over.

use gannet_kernels::Isa;
use gannet_kernels::clusters::finder::EVENT_MAX_NS;
use gannet_kernels::clusters::light::{Between, INDEX, LIGHT, Point, Track};
use gannet_kernels::clusters::{
    EventFinder, HITS_MAX, ModuleHit, Muon, Shower, Triggered, Triggers, directions,
};
use gannet_measure::random::Random;
use gannet_wire::km3net::daq::trigger_bit;

const SLICES: u64 = 1000;

type Found = Vec<(u64, Vec<Triggered>)>;

/// 4 x 4 strings of 6 modules. One is in the corner from which positions are counted.
fn positions() -> Vec<[f64; 3]> {
    let floor = |string: usize, floor: usize| {
        let beside = if string == 0 { 0.0 } else { (string % 3) as f64 * 2.5 };
        let [x, y] = [string % 4, string / 4].map(|it| it as f64 * 90.0 + beside);
        [x, y, floor as f64 * 36.0]
    };
    (0..16).flat_map(|string| (0..6).map(move |it| floor(string, it))).collect()
}

fn random_direction(random: &mut Random) -> [f64; 3] {
    let z = 2.0 * random.unit() - 1.0;
    let (sin, cos) = (std::f64::consts::TAU * random.unit()).sin_cos();
    let across = (1.0 - z * z).sqrt();
    [across * cos, across * sin, z]
}

/// Hits of the dark, and in most slices of tracks and of points of light.
fn random_hits(random: &mut Random, positions: &[[f64; 3]], number: u64) -> Vec<ModuleHit> {
    let span = 8000.0;
    let mut hits = Vec::new();
    let mut hit = |module: usize, time: f64, random: &mut Random| {
        let time = (1e6 + time).round() as u64;
        let channel = random.below(31) as u8;
        hits.push(ModuleHit { time, module: module as u32, channel, time_over_threshold: 20 });
    };
    for _ in 0..random.below(30) {
        let (module, time) = (random.below(positions.len() as u64), span * random.unit());
        hit(module as usize, time, random);
        if random.chance(0.3) {
            hit(module as usize, time + 10.0 * random.unit(), random);
        }
    }
    for _ in 0..number % 3 {
        let is_track = random.chance(0.5);
        let (vertex, begin) = (positions[random.below(96) as usize], span * random.unit());
        let direction = random_direction(random);
        for (module, at) in positions.iter().enumerate() {
            let way: [f64; 3] = std::array::from_fn(|axis| at[axis] - vertex[axis] - 7.0);
            let squared: f64 = way.iter().map(|it| it * it).sum();
            let along: f64 = way.iter().zip(direction).map(|(a, b)| a * b).sum();
            let across = (squared - along * along).max(0.0).sqrt();
            let tangent = (INDEX * INDEX - 1.0).sqrt();
            let (far, light) = match is_track {
                true => (across, along / LIGHT + across * tangent / LIGHT),
                false => (squared.sqrt(), squared.sqrt() * INDEX / LIGHT),
            };
            if random.chance(1.5 * (-far / 50.0).exp()) {
                hit(module, begin + light + 8.0 * random.normal(), random);
            }
        }
    }
    hits.sort_unstable();
    hits
}

fn between(positions: &[[f64; 3]], a: &ModuleHit, b: &ModuleHit) -> Between {
    let [from, to] = [a, b].map(|hit| positions[hit.module as usize].map(|it| it as f32));
    let way = std::array::from_fn(|axis| to[axis] - from[axis]);
    Between { way, time: (b.time as i64 - a.time as i64) as f32 }
}

/// Takes the hit with the fewest partners away until each has enough.
fn prune(mut left: Vec<usize>, hits: usize, matches: impl Fn(usize, usize) -> bool) -> Vec<usize> {
    loop {
        let partners = |&a: &usize| left.iter().filter(|&&b| a != b && matches(a, b)).count();
        let fewest = (0..left.len()).min_by_key(|&place| partners(&left[place]));
        match fewest {
            Some(place) if partners(&left[place]) + 1 < hits => _ = left.remove(place),
            _ => return left,
        }
    }
}

/// The definition: each hit is asked with all after it, for a shower and in every direction.
fn definition(positions: &[[f64; 3]], triggers: &Triggers, hits: &[ModuleHit]) -> Found {
    let mut masks = vec![0; hits.len()];
    let mut spans = Vec::new();
    let mut search = |least: usize, modules: usize, bit: u32, such: &dyn Fn(Between) -> bool| {
        let matches = |a: usize, b: usize| such(between(positions, &hits[a], &hits[b]));
        for root in 0..hits.len() {
            let after = (root + 1..hits.len()).filter(|&other| matches(root, other));
            let left = prune([root].into_iter().chain(after).collect(), least, matches);
            let mut on: Vec<u32> = left.iter().map(|&hit| hits[hit].module).collect();
            on.sort_unstable();
            on.dedup();
            if !left.is_empty() && on.len() >= modules {
                left.iter().for_each(|&hit| masks[hit] |= 1 << bit);
                spans
                    .push((hits[root].time, left.iter().map(|&hit| hits[hit].time).max().unwrap()));
            }
        }
    };
    if let Some(Shower { hits, modules, distance_m, extra_ns }) = triggers.shower {
        let point = Point::new(distance_m, extra_ns);
        search(hits, modules, trigger_bit::SHOWER, &|between| point.matches(between));
    }
    if let Some(Muon { hits, modules, road_m, extra_ns, spacing }) = triggers.muon {
        let track = Track::new(road_m, extra_ns);
        for direction in directions::grid(spacing) {
            let direction = direction.map(|it| it as f32);
            search(hits, modules, trigger_bit::MUON, &|between| track.matches(direction, between));
        }
    }
    spans.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (begin, end) in spans {
        match merged.last_mut() {
            Some((_, last)) if begin <= *last => *last = end.max(*last),
            _ => merged.push((begin, end)),
        }
    }
    let of = |(begin, end): (u64, u64)| {
        let inside = hits.iter().zip(&masks);
        let inside = inside.filter(|(hit, mask)| (begin..=end).contains(&hit.time) && **mask != 0);
        let all: Vec<_> = inside.map(|(&hit, &mask)| Triggered { hit, mask }).collect();
        (all.iter().fold(0, |mask, it| mask | it.mask), all)
    };
    merged.into_iter().map(of).collect()
}

/// What the finder finds. `batch` tells how many hits are handed over before it advances.
fn find(finder: &mut EventFinder, hits: &[ModuleHit], mut batch: impl FnMut() -> usize) -> Found {
    let mut found = Vec::new();
    let mut rest = hits;
    while !rest.is_empty() {
        let (these, more) = rest.split_at(batch().min(rest.len()));
        these.iter().for_each(|&hit| finder.push(hit));
        let to = more.first().or(these.last()).map_or(0, |hit| hit.time);
        finder.advance(to, |event| found.push((event.mask, event.hits.to_vec())));
        rest = more;
    }
    finder.finish(|event| found.push((event.mask, event.hits.to_vec())));
    found
}

#[test]
fn events_are_those_of_the_definition() {
    let positions = positions();
    let muon = Muon { spacing: 0.6, ..Muon::default() };
    let shower = Shower { hits: 5, modules: 4, distance_m: 110.0, extra_ns: 15.0 };
    let all = [
        Triggers { muon: Some(muon), shower: Some(shower) },
        Triggers { muon: Some(Muon { hits: 4, modules: 2, ..muon }), shower: None },
        Triggers { muon: Some(Muon { road_m: 60.0, extra_ns: 0.0, ..muon }), shower: Some(shower) },
        Triggers { muon: None, shower: Some(Shower { hits: 3, modules: 3, ..shower }) },
    ];
    let mut random = Random::new(17);
    let mut finders: Vec<_> = Isa::available()
        .map(|isa| all.map(|triggers| EventFinder::new(&positions, &triggers, isa).unwrap()))
        .collect();
    let [mut events, mut both, mut quiet] = [0; 3];
    for number in 0..SLICES {
        let hits = random_hits(&mut random, &positions, number);
        let triggers = number as usize % all.len();
        let expected = definition(&positions, &all[triggers], &hits);
        for finders in &mut finders {
            let finder = &mut finders[triggers];
            assert_eq!(find(finder, &hits, || usize::MAX), expected, "slice {number}");
            let mut random = Random::new(number);
            let batch = || random.below(7) as usize;
            assert_eq!(find(finder, &hits, batch), expected, "slice {number}, in batches");
        }
        events += expected.len();
        let is_both = |mask| mask == 1 << trigger_bit::MUON | 1 << trigger_bit::SHOWER;
        both += expected.iter().filter(|(mask, _)| is_both(*mask)).count();
        quiet += usize::from(expected.is_empty());
    }
    assert!(events > 400 && both > 30 && quiet > 200, "{events} {both} {quiet}");
}

#[test]
fn hits_that_too_many_follow_are_taken_as_they_are() {
    let positions = positions();
    let triggers = Triggers { muon: None, ..Triggers::default() };
    let hit = |time: u64, module: u32| ModuleHit { time, module, ..ModuleHit::default() };
    for isa in Isa::available() {
        let mut finder = EventFinder::new(&positions, &triggers, isa).unwrap();
        let [_, window_ns] = finder.windows_ns();
        // Two modules that no light connects, so that there are no clusters.
        let first = hit(0, 0);
        let more = (0..HITS_MAX as u64).map(|more| hit(window_ns, (more % 2 * 95) as u32));
        let mut hits: Vec<_> = std::iter::once(first).chain(more).collect();
        hits.sort_unstable();
        assert_eq!(find(&mut finder, &hits, || usize::MAX), []);
        hits.push(hit(window_ns, 95));
        let limit = 1 << trigger_bit::LIMIT_REACHED;
        let expected = vec![(limit, vec![Triggered { hit: first, mask: limit }])];
        assert_eq!(find(&mut finder, &hits, || usize::MAX), expected);
        assert_eq!(find(&mut finder, &hits, || 1), expected);
    }
}

#[test]
fn an_event_that_does_not_end_is_cut() {
    let positions = positions();
    let triggers = Triggers { muon: None, ..Triggers::default() };
    // Four modules of a string shine together every 100 ns.
    let hits: Vec<ModuleHit> = (0..5000_u64)
        .flat_map(|time| (0..8).map(move |hit| (100 * time, hit)))
        .map(|(time, hit)| ModuleHit { time, module: hit / 2, ..ModuleHit::default() })
        .collect();
    for isa in Isa::available() {
        let mut finder = EventFinder::new(&positions, &triggers, isa).unwrap();
        let found = find(&mut finder, &hits, || usize::MAX);
        let in_batches = find(&mut finder, &hits, || 11);
        assert_eq!(found, in_batches);
        let begins: Vec<u64> = found.iter().map(|(_, hits)| hits[0].hit.time).collect();
        assert_eq!(begins, [0, 1, 2, 3, 4].map(|event| event * EVENT_MAX_NS));
        assert_eq!(found.iter().map(|(_, hits)| hits.len()).sum::<usize>(), hits.len());
    }
}

#[test]
#[should_panic(expected = "hits are not in order")]
fn hits_out_of_order_are_refused() {
    let mut finder = EventFinder::new(&positions(), &Triggers::default(), Isa::Scalar).unwrap();
    finder.push(ModuleHit { time: 5, ..ModuleHit::default() });
    finder.push(ModuleHit { time: 4, ..ModuleHit::default() });
}
