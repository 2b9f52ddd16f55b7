//! Muons and showers by slice, and their hits by datagram.

use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::km3net::{DetectorFile, SLICE_NS};

use super::config::Light;
use super::event::{Event, EventKind};
use super::light::Sea;
use crate::rich::poisson;
use crate::seeds::{Purpose, family};

/// Time before the end of a slice in which no event begins, so that its light ends in it, in ns.
const QUIET_NS: f64 = 20_000.0;
/// Slices that are kept: streams are not further apart.
const KEPT: usize = 4;

/// A hit that light made, as the module sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LightHit {
    /// Place of the module.
    pub module: u32,
    /// Time since the slice began, in ns, before t0 is added.
    pub time: u32,
    /// Channel.
    pub channel: u8,
    /// Time over threshold, in ns.
    pub tot: u8,
}

/// The light of a slice.
#[derive(Clone, Debug)]
struct Slice {
    number: u64,
    events: Vec<Event>,
    /// The hits of all events, by module and time.
    hits: Vec<LightHit>,
}

/// The light of all slices, made when it is asked for.
#[derive(Clone, Debug)]
pub(super) struct LightSlices {
    light: Light,
    seed: u64,
    sea: Sea,
    /// When the first slice begins, in ns since 1970.
    start: u64,
    kept: Vec<Slice>,
}

/// What the detector does to a hit before it is sent.
pub(super) trait Readout {
    /// The modules.
    fn detector(&self) -> &DetectorFile;

    /// What is taken from the time of a hit, in ns.
    fn offset(&self, module: usize, channel: u8) -> u32;

    /// Datagram of a hit at this time of a slice, and the hits for which it has room.
    fn room(&self, module: usize, slice: u64, time: u32) -> (usize, usize);
}

impl LightSlices {
    pub(super) fn new(light: &Light, seed: u64, detector: &DetectorFile, start: u64) -> Self {
        let seed = family(seed, Purpose::Light, 0);
        Self { light: light.clone(), seed, sea: Sea::around(detector), start, kept: Vec::new() }
    }

    /// The events of a slice, in order of time.
    pub(super) fn events(&mut self, number: u64, readout: &impl Readout) -> &[Event] {
        &self.slice(number, readout).events
    }

    /// The hits of a module in this time of a slice, in ns, in order.
    pub(super) fn hits(
        &mut self,
        number: u64,
        module: usize,
        time: Range<u32>,
        readout: &impl Readout,
    ) -> &[LightHit] {
        let hits = &self.slice(number, readout).hits;
        let place =
            |time| hits.partition_point(|hit| (hit.module as usize, hit.time) < (module, time));
        &hits[place(time.start)..place(time.end)]
    }

    fn slice(&mut self, number: u64, readout: &impl Readout) -> &Slice {
        let place = match self.kept.iter().position(|slice| slice.number == number) {
            Some(place) => place,
            None => {
                let slice = self.make(number, readout);
                if self.kept.len() == KEPT {
                    let oldest = (0..KEPT).min_by_key(|&place| self.kept[place].number);
                    self.kept.swap_remove(oldest.unwrap_or(0));
                }
                self.kept.push(slice);
                self.kept.len() - 1
            }
        };
        &self.kept[place]
    }

    fn make(&self, number: u64, readout: &impl Readout) -> Slice {
        let random = &mut Random::stream(self.seed, number);
        let detector = readout.detector();
        let mut events = Vec::new();
        let seconds = SLICE_NS as f64 * 1e-9;
        let kinds =
            [(EventKind::Muon, self.light.muons_hz), (EventKind::Shower, self.light.showers_hz)];
        for (kind, rate) in kinds {
            for _ in 0..poisson(random, rate * seconds) {
                let mut event = self.sea.event(kind, self.light.upward, random);
                // Tracks are seen before their vertex, too.
                let spare = SLICE_NS as f64 - 2.0 * QUIET_NS;
                event.time_ns = QUIET_NS + spare * random.unit();
                event.slice = number;
                event.time = self.start + number * SLICE_NS + event.time_ns as u64;
                event.shine(detector, random);
                events.push(event);
            }
        }
        events.sort_by(|a, b| a.time_ns.total_cmp(&b.time_ns));
        let mut slice = Slice { number, events, hits: Vec::new() };
        slice.send(readout);
        slice
    }
}

impl Slice {
    /// Puts the hits of all events into datagrams as far as these have room.
    fn send(&mut self, readout: &impl Readout) {
        let detector = readout.detector();
        // What each datagram holds of light already.
        let mut held = std::collections::BTreeMap::new();
        for event in &mut self.events {
            event.hits.retain(|hit| {
                let Some(module) = detector.place(hit.module) else { return false };
                let time = hit.time_ns.round() as u32;
                let time = time.saturating_sub(readout.offset(module, hit.channel));
                let (datagram, room) = readout.room(module, self.number, time);
                let held = held.entry((module, datagram)).or_insert(0);
                if *held == room {
                    event.cut += 1;
                    return false;
                }
                *held += 1;
                let (module, channel, tot) = (module as u32, hit.channel, hit.tot);
                self.hits.push(LightHit { module, time, channel, tot });
                true
            });
            event.count_l1();
        }
        self.hits.sort_unstable();
    }
}
