//! Tracks and deposits, drawn slot by slot of time.
//!
//! Time is cut into slots of 64 frames. The events that begin in a slot depend on seed and slot
//! alone, and none lasts into the slot after the next, so any slot can be made again by itself.

use gannet_measure::random::Random;
use gannet_wire::StreamChannels;
use gannet_wire::adc14::SAMPLES;
use gannet_wire::channel_map::{COLLECTION, PLANES};

use super::config::{Config, Deposits, Tracks};
use super::event::{Event, EventKind, Hit};
use super::pulse::{LEAD, Shapes, TAIL};
use super::wires::{Module, Wire, Wires};
use crate::seeds::{Purpose, family};
use gannet_wire::TpcFormat;

/// Frames of a slot: a bit each in a word.
pub(crate) const SLOT_FRAMES: u64 = 64;
/// Samples of a slot.
pub(crate) const SLOT_SAMPLES: u64 = SLOT_FRAMES * SAMPLES as u64;
/// Longest time from the first peak of an event to its last, in samples.
const SPAN_MAX: u64 = SLOT_SAMPLES - LEAD - TAIL - 1;
/// Most events of a kind in a slot; the largest rate allowed gives 2100 on average.
const SLOT_EVENTS_MAX: usize = 8192;
/// Largest peak of a pulse, in ADC counts.
const PEAK_MAX: f64 = 12_000.0;

/// Draws the events of any slot.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    seed: u64,
    tracks: Tracks,
    deposits: Deposits,
    wires: Wires,
    samples_per_s: f64,
    start_timestamp: u64,
    format: TpcFormat,
    shapes: Shapes,
}

impl Events {
    /// Generator for the detector that `streams` read.
    pub(crate) fn new(config: &Config, streams: &[StreamChannels], start_timestamp: u64) -> Self {
        Self {
            seed: config.seed,
            tracks: config.tracks.clone(),
            deposits: config.deposits.clone(),
            wires: Wires::new(streams),
            samples_per_s: config.streams.format.samples_per_s(),
            start_timestamp,
            format: config.streams.format,
            shapes: Shapes::default(),
        }
    }

    /// Passes the events that begin in `slot` to `event`, in the order of their first peaks.
    ///
    /// `hits` is room for the hits of one event.
    pub(crate) fn in_slot(
        &self,
        slot: u64,
        hits: &mut Vec<Hit>,
        mut event: impl FnMut(&Event, &[Hit]),
    ) {
        let mut tracks =
            Arrivals::new(self, slot, Purpose::Tracks, self.tracks.rate_hz / self.samples_per_s);
        let mut deposits = Arrivals::new(
            self,
            slot,
            Purpose::Deposits,
            self.deposits.rate_hz / self.samples_per_s,
        );
        while let Some(first) = tracks.next.into_iter().chain(deposits.next).min() {
            hits.clear();
            let kind = if tracks.next == Some(first) {
                self.track(&mut tracks.random, first, hits);
                tracks.advance();
                EventKind::Track
            } else {
                self.deposit(&mut deposits.random, first, hits);
                deposits.advance();
                EventKind::Deposit
            };
            if !hits.is_empty() {
                event(&self.describe(kind, hits), hits);
            }
        }
    }

    /// Time of a sample in ticks.
    fn time(&self, sample: u64) -> u64 {
        self.start_timestamp.wrapping_add(sample * self.format.ticks_per_frame() / SAMPLES as u64)
    }

    fn describe(&self, kind: EventKind, hits: &[Hit]) -> Event {
        let mut channels: [Option<(u32, u32)>; PLANES] = [None; PLANES];
        let (mut time_start, mut time_end, mut adc_integral) = (u64::MAX, 0, 0);
        for hit in hits {
            time_start = time_start.min(hit.time);
            time_end = time_end.max(hit.time);
            let range = &mut channels[usize::from(hit.plane)];
            let (low, high) = range.unwrap_or((hit.channel, hit.channel));
            *range = Some((low.min(hit.channel), high.max(hit.channel)));
            if hit.plane == COLLECTION {
                adc_integral += self.shapes.collection_integral(hit.adc_peak);
            }
        }
        Event { kind, time_start, time_end, channels, adc_integral, hits: hits.len() }
    }

    /// A straight line through one module: on each plane a range of wires, crossed from one end
    /// to the other in the same time.
    fn track(&self, random: &mut Random, first: u64, hits: &mut Vec<Hit>) {
        let Some(module) = self.wires.choose(random) else { return };
        let config = &self.tracks;
        let lengths = (config.channels_max - config.channels_min + 1) as u64;
        let reference = module.reference_len();
        let length = (config.channels_min + random.below(lengths) as usize).min(reference);
        let slope = random.unit() * config.slope_max;
        let span = (slope * length as f64).min(SPAN_MAX as f64);
        let peak = config.adc * (0.7 + random.exponential(0.5).min(3.0));
        for (plane, wires) in module.planes.iter().enumerate() {
            // The other views see the same track under another angle, over fewer wires.
            let share = if plane == usize::from(COLLECTION) { 1.0 } else { random.unit().max(0.5) };
            let count = (length * wires.len()) as f64 / reference as f64 * share;
            let count = (count.ceil() as usize).min(wires.len());
            let start = random.below((wires.len() - count + 1) as u64) as usize;
            let upward = random.chance(0.5);
            let scale = plane_scale(plane, config.induction_fraction) * peak;
            for step in 0..count {
                let wire = wires[start + if upward { step } else { count - 1 - step }];
                let drift = span * step as f64 / (count - 1).max(1) as f64;
                let sample = first + drift.round() as u64;
                let fluctuation = 0.8 + random.exponential(0.2).min(2.0);
                self.hit(hits, wire, plane, sample, scale * fluctuation);
            }
        }
    }

    /// Charge at one point: a few neighbouring wires on each plane at one time.
    fn deposit(&self, random: &mut Random, first: u64, hits: &mut Vec<Hit>) {
        let Some(module) = self.wires.choose(random) else { return };
        let config = &self.deposits;
        let peak = config.adc * (0.6 + random.exponential(0.4).min(4.0));
        for plane in 0..PLANES {
            let Some((centre, wires)) = neighbours(module, plane, config.channels_max, random)
            else {
                continue;
            };
            let scale = plane_scale(plane, config.induction_fraction) * peak;
            for (place, &wire) in wires.iter().enumerate() {
                let share = 0.5f64.powi(place.abs_diff(centre) as i32);
                self.hit(hits, wire, plane, first, scale * share);
            }
        }
    }

    /// Adds one hit, unless it is too small to show.
    fn hit(&self, hits: &mut Vec<Hit>, wire: Wire, plane: usize, sample: u64, peak: f64) {
        let adc_peak = peak.min(PEAK_MAX).round() as u16;
        if adc_peak == 0 {
            return;
        }
        hits.push(Hit {
            time: self.time(sample),
            channel: wire.offline,
            plane: plane as u8,
            adc_peak,
            stream: wire.stream,
            stream_channel: wire.channel,
            sample,
        });
    }
}

/// Height of a pulse on `plane` relative to the collection plane.
fn plane_scale(plane: usize, induction_fraction: f64) -> f64 {
    if plane == usize::from(COLLECTION) { 1.0 } else { induction_fraction }
}

/// Draws up to `count_max` neighbouring wires of a plane, and which of them is the centre.
fn neighbours<'a>(
    module: &'a Module,
    plane: usize,
    count_max: usize,
    random: &mut Random,
) -> Option<(usize, &'a [Wire])> {
    let wires = &module.planes[plane];
    let count = (1 + random.below(count_max as u64) as usize).min(wires.len());
    let start = random.below((wires.len() - count + 1) as u64) as usize;
    (count > 0).then(|| (count / 2, &wires[start..start + count]))
}

/// The first peaks of the events of one kind in a slot: a Poisson process.
struct Arrivals {
    random: Random,
    mean_gap: f64,
    place: f64,
    slot: u64,
    left: usize,
    /// Sample of the next first peak, if there is one in the slot.
    next: Option<u64>,
}

impl Arrivals {
    fn new(events: &Events, slot: u64, purpose: Purpose, per_sample: f64) -> Self {
        let mut arrivals = Self {
            random: Random::stream(family(events.seed, purpose, 0), slot),
            mean_gap: 1.0 / per_sample,
            place: 0.0,
            slot,
            left: SLOT_EVENTS_MAX,
            next: None,
        };
        if per_sample > 0.0 {
            arrivals.advance();
        }
        arrivals
    }

    fn advance(&mut self) {
        self.place += self.random.exponential(self.mean_gap);
        let inside = self.place < SLOT_SAMPLES as f64 && self.left > 0;
        self.left = self.left.saturating_sub(1);
        // The pulse begins before its peak: shifted, so that none begins before its slot.
        self.next = inside.then(|| self.slot * SLOT_SAMPLES + LEAD + self.place as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::ChannelMap;

    fn events(edit: impl FnOnce(&mut Config)) -> Events {
        let mut config = Config::default();
        config.streams.count = 16;
        edit(&mut config);
        config.check().unwrap();
        let geo_ids = config.streams.geo_ids();
        let map = ChannelMap::synthetic(&geo_ids).unwrap();
        let streams: Vec<_> = geo_ids.iter().map(|geo| *map.stream(*geo).unwrap()).collect();
        Events::new(&config, &streams, 1000)
    }

    fn all(events: &Events, slots: u64) -> Vec<(Event, Vec<Hit>)> {
        let (mut list, mut hits) = (Vec::new(), Vec::new());
        for slot in 0..slots {
            events
                .in_slot(slot, &mut hits, |event, hits| list.push((event.clone(), hits.to_vec())));
        }
        list
    }

    #[test]
    fn events_come_at_the_configured_rates() {
        let events = events(|config| {
            config.tracks.rate_hz = 500.0;
            config.deposits.rate_hz = 2000.0;
        });
        let list = all(&events, 954);
        // 954 slots are 2.0007 s: 1000 tracks and 4000 deposits, to 4 standard deviations.
        let tracks = list.iter().filter(|(event, _)| event.kind == EventKind::Track).count();
        assert!((870..=1130).contains(&tracks), "{tracks}");
        assert!((3740..=4260).contains(&(list.len() - tracks)), "{}", list.len() - tracks);
        assert!(list.is_sorted_by_key(|(event, _)| event.time_start));
    }

    #[test]
    fn a_track_crosses_neighbouring_channels_one_after_the_other() {
        let events = events(|config| {
            config.tracks.rate_hz = 1000.0;
            config.deposits.rate_hz = 0.0;
        });
        for (event, hits) in all(&events, 100) {
            let on = |plane| hits.iter().filter(move |hit| hit.plane == plane);
            let collection: Vec<&Hit> = on(2).collect();
            assert!((48..=300).contains(&collection.len()));
            assert_eq!(
                event.channels[2].map(|(a, b)| (b - a) as usize + 1),
                Some(collection.len())
            );
            for pair in collection.windows(2) {
                assert_eq!(pair[0].channel.abs_diff(pair[1].channel), 1);
                let step = pair[1].sample - pair[0].sample;
                assert!(step <= 7, "slope of at most 6 samples a channel: {step}");
            }
            assert!(on(0).count() >= 20 && on(1).count() >= 20);
            assert!(collection.iter().all(|hit| hit.adc_peak >= 224));
            assert!(hits.iter().all(|hit| hit.adc_peak >= 134), "above a threshold of 100");
        }
    }

    #[test]
    fn no_event_leaves_the_slot_after_its_own() {
        let events = events(|config| {
            config.tracks = Tracks { rate_hz: 5000.0, slope_max: 100.0, ..Tracks::default() };
        });
        let mut hits = Vec::new();
        for slot in 0..50 {
            events.in_slot(slot, &mut hits, |_, hits| {
                for hit in hits {
                    assert!(hit.sample - LEAD >= slot * SLOT_SAMPLES);
                    assert!(hit.sample + TAIL < (slot + 2) * SLOT_SAMPLES);
                }
            });
        }
    }

    #[test]
    fn a_deposit_is_on_few_neighbours_at_one_time() {
        let events = events(|config| {
            config.tracks.rate_hz = 0.0;
            config.deposits.rate_hz = 3000.0;
        });
        for (event, hits) in all(&events, 50) {
            assert_eq!((event.kind, event.time_start), (EventKind::Deposit, event.time_end));
            for (low, high) in event.channels.into_iter().flatten() {
                assert!(high - low < 3);
            }
            assert_eq!(event.hits, hits.len());
        }
    }

    #[test]
    fn times_are_those_of_the_samples() {
        let events = events(|config| config.streams.format = TpcFormat::TdeEth);
        assert_eq!(events.time(0), 1000);
        assert_eq!(events.time(64), 3000);
        assert_eq!(events.time(1), 1031, "31.25 ticks a sample, rounded down");
    }
}
