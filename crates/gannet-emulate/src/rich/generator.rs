//! Events of the RICH from a seed: each depends on the seed and its number alone.

use gannet_measure::random::Random;
use gannet_wire::na62::PmMap;
use gannet_wire::na62::pm_map::{BOARD_CHANNELS, Pm};

use super::config::Content;
use super::event::{Event, Hit};
use super::optics::{Optics, poisson};
use crate::seeds::{Purpose, family};

/// Nanoseconds of a unit of the fine time.
const FINE_NS: f64 = 0.097_464_731_802;
/// Resolution of a hit's time, in ns.
const RESOLUTION_NS: f64 = 0.24;
/// Time in which the noise hits of an event are, in ns.
const WINDOW_NS: f64 = 10.0;
/// Most hits of an event, because a byte counts them.
const HITS_MAX: usize = 255;

/// Makes events.
#[derive(Clone, Debug)]
pub struct Generator {
    content: Content,
    optics: Optics,
    map: PmMap,
    /// Those that read a photomultiplier.
    channels: Vec<u16>,
    seed: u64,
}

impl Generator {
    /// Generator of events with this content, whose channels read what `map` tells.
    pub fn new(content: &Content, map: &PmMap, seed: u64) -> Self {
        Self {
            optics: Optics::new(content.photons),
            content: content.clone(),
            channels: map.iter().map(|(channel, _)| channel).collect(),
            map: map.clone(),
            seed: family(seed, Purpose::Rings, 0),
        }
    }

    /// Event `number`, which has one hit at least: a hit of noise where there would be none.
    ///
    /// Photomultipliers that no channel reads see nothing.
    pub fn event(&self, number: u64) -> Event {
        let random = &mut Random::stream(self.seed, number);
        let mut lit: Vec<(u16, f64)> = Vec::new();
        let mut rings = Vec::new();
        let in_time = random.chance(self.content.in_time);
        for _ in 0..self.rings(random) {
            let late = if in_time { 0.0 } else { random.unit() * self.content.spread.ns() as f64 };
            let mut channels: Vec<u16> = Vec::new();
            let mut ring =
                self.optics.shine(random, |pm: Pm| channels.extend(self.map.channel(pm)));
            channels.sort_unstable();
            channels.dedup();
            ring.hits = channels.len() as u16;
            rings.push(ring);
            lit.extend(channels.iter().map(|&channel| (channel, late)));
        }
        for (_, time) in &mut lit {
            *time += RESOLUTION_NS * random.normal();
        }
        let noise = poisson(random, self.content.noise).max(usize::from(lit.is_empty()));
        for _ in 0..noise {
            let channel = self.channels.get(random.below(self.channels.len() as u64) as usize);
            lit.extend(channel.map(|&channel| (channel, WINDOW_NS * random.unit())));
        }
        Event { hits: hits(lit), rings }
    }

    /// How many rings the next event has.
    fn rings(&self, random: &mut Random) -> usize {
        let shares = &self.content.rings;
        let mut share = random.unit() * shares.iter().sum::<f64>();
        let rings = shares.iter().position(|of| {
            share -= of;
            share < 0.0
        });
        rings.unwrap_or(shares.len() - 1)
    }
}

/// The hits of what was lit, each channel once, at its first time; board by board, and of each
/// board in order of time.
fn hits(mut lit: Vec<(u16, f64)>) -> Vec<Hit> {
    lit.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    lit.dedup_by_key(|hit| hit.0);
    lit.truncate(HITS_MAX);
    let first = lit.iter().map(|hit| hit.1).fold(f64::INFINITY, f64::min);
    let hit = |&(channel, time): &(u16, f64)| Hit {
        channel,
        time: ((time - first) / FINE_NS).round() as u8,
    };
    let mut hits: Vec<Hit> = lit.iter().map(hit).collect();
    hits.sort_unstable_by_key(|hit| (hit.channel / BOARD_CHANNELS as u16, hit.time, hit.channel));
    hits
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::quantity::Span;

    fn generator(content: &Content) -> Generator {
        Generator::new(content, &PmMap::numbered(), 7)
    }

    /// Share of `items` for which `what` holds.
    fn share<T>(items: &[T], what: impl Fn(&T) -> bool) -> f64 {
        items.iter().filter(|item| what(item)).count() as f64 / items.len() as f64
    }

    fn mean<T>(items: &[T], what: impl Fn(&T) -> f64) -> f64 {
        items.iter().map(what).sum::<f64>() / items.len() as f64
    }

    #[test]
    fn events_look_as_they_do_in_the_experiment() {
        let generator = generator(&Content::default());
        let events: Vec<Event> = (0..20_000).map(|number| generator.event(number)).collect();
        for (rings, expected) in [0.05, 0.5, 0.2, 0.2, 0.05].into_iter().enumerate() {
            let found = share(&events, |event| event.rings.len() == rings);
            assert!((found - expected).abs() < 0.015, "{rings} rings: {found}");
        }
        let hits = mean(&events, |event| event.hits.len() as f64);
        assert!((hits - 26.4).abs() < 0.5, "{hits} hits an event");
        let rings: Vec<_> = events.iter().flat_map(|event| &event.rings).collect();
        let seen = mean(&rings, |ring| f64::from(ring.hits));
        assert!((seen - 14.7).abs() < 0.25, "{seen} hits a ring");
        let found = share(&rings, |ring| ring.hits >= 6);
        assert!((found - 0.956).abs() < 0.006, "{found} of the rings have 6 hits");
    }

    #[test]
    fn radii_follow_mass_and_momentum() {
        let generator = generator(&Content::default());
        let events: Vec<Event> = (0..5000).map(|number| generator.event(number)).collect();
        let rings: Vec<_> = events.iter().flat_map(|event| &event.rings).collect();
        let largest = rings.iter().map(|ring| ring.radius).fold(0.0, f32::max);
        assert!((largest - 190.8).abs() < 0.1, "{largest}");
        // A pion of 15 GeV/c has 106 mm, and 13 GeV/c is just above the threshold.
        let smallest = rings.iter().map(|ring| ring.radius).fold(f32::MAX, f32::min);
        assert!((50.0..60.0).contains(&smallest), "{smallest}");
        let electrons = share(&rings, |ring| ring.radius > 190.7);
        assert!((electrons - 0.15).abs() < 0.015, "{electrons}");
        let x = mean(&rings, |ring| f64::from(ring.x));
        assert!((-155.0..-140.0).contains(&x), "{x}");
    }

    #[test]
    fn hits_of_a_ring_lie_on_it() {
        let content =
            Content { noise: 0.0, rings: [0.0, 1.0, 0.0, 0.0, 0.0], ..Content::default() };
        let (generator, map) = (generator(&content), PmMap::numbered());
        let mut residuals = Vec::new();
        for event in (0..2000).map(|number| generator.event(number)) {
            let [ring] = &event.rings[..] else { panic!("{} rings", event.rings.len()) };
            assert_eq!(usize::from(ring.hits), event.hits.len());
            residuals.extend(event.hits.iter().map(|hit| {
                let [x, y] = map.position(hit.channel).unwrap();
                (x - f64::from(ring.x)).hypot(y - f64::from(ring.y)) - f64::from(ring.radius)
            }));
        }
        assert!(residuals.iter().all(|residual| residual.abs() <= 9.01));
        // A circle of 18 mm across has 4.5 mm along each axis.
        let width = mean(&residuals, |residual| residual * residual).sqrt();
        assert!((width - 4.5).abs() < 0.15, "{width}");
    }

    #[test]
    fn rings_are_in_time_or_within_8_ns() {
        let mut content = Content {
            noise: 0.0,
            rings: [0.0, 0.0, 0.0, 0.0, 1.0],
            in_time: 1.0,
            ..Content::default()
        };
        let last = |content: &Content| {
            let generator = generator(content);
            let time = |event: &Event| event.hits.iter().map(|hit| hit.time).max();
            (0..1000)
                .map(|number| f64::from(time(&generator.event(number)).unwrap()) * FINE_NS)
                .collect::<Vec<f64>>()
        };
        assert!(last(&content).iter().all(|&last| last < 3.0));
        content.in_time = 0.0;
        let spread = last(&content);
        assert!(spread.iter().all(|&last| last < 11.0));
        assert!(share(&spread, |&last| last > 3.0) > 0.8);
        content.spread = Span(0);
        assert!(last(&content).iter().all(|&last| last < 3.0));
    }

    #[test]
    fn hits_are_in_order_and_each_channel_is_there_once() {
        let generator = generator(&Content::default());
        for event in (0..3000).map(|number| generator.event(number)) {
            let key = |hit: &Hit| (hit.channel / 512, hit.time);
            assert!(event.hits.is_sorted_by_key(key));
            let mut channels: Vec<u16> = event.hits.iter().map(|hit| hit.channel).collect();
            channels.sort_unstable();
            assert!(channels.windows(2).all(|pair| pair[0] < pair[1]));
            assert_eq!(event.hits.iter().map(|hit| hit.time).min(), Some(0));
        }
        assert_eq!(generator.event(17), generator.event(17));
    }
}
