//! How fast muons and showers are found in the hits of a detector of optical modules, and how many.

mod content;

use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use gannet_dune::tpg::IsaChoice;
use gannet_emulate::km3::EventKind;
use gannet_kernels::clusters::light::{Between, Point, Track};
use gannet_kernels::clusters::{
    EventFinder, ModuleHit, Muon, Shower, Triggered, Triggers, directions,
};
use gannet_wire::km3net::SLICE_NS;
use gannet_wire::km3net::daq::trigger_bit;
use gannet_wire::km3net::detector_file::Lattice;
use serde::{Deserialize, Serialize};

use self::content::Content;
pub use crate::coincidences::Error;
use crate::cores::Cores;
use crate::sys::read::Way;

/// Least number of passes of each.
const PASSES_MIN: usize = 5;
/// Hits that the plain loop is given: it is slow.
const PLAIN_HITS: usize = 2000;
/// Hits that are handed over at a time.
const BATCH: usize = 512;
/// Hits of L1, and modules that have them, from which on an event is expected to be found.
pub const EXPECTED: (usize, usize) = (10, 5);

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finder {
    /// Muons.
    Muon,
    /// Showers.
    Shower,
    /// Both.
    Events,
}

impl Finder {
    fn triggers(self) -> Triggers {
        let (muon, shower) = (Some(Muon::default()), Some(Shower::default()));
        match self {
            Self::Muon => Triggers { muon, shower: None },
            Self::Shower => Triggers { muon: None, shower },
            Self::Events => Triggers { muon, shower },
        }
    }
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct ClustersPlan {
    /// The finder.
    pub finder: Finder,
    /// The instruction set.
    pub isa: IsaChoice,
    /// Strings of the detector, of 18 modules each.
    pub strings: usize,
    /// Most time between hits of L1, ns.
    pub window_ns: u32,
    /// Hits of a photomultiplier in a second.
    pub rate_hz: f64,
    /// Muons, and showers, in a second.
    pub light_hz: [f64; 2],
    /// Number of slices of the detector.
    pub slices: usize,
    /// Length of the measurement.
    pub time: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct ClustersReport {
    /// The finder.
    pub finder: Finder,
    /// Instruction set.
    pub isa: &'static str,
    /// Modules of the detector.
    pub modules: usize,
    /// Slices of the detector.
    pub slices: usize,
    /// Hits of L1 in a slice, on average.
    pub hits_per_slice: f64,
    /// Hits of L1 a second on one core, the median of the passes.
    pub hits_per_s: f64,
    /// The slowest and the fastest pass.
    pub hits_per_s_range: [f64; 2],
    /// Hits of L1 a second of a plain loop over all hits of a window, in the same run.
    pub plain_per_s: f64,
    /// Hits a second that are only read, in the same run.
    pub limit_per_s: f64,
    /// The finder's rate as a part of reading.
    pub ratio: f64,
    /// Cores that the finder takes to keep up with the detector.
    pub cores: f64,
    /// Passes of each.
    pub passes: usize,
    /// Events found.
    pub events: usize,
    /// Of these, such without a hit of a muon or shower that was generated.
    pub of_noise: usize,
    /// Generated muons of [`EXPECTED`] hits and modules or more, and those found.
    pub muons: [usize; 2],
    /// Generated showers, as for muons.
    pub showers: [usize; 2],
}

/// Measures on a thread of its own, kept on one core where that is permitted.
///
/// # Errors
/// When the plan cannot be carried out.
pub fn measure(plan: &ClustersPlan) -> Result<ClustersReport, Error> {
    let on_core = || {
        Cores::usable().pin(0);
        measure_here(plan)
    };
    thread::scope(|scope| match scope.spawn(on_core).join() {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn measure_here(plan: &ClustersPlan) -> Result<ClustersReport, Error> {
    let lattice = Lattice { strings: plan.strings, ..Lattice::default() };
    let content = Content::generate(plan, lattice)?;
    let triggers = plan.finder.triggers();
    let mut finder = EventFinder::new(&content.positions, &triggers, plan.isa.isa())?;
    let mut found: Vec<(u64, Vec<Triggered>)> = Vec::new();
    find(&mut finder, &content.hits, |mask, hits| found.push((mask, hits.to_vec())));
    let (mut finding, mut plainly, mut reading) = (Vec::new(), Vec::new(), Vec::new());
    let bytes: Vec<u8> = content.hits.iter().flat_map(bytes).collect();
    let windows = finder.windows_ns();
    let few = &content.hits[..content.hits.len().min(PLAIN_HITS)];
    let begin = Instant::now();
    // The three take turns, so that what disturbs one disturbs the others. The first pass warms up.
    while finding.len() <= PASSES_MIN || begin.elapsed() < plan.time {
        finding.push(timed(|| {
            find(&mut finder, &content.hits, |mask, _| _ = black_box(mask));
        }));
        plainly.push(timed(|| _ = black_box(plain(&content.positions, &triggers, windows, few))));
        reading.push(timed(|| _ = black_box(Way::Plain.sum(black_box(&bytes)))));
    }
    let [finding, plainly, reading] = [finding, plainly, reading].map(|mut times| {
        times.remove(0);
        times.sort_unstable_by(f64::total_cmp);
        times
    });
    let per_s = |seconds: f64| content.hits.len() as f64 / seconds;
    let hits_per_s = per_s(finding[finding.len() / 2]);
    let limit_per_s = per_s(reading[0]);
    let seconds = (plan.slices as u64 * SLICE_NS) as f64 * 1e-9;
    let of = |kind, bit: u32, least| {
        let is_found = |hits: &[ModuleHit]| {
            found.iter().filter(|(mask, _)| mask >> bit & 1 == 1).any(|(_, event)| {
                let marked = event.iter().filter(|it| it.mask >> bit & 1 == 1);
                marked.filter(|it| hits.binary_search(&it.hit).is_ok()).count() >= least
            })
        };
        let expected = content.expected(kind);
        [expected.len(), expected.into_iter().filter(|hits| is_found(hits)).count()]
    };
    let is_light = |it: &Triggered| content.light.binary_search(&it.hit).is_ok();
    Ok(ClustersReport {
        finder: plan.finder,
        isa: plan.isa.isa().name(),
        modules: content.positions.len(),
        slices: plan.slices,
        hits_per_slice: content.hits.len() as f64 / plan.slices as f64,
        hits_per_s,
        hits_per_s_range: [per_s(finding[finding.len() - 1]), per_s(finding[0])],
        plain_per_s: few.len() as f64 / plainly[plainly.len() / 2],
        limit_per_s,
        ratio: hits_per_s / limit_per_s,
        cores: content.hits.len() as f64 / hits_per_s / seconds,
        passes: finding.len(),
        events: found.len(),
        of_noise: found.iter().filter(|(_, event)| !event.iter().any(is_light)).count(),
        muons: of(EventKind::Muon, trigger_bit::MUON, Muon::default().hits),
        showers: of(EventKind::Shower, trigger_bit::SHOWER, Shower::default().hits),
    })
}

/// Hands the hits over in batches.
fn find(finder: &mut EventFinder, hits: &[ModuleHit], mut event: impl FnMut(u64, &[Triggered])) {
    for batch in hits.chunks(BATCH) {
        batch.iter().for_each(|&hit| finder.push(hit));
        let to = batch.last().map_or(0, |hit| hit.time);
        finder.advance(to, |found| event(found.mask, found.hits));
    }
    finder.finish(|found| event(found.mask, found.hits));
}

/// A plain loop: how many hits have enough others after them that match, asked for a shower and in
/// each direction.
fn plain(
    positions: &[[f64; 3]],
    triggers: &Triggers,
    [muon_ns, shower_ns]: [u64; 2],
    hits: &[ModuleHit],
) -> usize {
    let mut found = 0;
    let shower = triggers.shower.map(|rule| (rule, Point::new(rule.distance_m, rule.extra_ns)));
    let muon = triggers.muon.map(|rule| {
        let directions = directions::grid(rule.spacing);
        let directions = directions.into_iter().map(|direction| direction.map(|it| it as f32));
        (rule, Track::new(rule.road_m, rule.extra_ns), directions.collect::<Vec<_>>())
    });
    for (first, rest) in (1..).map_while(|next| Some((hits.get(next - 1)?, &hits[next..]))) {
        let after = |window_ns: u64| -> Vec<Between> {
            let inside = rest.iter().take_while(|hit| hit.time - first.time <= window_ns);
            inside.map(|hit| between(positions, first, hit)).collect()
        };
        if let Some((rule, point)) = &shower {
            let matching = after(shower_ns).iter().filter(|it| point.matches(**it)).count();
            found += usize::from(matching + 1 >= rule.hits);
        }
        if let Some((rule, track, directions)) = &muon {
            let after = after(muon_ns);
            for &direction in directions {
                let matching = after.iter().filter(|it| track.matches(direction, **it)).count();
                found += usize::from(matching + 1 >= rule.hits);
            }
        }
    }
    found
}

fn between(positions: &[[f64; 3]], from: &ModuleHit, to: &ModuleHit) -> Between {
    let [a, b] = [from, to].map(|hit| positions[hit.module as usize]);
    let way = core::array::from_fn(|axis| (b[axis] - a[axis]) as f32);
    Between { way, time: (to.time - from.time) as f32 }
}

/// Sixteen bytes, as a hit takes.
fn bytes(hit: &ModuleHit) -> [u8; 16] {
    let place = u64::from(hit.module) << 16 | u64::from(hit.channel) << 8;
    let (time, rest) = (hit.time, place | u64::from(hit.time_over_threshold));
    (u128::from(time) | u128::from(rest) << 64).to_le_bytes()
}

/// Time of the work, s.
fn timed(work: impl FnOnce()) -> f64 {
    let begin = Instant::now();
    work();
    begin.elapsed().as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(finder: Finder, isa: IsaChoice) -> ClustersReport {
        measure(&ClustersPlan {
            finder,
            isa,
            strings: 14,
            window_ns: 10,
            rate_hz: 7000.0,
            light_hz: [300.0, 300.0],
            slices: 3,
            time: Duration::ZERO,
        })
        .unwrap()
    }

    #[test]
    fn muons_and_showers_are_found_in_noise_and_little_else() {
        let report = report(Finder::Events, IsaChoice::Auto);
        let [muons, found] = report.muons;
        assert!(muons > 50 && found * 100 >= muons * 99, "{found} of {muons} muons");
        let [showers, found] = report.showers;
        assert!(showers > 15 && found * 100 >= showers * 95, "{found} of {showers} showers");
        assert!(report.of_noise < report.events / 5, "{report:?}");
    }

    #[test]
    fn the_instruction_set_changes_nothing_of_what_is_found() {
        let [auto, scalar] =
            [IsaChoice::Auto, IsaChoice::Scalar].map(|isa| report(Finder::Muon, isa));
        assert_eq!((auto.events, auto.muons), (scalar.events, scalar.muons));
        assert_eq!(auto.showers[1], 0);
    }
}
