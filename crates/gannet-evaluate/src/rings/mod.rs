//! How fast rings are found in events in memory, how many of the true ones, and how many that are none.

pub(crate) mod events;
mod plain;
mod quality;

use std::hint::black_box;
use std::io;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use gannet_dune::tpg::IsaChoice;
use gannet_emulate::rich::config::Content;
use gannet_kernels::IsaError;
use gannet_kernels::rings::{Counts, Found, Method, MultiRing, Positions, SingleRing};
use gannet_wire::na62::PmMap;
use serde::{Deserialize, Serialize};

use self::events::Events;
use self::plain::Plain;
pub use self::quality::{CENTRE_MAX, HITS_MIN, Quality, RADIUS_MAX};
use crate::cores::{self, Cores};
use crate::sys::read::Way;

/// Events of a buffer, which are found at a time.
pub const BUFFER_EVENTS: usize = 1024;
/// Most events that are generated.
pub const EVENTS_MAX: usize = 10_000_000;
/// Single rings without noise by which the resolution is judged.
const SINGLE_RINGS: usize = 20_000;
/// Seeds of the events and of the single rings.
const SEEDS: [u64; 2] = [1, 2];
/// Least number of passes of each.
const PASSES_MIN: usize = 5;

/// Why the experiment cannot be made, or came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks the instruction set.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        cause: io::Error,
    },
    /// A file has something that is no event.
    #[error("{}: no event {event} (from 0) at byte {at}: no delimiter, or the file ends in it", path.display())]
    Events {
        /// The file.
        path: PathBuf,
        /// Events before it.
        event: usize,
        /// Where it should begin.
        at: usize,
    },
    /// A line of a table of rings is none.
    #[error("{}:{line}: a line is event,x,y,radius or event,x,y,radius,hits, of an event there is", path.display())]
    Truth {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
    },
    /// There is no event.
    #[error("there is no event to look for rings in")]
    Empty,
    /// The recorded events have no times of hits.
    #[error("recorded events have no times of hits; leave one of the two out")]
    NoTimes,
}

/// What finds rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finder {
    /// One ring an event.
    Single,
    /// Up to five rings an event.
    Multi,
}

/// How the finder of one ring fits it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fit {
    /// Linear least squares.
    Kasa,
    /// With Taubin's constraint.
    Taubin,
}

/// Recorded events and their truth.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// M2EGP, back to back.
    pub events: PathBuf,
    /// Table of rings: `event,x,y,radius[,hits]`, in mm, events from 0.
    pub truth: PathBuf,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct RingsPlan {
    /// The finder.
    pub finder: Finder,
    /// How one ring is fitted.
    pub fit: Fit,
    /// The instruction set.
    pub isa: IsaChoice,
    /// Whether the finder of several is told the times of hits.
    pub times: bool,
    /// Number of generated events.
    pub count: usize,
    /// Recorded events in their place.
    pub recorded: Option<Recorded>,
    /// Which channel reads which photomultiplier.
    pub map: PmMap,
    /// Length of the measurement.
    pub time: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct RingsReport {
    /// The finder.
    pub finder: Finder,
    /// How one ring is fitted.
    pub fit: Fit,
    /// Instruction set.
    pub isa: &'static str,
    /// Whether hits had times.
    pub times: bool,
    /// Events.
    pub events: usize,
    /// Hits of an event, on average.
    pub hits_per_event: f64,
    /// Bytes of an event, on average.
    pub bytes_per_event: f64,
    /// Events a second on one core, the median of the passes.
    pub events_per_s: f64,
    /// The slowest and the fastest pass.
    pub events_per_s_range: [f64; 2],
    /// Events a second of the plain loop for one ring in the same run.
    pub plain_per_s: f64,
    /// Events a second whose bytes are only read, in the same run.
    pub limit_per_s: f64,
    /// The finder's rate as a part of reading.
    pub ratio: f64,
    /// The finder's rate as a multiple of the plain loop's.
    pub times_plain: f64,
    /// Passes of each.
    pub passes: usize,
    /// Rings found.
    pub rings: usize,
    /// How good the finder is on these events.
    #[serde(flatten)]
    pub quality: Quality,
    /// The same on generated single rings without noise.
    pub single_rings: Quality,
    /// Hits on channels that read nothing.
    pub dead_hits: u64,
    /// Hits of numbers that are no channel's.
    pub unknown_channels: u64,
    /// Events whose boards do not add up.
    pub board_counts_wrong: u64,
}

/// A finder that is set up.
pub(crate) enum Ready {
    Single(SingleRing),
    Multi(MultiRing),
}

impl Ready {
    pub fn new(finder: Finder, fit: Fit, isa: IsaChoice, map: &PmMap) -> Result<Self, IsaError> {
        let position = |channel| Some(map.position(channel)?.map(|x| x as f32));
        let positions = Positions::new(position);
        let isa = isa.isa();
        let method = match fit {
            Fit::Kasa => Method::Kasa,
            Fit::Taubin => Method::Taubin,
        };
        Ok(match finder {
            Finder::Single => Self::Single(SingleRing::new(&positions, method, isa)?),
            Finder::Multi => Self::Multi(MultiRing::new(&positions, isa)?),
        })
    }

    pub fn find(&mut self, m2egp: &[u8], times: Option<&[u8]>, found: &mut Found) {
        match (self, times) {
            (Self::Single(finder), _) => finder.find(m2egp, found),
            (Self::Multi(finder), None) => finder.find(m2egp, found),
            (Self::Multi(finder), Some(times)) => finder.find_with_times(m2egp, times, found),
        }
    }
}

/// Bytes of so many events, and the times of their hits.
type Buffer<'a> = (&'a [u8], &'a [u8]);

/// Measures on a thread of its own, kept on one core where that is permitted.
///
/// # Errors
/// When the plan cannot be carried out.
pub fn measure(plan: &RingsPlan) -> Result<RingsReport, Error> {
    let on_core = || {
        Cores::usable().pin(0);
        measure_here(plan)
    };
    thread::scope(|scope| match scope.spawn(on_core).join() {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn measure_here(plan: &RingsPlan) -> Result<RingsReport, Error> {
    let mut finder = Ready::new(plan.finder, plan.fit, plan.isa, &plan.map)?;
    let events = match &plan.recorded {
        Some(_) if plan.times => return Err(Error::NoTimes),
        Some(Recorded { events, truth }) => Events::read(events, truth, &plan.map)?,
        None => Events::generate(&Content::default(), &plan.map, SEEDS[0], plan.count),
    };
    if events.len() == 0 {
        return Err(Error::Empty);
    }
    let buffers = buffers(&events);
    let plain = Plain::new(&plan.map);
    let mut found = Found::default();
    let mut plain_rings = Vec::new();
    let (mut finding, mut plainly, mut reading) = (Vec::new(), Vec::new(), Vec::new());
    let begin = Instant::now();
    // The three take turns, so that what disturbs one disturbs the others. The first pass warms up.
    while finding.len() <= PASSES_MIN || begin.elapsed() < plan.time {
        finding.push(timed(|| {
            for &(m2egp, times) in &buffers {
                found.clear();
                finder.find(m2egp, plan.times.then_some(times), &mut found);
                black_box(&mut found);
            }
        }));
        plainly.push(timed(|| {
            for (m2egp, _) in &buffers {
                plain_rings.clear();
                plain.find(m2egp, &mut plain_rings);
                black_box(&mut plain_rings);
            }
        }));
        reading.push(timed(|| _ = black_box(Way::Plain.sum(black_box(&events.m2egp)))));
    }
    let per_s = |seconds: f64| events.len() as f64 / seconds;
    let [finding, plainly, reading] = [finding, plainly, reading].map(|mut times| {
        times.remove(0);
        times.sort_unstable_by(f64::total_cmp);
        times
    });
    let median = |times: &[f64]| per_s(times[times.len() / 2]);
    let (events_per_s, plain_per_s) = (median(&finding), median(&plainly));
    let limit_per_s = per_s(reading[0]);
    let (quality, rings, counts) = judge(&mut finder, &events, plan.times);
    let single = Content { rings: [0.0, 1.0, 0.0, 0.0, 0.0], noise: 0.0, ..Content::default() };
    let single = Events::generate(&single, &plan.map, SEEDS[1], SINGLE_RINGS);
    Ok(RingsReport {
        finder: plan.finder,
        fit: plan.fit,
        isa: plan.isa.isa().name(),
        times: plan.times,
        events: events.len(),
        hits_per_event: events.hits() as f64 / events.len() as f64,
        bytes_per_event: events.m2egp.len() as f64 / events.len() as f64,
        events_per_s,
        events_per_s_range: [per_s(finding[finding.len() - 1]), per_s(finding[0])],
        plain_per_s,
        limit_per_s,
        ratio: events_per_s / limit_per_s,
        times_plain: events_per_s / plain_per_s,
        passes: finding.len(),
        rings,
        quality,
        single_rings: judge(&mut finder, &single, plan.times).0,
        dead_hits: counts.dead_hits,
        unknown_channels: counts.unknown_channels,
        board_counts_wrong: counts.board_counts_wrong,
    })
}

/// What the finder finds in all events, how good that is, and the number of rings.
fn judge(finder: &mut Ready, events: &Events, times: bool) -> (Quality, usize, Counts) {
    let mut found = Found::default();
    finder.find(&events.m2egp, times.then_some(&events.times), &mut found);
    (Quality::of(&events.truth, &found), found.rings.len(), found.counts)
}

/// Cuts events into buffers.
fn buffers(events: &Events) -> Vec<Buffer<'_>> {
    let mut hits = 0;
    let cut = |first: usize| {
        let last = (first + BUFFER_EVENTS).min(events.len());
        let (start, end) = (events.starts[first], events.starts[last]);
        let starts = &events.starts[first..last];
        let of_buffer: usize = starts.iter().map(|&at| usize::from(events.m2egp[at + 5])).sum();
        let times = events.times.get(hits..hits + of_buffer).unwrap_or_default();
        hits += of_buffer;
        (&events.m2egp[start..end], times)
    };
    (0..events.len()).step_by(BUFFER_EVENTS).map(cut).collect()
}

/// Time of the work, s, without that in which the thread had no core.
fn timed(work: impl FnOnce()) -> f64 {
    let (begin, before) = (Instant::now(), cores::waited());
    work();
    let waited = cores::waited().saturating_sub(before);
    begin.elapsed().saturating_sub(waited).max(Duration::from_nanos(1)).as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(finder: Finder, times: bool) -> RingsPlan {
        RingsPlan {
            finder,
            fit: Fit::Taubin,
            isa: IsaChoice::Auto,
            times,
            count: 3000,
            recorded: None,
            map: PmMap::numbered(),
            time: Duration::ZERO,
        }
    }

    #[test]
    fn single_rings_are_as_sharp_as_the_lattice_allows() {
        let report = measure(&plan(Finder::Single, false)).unwrap();
        assert!(report.single_rings.radius_sigma_mm <= 1.5, "{:?}", report.single_rings);
        assert!(report.single_rings.centre_median_mm <= 2.4, "{:?}", report.single_rings);
        assert!(report.single_rings.efficiency > 0.99);
        assert_eq!((report.events, report.dead_hits, report.unknown_channels), (3000, 0, 0));
    }

    #[test]
    fn several_rings_are_found_and_times_tell_more_of_them_apart() {
        let report = measure(&plan(Finder::Multi, false)).unwrap();
        assert!(report.quality.efficiency >= 0.93 && report.quality.purity >= 0.95, "{report:?}");
        let with_times = measure(&plan(Finder::Multi, true)).unwrap();
        let (without, with) = (report.quality, with_times.quality);
        assert!(with.efficiency >= 0.95 && with.purity >= 0.97, "{with:?}");
        assert!(with.efficiency > without.efficiency && with.purity > without.purity);
    }

    #[test]
    fn buffers_have_all_events_and_the_times_of_their_hits() {
        let events = Events::generate(&Content::default(), &PmMap::numbered(), 1, 2500);
        let buffers = buffers(&events);
        assert_eq!(buffers.len(), 3);
        assert_eq!(buffers.iter().map(|buffer| buffer.0.len()).sum::<usize>(), events.m2egp.len());
        let times: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.1).copied().collect();
        assert_eq!(times, events.times);
    }
}
