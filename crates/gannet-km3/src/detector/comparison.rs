//! Muons, showers and slices that a front end put in, and what of them is in the files of a run.

use std::collections::{BTreeMap, HashMap, HashSet};

use gannet_control::detector::Comparison;
use gannet_control::emulation::EmulationReport;
use gannet_control::snapshot::{Figure, Snapshot};
use gannet_emulate::InjectedEvent;
use gannet_emulate::km3::{Event, EventKind, Hit, Slice};
use gannet_log::{Kind, Reader};
use gannet_wire::km3net::SLICE_NS;
use gannet_wire::km3net::daq::{self, Object, Objects, SummaryFrame, SummarySlice, rate_code};
use serde::de::DeserializeOwned;

use crate::geometry::Geometry;

/// A muon or shower with as many hits that others confirm is to be found,
const BRIGHT_HITS: usize = 10;
/// if they are on so many modules.
const BRIGHT_MODULES: usize = 5;
/// Time by which a hit that was made may be from the one that was found, in ns: both are rounded.
const ROUNDED_NS: f64 = 1.5;
/// Slices in a second.
const SLICES_PER_S: f64 = 1e9 / SLICE_NS as f64;

/// What was put in.
#[derive(Debug)]
pub(super) struct Light {
    geometry: Geometry,
    events: Vec<Event>,
    slices: Vec<Slice>,
}

impl Light {
    /// Nothing yet, for the modules that are read.
    pub fn new(geometry: Geometry) -> Self {
        Self { geometry, events: Vec::new(), slices: Vec::new() }
    }
}

/// An event as the front end tells it to anybody.
fn told<T: DeserializeOwned>(event: &dyn InjectedEvent) -> Option<T> {
    let mut line = Vec::new();
    event.write_json(&mut line).ok()?;
    serde_json::from_slice(&line).ok()
}

impl Comparison for Light {
    fn put_in(&mut self, event: &dyn InjectedEvent) {
        match event.kind() {
            "slice" => self.slices.extend(told(event)),
            _ => self.events.extend(told(event)),
        }
    }

    fn compare(&self, _: &EmulationReport, found: &Snapshot) -> Result<Vec<Figure>, String> {
        let mut read = Read::default();
        for file in &found.recorder.files {
            let mut reader = Reader::open(file).map_err(|error| error.to_string())?;
            while let Some(chunk) = reader.next_chunk().map_err(|error| error.to_string())? {
                if chunk.header.label.kind == Kind::DAQ_OBJECTS {
                    read.take(chunk.payload, self).map_err(|error| error.to_string())?;
                }
            }
        }
        Ok(self.figures(&read))
    }
}

impl Light {
    fn figures(&self, read: &Read) -> Vec<Figure> {
        // Of the last slice the front end may have sent a part.
        let last = self.slices.iter().map(|slice| slice.slice).max().unwrap_or(0);
        let mut matched = HashSet::new();
        let mut figures = Vec::new();
        for (kind, name) in [(EventKind::Muon, "muons"), (EventKind::Shower, "showers")] {
            let (mut all, mut bright) = (Counted::default(), Counted::default());
            for event in self.events.iter().filter(|event| event.kind == kind) {
                let seen = self.seen(event, read);
                if event.slice < last {
                    all.add(!seen.is_empty());
                    if event.l1_hits >= BRIGHT_HITS && event.l1_modules >= BRIGHT_MODULES {
                        bright.add(!seen.is_empty());
                    }
                }
                matched.extend(seen);
            }
            figures.push(Figure::count(name, all.made));
            figures.push(Figure::share("  in an event", all.found, all.made));
            let what = format!("  of {BRIGHT_HITS} L1 hits, {BRIGHT_MODULES} modules");
            figures.push(Figure::share(what, bright.found, bright.made));
        }
        let events = read.events;
        let unmatched = events - matched.len() as u64;
        figures.push(Figure::count("events", events));
        figures.push(Figure::share("  of nothing put in", unmatched, events));
        let slices = self.slices.iter().filter(|slice| slice.slice < last).count();
        figures.push(Figure::count("slices", slices as u64));
        let (whole, equal) = read.summaries;
        figures.push(Figure::count("summaries of modules", whole));
        figures.push(Figure::share("  with the rates put in", equal, whole));
        figures
    }

    /// The events that have a triggered hit of this muon or shower.
    fn seen(&self, event: &Event, read: &Read) -> HashSet<u64> {
        let begin = event.time.saturating_add_signed(-(event.time_ns as i64));
        let begin = (begin + SLICE_NS / 2) / SLICE_NS * SLICE_NS;
        let of_hit = |hit: &Hit| {
            let at = read.triggered.get(&(hit.module, hit.channel));
            let made = hit.time_ns;
            let is_it = move |(time, _): &&(u64, u64)| {
                (time.wrapping_sub(begin) as i64 as f64 - made).abs() <= ROUNDED_NS
            };
            at.into_iter().flatten().filter(is_it).map(|&(_, event)| event)
        };
        event.hits.iter().flat_map(of_hit).collect()
    }

    /// How many summaries of modules tell of whole slices, and how many of these the rates that were put in.
    fn compare_summary(&self, summary: &SummarySlice<'_>) -> (u64, u64) {
        let begin = summary.header().begin_ns();
        let Ok(place) = self.slices.binary_search_by_key(&begin, |slice| slice.time) else {
            return (0, 0);
        };
        let made = &self.slices[place].hits;
        let (mut whole, mut equal) = (0, 0);
        for frame in summary.frames().filter(SummaryFrame::is_complete) {
            let rates = made.get(&frame.module).into_iter().flatten();
            let codes = rates.map(|&hits| rate_code(SLICES_PER_S * f64::from(hits)));
            whole += 1;
            equal += u64::from(codes.eq(frame.rates));
        }
        (whole, equal)
    }
}

/// How many were made, and how many of them found.
#[derive(Default)]
struct Counted {
    made: u64,
    found: u64,
}

impl Counted {
    fn add(&mut self, is_found: bool) {
        self.made += 1;
        self.found += u64::from(is_found);
    }
}

/// What was read of the files.
#[derive(Default)]
struct Read {
    events: u64,
    /// By module and channel the triggered hits, with t0 and in ns since 1970, and the numbers of their events.
    triggered: HashMap<(u32, u8), Vec<(u64, u64)>>,
    /// Summaries of modules of whole slices, and those of them with the rates that were put in.
    summaries: (u64, u64),
}

impl Read {
    fn take(&mut self, objects: &[u8], made: &Light) -> gannet_wire::Result<()> {
        let t0: BTreeMap<u32, &[u32]> =
            made.geometry.modules.iter().map(|module| (module.id, &module.t0_ns[..])).collect();
        for object in Objects::new(objects) {
            match object? {
                Object::Event(event) => {
                    self.events += 1;
                    self.take_event(&event, &t0);
                }
                Object::SummarySlice(summary) => {
                    let (whole, equal) = made.compare_summary(&summary);
                    self.summaries.0 += whole;
                    self.summaries.1 += equal;
                }
                _ => (),
            }
        }
        Ok(())
    }

    fn take_event(&mut self, event: &daq::Event<'_>, t0: &BTreeMap<u32, &[u32]>) {
        let begin = event.header().header.begin_ns();
        for triggered in event.triggered_hits() {
            let daq::SnapshotHit { module, hit } = triggered.snapshot;
            let t0 = t0.get(&module).and_then(|t0| t0.get(usize::from(hit.channel)));
            let time = begin + u64::from(hit.time) + u64::from(t0.copied().unwrap_or(0));
            self.triggered.entry((module, hit.channel)).or_default().push((time, self.events));
        }
    }
}

#[cfg(test)]
mod tests {
    use gannet_control::snapshot::FigureValue;
    use gannet_emulate::FrontEnd;
    use gannet_emulate::km3::{Config, Km3FrontEnd};
    use gannet_wire::km3net::daq::{EventHeader, SnapshotHit, TriggeredHit, emit_event};
    use gannet_wire::km3net::detector_file::{DetectorFile, Lattice};

    use super::*;

    /// What a front end puts in in three slices, and the begin of the first.
    fn light() -> (Light, u64) {
        let lattice = Lattice { strings: 7, modules: 3, ..Lattice::default() };
        let detector = DetectorFile::lattice(&lattice);
        let mut config =
            Config { start_timestamp: Some(1_700_000_000_000_000_000), ..Config::default() };
        (config.light.muons_hz, config.light.showers_hz) = (100.0, 50.0);
        let mut front_end = Km3FrontEnd::new(&config, &detector, 0).unwrap();
        let ids = detector.modules().iter().map(|module| module.id);
        let mut light = Light::new(Geometry::of(&detector, ids).unwrap());
        let datagrams = 3 * front_end.datagrams_per_slice() as u64;
        front_end.report(0..datagrams, &mut |event| light.put_in(event));
        (light, front_end.start())
    }

    /// An event whose triggered hits are those that `made` has, as its modules send them.
    fn found(made: &Event, light: &Light, start: u64) -> Vec<u8> {
        let sent = |hit: &Hit| {
            let modules = &light.geometry.modules;
            let own = modules.iter().find(|module| module.id == hit.module).unwrap();
            let time = hit.time_ns.round() as u32 - own.t0_ns[usize::from(hit.channel)];
            let hit_there = gannet_wire::km3net::Hit {
                channel: hit.channel,
                time,
                time_over_threshold: hit.tot,
            };
            let snapshot = SnapshotHit { module: hit.module, hit: hit_there };
            TriggeredHit { snapshot, trigger_mask: 1 }
        };
        let triggered: Vec<_> = made.hits.iter().map(sent).collect();
        let snapshot: Vec<_> = triggered.iter().map(|hit| hit.snapshot).collect();
        let header = daq::Header::default().with_begin_ns(start + made.slice * SLICE_NS);
        let event = EventHeader { header, trigger_counter: 1, trigger_mask: 1, overlays: 0 };
        let mut bytes = Vec::new();
        emit_event(&event, &triggered, &snapshot, &mut bytes);
        bytes
    }

    fn share(figures: &[Figure], after: &str, name: &str) -> (u64, u64) {
        let mut figures = figures.iter().skip_while(|figure| figure.name != after);
        match figures.find(|figure| figure.name == name).map(|figure| &figure.value) {
            Some(FigureValue::Share(share)) => (share.part, share.of),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn events_are_matched_by_their_hits() {
        let (light, start) = light();
        let is_bright = |event: &&Event| event.l1_hits >= BRIGHT_HITS && event.slice < 2;
        let made: Vec<&Event> = light.events.iter().filter(is_bright).collect();
        let muons = made.iter().filter(|event| event.kind == EventKind::Muon).count() as u64;
        assert!(muons > 3 && made.len() as u64 > muons, "{muons} of {}", made.len());
        let mut read = Read::default();
        made.iter().for_each(|made| read.take(&found(made, &light, start), &light).unwrap());
        // One with the same hits a microsecond later is of nothing.
        let mut late = made[0].clone();
        late.hits.iter_mut().for_each(|hit| hit.time_ns += 1000.0);
        read.take(&found(&late, &light, start), &light).unwrap();
        let figures = light.figures(&read);
        let (seen, all) = share(&figures, "muons", "  in an event");
        assert!(seen >= muons && all > seen, "{seen} of {all}");
        let (seen, bright) = share(&figures, "showers", "  of 10 L1 hits, 5 modules");
        assert_eq!(seen, bright);
        assert_eq!(share(&figures, "events", "  of nothing put in"), (1, made.len() as u64 + 1));
    }
}
