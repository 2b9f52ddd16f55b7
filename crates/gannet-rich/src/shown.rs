//! Single events with the rings found in them, as text, as values, and as a picture.

use std::fmt::Write;

use gannet_control::config::{Config, Document};
use gannet_control::event::{EventView, NoEvent, Recording};
use gannet_kernels::Isa;
use gannet_kernels::rings::Ring;
use gannet_plot::{
    Axis, COLOURS, Chart, Colour, Document as Page, INK, Key, Mark, Paint, Radius, Stroke,
};
use gannet_wire::na62::pm_map::{DISCS, onto_disc};
use gannet_wire::na62::{FINE_CLOCK, Pm, PmMap, Time, m2egp};
use serde_json::json;

use crate::detector::RichTables;
use crate::primitive::{PrimitiveId, RadiusClasses};
use crate::recorded::{self, EventSink};
use crate::search::{FinderChoice, Search};

/// A hit so near a ring may be of it, in mm: as near as those that a ring has to have.
const NEAR_MM: f64 = 12.0;
/// Radius as which a photomultiplier is drawn, in mm; the next one is 18 mm away.
const PM_MM: f64 = 8.0;
/// How far a disc reaches, with a little room, in mm.
const DISC_MM: f64 = 330.0;

/// How the rings of a recording are found: as in its run, or as usual where it tells of none.
pub struct Setting {
    /// Number of the run, if it is known.
    pub run: Option<u32>,
    /// Photomultipliers of the channels.
    pub map: PmMap,
    /// Finds rings.
    pub search: Search,
    /// How many rings an event may have.
    pub finder: FinderChoice,
    /// Longest time from the first hit of an event to its last, in fine units.
    pub window: u64,
}

impl Setting {
    /// That of a recording.
    ///
    /// # Errors
    /// When what its log tells of the run cannot be read.
    pub fn of(recording: &Recording) -> Result<Self, NoEvent> {
        let unreadable = |cause: String| {
            let file = recording.path.display();
            NoEvent::Unreadable(format!("{file}: what it tells of its run: {cause}"))
        };
        let (mut config, mut map) = (Config::<RichTables>::default(), PmMap::numbered());
        if let Some(start) = &recording.start {
            let document = Document::new("configuration", &start.configuration);
            config = document.read().map_err(|problem| unreadable(problem.to_string()))?;
            match start.told.get("cabling").and_then(|table| table.as_str()) {
                Some(table) => {
                    map = PmMap::parse(table).map_err(|error| unreadable(error.to_string()))?;
                }
                None if config.pipeline.cabling.is_some() => {
                    return Err(unreadable("the table of the cabling is not in it".to_owned()));
                }
                None => {}
            }
        }
        let pipeline = &config.pipeline;
        let (muon_mm, electron_mm) = (pipeline.answer.muon_mm, pipeline.answer.electron_mm);
        let classes = RadiusClasses { muon_mm, electron_mm };
        let search = Search::new(&pipeline.rings, classes, &map, Isa::best());
        Ok(Self {
            run: recording.start.as_ref().map(|start| start.run),
            search: search.expect("the best instruction set is there"),
            finder: pipeline.rings.finder,
            window: pipeline.merge.window_fine,
            map,
        })
    }
}

/// Event `number` of a recording, from 0.
///
/// # Errors
/// As [`recorded::events`], and when there are fewer.
pub fn event(recording: &Recording, number: u64) -> Result<EventView, NoEvent> {
    let mut setting = Setting::of(recording)?;
    let mut chosen = Chosen { wanted: number, seen: 0, event: None };
    recorded::events(recording, setting.window, &mut chosen)?;
    let seen = chosen.seen;
    let (time, m2egp) = chosen.event.ok_or(NoEvent::Number { wanted: number, events: seen })?;
    let (event, _) = m2egp::Event::new_checked(&m2egp)
        .map_err(|error| NoEvent::Unreadable(format!("event {number}: {error}")))?;
    let (rings, primitive) = setting.search.event(&m2egp);
    let rings = rings.to_vec();
    let Setting { run, map, finder, .. } = setting;
    let shown = Shown { number, run, time, event, rings, primitive, finder, map };
    Ok(EventView { text: shown.text(), values: shown.values(), picture: shown.picture() })
}

/// One event of many.
struct Chosen {
    wanted: u64,
    seen: u64,
    event: Option<(u64, Vec<u8>)>,
}

impl EventSink for Chosen {
    fn event(&mut self, time: u64, m2egp: &[u8]) {
        if self.seen == self.wanted {
            self.event = Some((time, m2egp.to_vec()));
        }
        self.seen += 1;
    }

    fn is_done(&self) -> bool {
        self.event.is_some()
    }
}

/// An event, and what was found in it.
struct Shown<'a> {
    number: u64,
    run: Option<u32>,
    time: u64,
    event: m2egp::Event<'a>,
    rings: Vec<Ring>,
    primitive: PrimitiveId,
    finder: FinderChoice,
    map: PmMap,
}

/// A number of things.
fn counted(count: usize, name: &str) -> String {
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

impl Shown<'_> {
    /// Boards whose data are missing.
    fn missing(&self) -> Vec<u8> {
        let missing = self.event.header().missing;
        (0..8).filter(|board| missing >> board & 1 == 1).collect()
    }

    fn heading(&self) -> String {
        let run = self.run.map_or(String::new(), |run| format!("run {run}, "));
        format!(
            "{run}event {} at {:.3} us: {}, {}",
            self.number,
            FINE_CLOCK.ns(self.time) as f64 * 1e-3,
            counted(self.event.hits().len(), "hit"),
            counted(self.rings.len(), "ring"),
        )
    }

    fn text(&self) -> String {
        let mut text = format!("{}\n", self.heading());
        let mut line = |name: &str, value: String| {
            let _ = writeln!(text, "  {name:<22} {value}");
        };
        line("time", Time::from_fine_units(self.time).to_string());
        for board in 0..self.event.header().hits_by_board().len() {
            let hits: Vec<_> = self.event.hits_of_board(board).map(|hit| hit.to_string()).collect();
            line(&format!("channels of board {board}"), hits.join(" "));
        }
        if !self.missing().is_empty() {
            line("boards missing", format!("{:?}", self.missing()));
        }
        line("primitive", format!("{:#06x}", self.primitive.0));
        for (number, ring) in self.rings.iter().enumerate() {
            let Ring { x, y, radius, hits } = ring;
            let place = format!("centre ({x:.1}, {y:.1}) mm, radius {radius:.1} mm, {hits} hits");
            line(&format!("ring {number}"), place);
        }
        text
    }

    fn values(&self) -> serde_json::Value {
        let ring = |ring: &Ring| json!({ "x": ring.x, "y": ring.y, "radius": ring.radius, "hits": ring.hits });
        json!({
            "run": self.run,
            "event": self.number,
            "time": self.time,
            "hits": self.event.hits().collect::<Vec<_>>(),
            "missing_boards": self.missing(),
            "primitive": self.primitive.0,
            "finder": self.finder,
            "rings": self.rings.iter().map(ring).collect::<Vec<_>>(),
        })
    }

    /// Both discs side by side, with what they saw and the rings as each sees them.
    fn picture(&self) -> Result<String, String> {
        let colour = |number: usize| COLOURS[number % COLOURS.len()];
        let mut legend: Vec<Key> = (self.rings.iter().enumerate())
            .map(|(number, Ring { radius, hits, .. })| {
                Key::new(colour(number), format!("ring {number}: {radius:.1} mm, {hits} hits"))
            })
            .collect();
        let key = |stroke, name: &str| Key { stroke, ..Key::new(INK, name) };
        legend.push(key(Stroke::Dots, "hit of no ring"));
        legend.push(key(Stroke::Circles, "photomultiplier without a hit"));
        let missing = self.missing();
        let title = format!(
            "RICH of NA62, {}{}",
            self.heading(),
            if missing.is_empty() {
                String::new()
            } else {
                format!(", boards {missing:?} missing")
            }
        );
        let columns = (0..DISCS).map(|disc| vec![self.disc(disc, &colour)]).collect();
        let page = Page { title, width: 1320, height: 720, legend, columns };
        page.svg().map_err(|error| error.to_string())
    }

    fn disc(&self, disc: usize, colour: &impl Fn(usize) -> Colour) -> Chart {
        let name = ["Jura", "Saleve"][disc];
        let across = Axis::new(format!("x on the {name} disc, mm"), -DISC_MM..DISC_MM);
        let mut chart = Chart::new(across, Axis::new("y, mm", -DISC_MM..DISC_MM));
        chart.is_to_scale = true;
        let place = |pm: Pm| -> (f64, f64) { pm.on_disc().into() };
        let of_disc = Pm::all().filter(|pm| pm.disc() == disc);
        let circle = |paint, colour, at, mm| Mark::Circle(paint, colour, at, Radius::Units(mm));
        chart.marks.extend(of_disc.map(|pm| circle(Paint::Faint, INK, place(pm), PM_MM)));
        let hits = self.event.hits().filter_map(|hit| self.map.pm(hit));
        for pm in hits.filter(|pm| pm.disc() == disc) {
            let colour = self.ring_of(pm).map_or(INK, colour);
            chart.marks.push(circle(Paint::Filled, colour, place(pm), PM_MM));
        }
        for (number, ring) in self.rings.iter().enumerate() {
            let [x, y] = onto_disc(disc, [ring.x.into(), ring.y.into()]);
            let radius = f64::from(ring.radius);
            chart.x.range.start = chart.x.range.start.min(x - radius);
            chart.x.range.end = chart.x.range.end.max(x + radius);
            chart.y.range.start = chart.y.range.start.min(y - radius);
            chart.y.range.end = chart.y.range.end.max(y + radius);
            chart.marks.push(circle(Paint::Outline, colour(number), (x, y), radius));
        }
        chart
    }

    /// The ring that is nearest to a photomultiplier, if one is near.
    fn ring_of(&self, pm: Pm) -> Option<usize> {
        let [x, y] = pm.position();
        let distance = |ring: &Ring| {
            ((x - f64::from(ring.x)).hypot(y - f64::from(ring.y)) - f64::from(ring.radius)).abs()
        };
        let rings = self.rings.iter().map(distance).enumerate();
        let near = rings.filter(|(_, distance)| *distance <= NEAR_MM);
        near.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(number, _)| number)
    }
}
