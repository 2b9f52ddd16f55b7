//! How fast hits of optical modules of KM3NeT are put in order in memory, and coincidences found in them.

mod content;

use std::f64::consts::PI;
use std::hint::black_box;
use std::thread;
use std::time::{Duration, Instant};

use gannet_dune::tpg::IsaChoice;
use gannet_emulate::config::ConfigError;
use gannet_kernels::IsaError;
use gannet_kernels::coincidences::supernova::coincidences;
use gannet_kernels::coincidences::{
    CalibratedHit, Coincidence, Confirmed, Counts, ModuleSlice, Partners, Rule,
};
use gannet_wire::km3net::SLICE_NS;
use serde::{Deserialize, Serialize};

pub(crate) use self::content::calibrations;
use self::content::{Content, Sent};
use crate::cores::Cores;
use crate::sys::read::Way;

/// Most slices that are generated.
pub const SLICES_MAX: usize = 100_000;
/// Least number of photomultipliers of a coincidence for supernovae.
pub const MULTIPLICITY_MIN: u32 = 4;
/// Least number of passes of each.
const PASSES_MIN: usize = 5;

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The machine lacks the instruction set.
    #[error(transparent)]
    Isa(#[from] IsaError),
    /// Modules cannot send such hits.
    #[error(transparent)]
    Content(#[from] ConfigError),
}

/// What is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finder {
    /// Hits that any other photomultiplier of the module confirms.
    L1,
    /// Hits that one with nearly the same direction confirms.
    L2,
    /// Coincidences of 4 photomultipliers or more.
    Supernova,
}

/// What is to be measured.
#[derive(Clone, Debug)]
pub struct CoincidencesPlan {
    /// The finder.
    pub finder: Finder,
    /// The instruction set.
    pub isa: IsaChoice,
    /// Most time between hits, ns.
    pub window_ns: u32,
    /// Most angle between photomultipliers of L2, degrees.
    pub angle_deg: f64,
    /// Hits of a photomultiplier in a second.
    pub rate_hz: f64,
    /// Whether the hits of a slice come in random order.
    pub shuffled: bool,
    /// Number of slices of a module.
    pub slices: usize,
    /// Length of the measurement.
    pub time: Duration,
}

/// What was measured.
#[derive(Clone, Debug, Serialize)]
pub struct CoincidencesReport {
    /// The finder.
    pub finder: Finder,
    /// Instruction set.
    pub isa: &'static str,
    /// Most time between hits, ns.
    pub window_ns: u32,
    /// Whether the hits of a slice come in random order.
    pub shuffled: bool,
    /// Slices of a module.
    pub slices: usize,
    /// Hits of a slice, on average.
    pub hits_per_slice: f64,
    /// Hits a second from packets to coincidences on one core, the median of the passes.
    pub hits_per_s: f64,
    /// The slowest and the fastest pass.
    pub hits_per_s_range: [f64; 2],
    /// Hits a second that are only unpacked, calibrated and sorted, in the same run.
    pub plain_per_s: f64,
    /// Hits a second whose bytes are only read, in the same run.
    pub limit_per_s: f64,
    /// The finder's rate as a part of reading.
    pub ratio: f64,
    /// Time of the finder as a multiple of that of unpacking and sorting alone.
    pub times_plain: f64,
    /// Passes of each.
    pub passes: usize,
    /// Hits confirmed, or coincidences for supernovae, in all slices.
    pub found: usize,
    /// Hits on channels that are none.
    pub unknown_channel: u64,
    /// Hits not within the slice.
    pub beyond_slice: u64,
    /// Hits that there was no room for.
    pub overflow: u64,
}

/// A finder that is set up, with room for what it finds.
enum Ready {
    Confirmed(Vec<Confirmed>, Vec<CalibratedHit>),
    Supernova(u32, Vec<Coincidence>),
}

impl Ready {
    fn new(plan: &CoincidencesPlan, axes: &[Vec<[f64; 3]>]) -> Result<Self, IsaError> {
        let (window_ns, isa) = (plan.window_ns, plan.isa.isa());
        let angle = plan.angle_deg * PI / 180.0;
        let finder = |axes: &Vec<[f64; 3]>| {
            let partners = match plan.finder {
                Finder::L2 => Partners::within(axes, angle),
                Finder::L1 | Finder::Supernova => Partners::all(),
            };
            Confirmed::new(Rule { window_ns, partners }, isa)
        };
        Ok(match plan.finder {
            Finder::Supernova => Self::Supernova(window_ns, Vec::new()),
            Finder::L1 | Finder::L2 => {
                Self::Confirmed(axes.iter().map(finder).collect::<Result<_, _>>()?, Vec::new())
            }
        })
    }

    /// Number of coincidences found.
    fn find(&mut self, module: usize, hits: &[CalibratedHit]) -> usize {
        match self {
            Self::Confirmed(finders, found) => {
                found.clear();
                finders[module].find(hits, found);
                black_box(found).len()
            }
            Self::Supernova(window_ns, found) => {
                found.clear();
                coincidences(hits, *window_ns, MULTIPLICITY_MIN, found);
                black_box(found).len()
            }
        }
    }
}

/// Measures on a thread of its own, kept on one core where that is permitted.
///
/// # Errors
/// When the plan cannot be carried out.
pub fn measure(plan: &CoincidencesPlan) -> Result<CoincidencesReport, Error> {
    let on_core = || {
        Cores::usable().pin(0);
        measure_here(plan)
    };
    thread::scope(|scope| match scope.spawn(on_core).join() {
        Ok(report) => report,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}

fn measure_here(plan: &CoincidencesPlan) -> Result<CoincidencesReport, Error> {
    let mut slice = ModuleSlice::new(SLICE_NS as u32, plan.isa.isa())?;
    let content = Content::generate(plan.rate_hz, plan.slices, plan.shuffled)?;
    let mut finder = Ready::new(plan, &content.axes)?;
    let (mut finding, mut plainly, mut reading) = (Vec::new(), Vec::new(), Vec::new());
    let mut found = 0;
    let mut counts = Counts::default();
    let begin = Instant::now();
    // The three take turns, so that what disturbs one disturbs the others. The first pass warms up.
    while finding.len() <= PASSES_MIN || begin.elapsed() < plan.time {
        finding.push(timed(|| {
            let of_slice =
                |sent: &Sent| finder.find(sent.module, sorted(&mut slice, &content, sent));
            found = content.slices.iter().map(of_slice).sum();
        }));
        if finding.len() == 1 {
            counts = slice.counts();
        }
        plainly.push(timed(|| {
            for sent in &content.slices {
                black_box(sorted(&mut slice, &content, sent));
            }
        }));
        reading.push(timed(|| _ = black_box(Way::Plain.sum(black_box(&content.bytes)))));
    }
    let [finding, plainly, reading] = [finding, plainly, reading].map(|mut times| {
        times.remove(0);
        times.sort_unstable_by(f64::total_cmp);
        times
    });
    let per_s = |seconds: f64| content.hits as f64 / seconds;
    let median = |times: &[f64]| per_s(times[times.len() / 2]);
    let (hits_per_s, plain_per_s) = (median(&finding), median(&plainly));
    let limit_per_s = per_s(reading[0]);
    let Counts { unknown_channel, beyond_slice, overflow } = counts;
    Ok(CoincidencesReport {
        finder: plan.finder,
        isa: plan.isa.isa().name(),
        window_ns: plan.window_ns,
        shuffled: plan.shuffled,
        slices: plan.slices,
        hits_per_slice: content.hits as f64 / plan.slices as f64,
        hits_per_s,
        hits_per_s_range: [per_s(finding[finding.len() - 1]), per_s(finding[0])],
        plain_per_s,
        limit_per_s,
        ratio: hits_per_s / limit_per_s,
        times_plain: plain_per_s / hits_per_s,
        passes: finding.len(),
        found,
        unknown_channel,
        beyond_slice,
        overflow,
    })
}

/// The hits of a slice, from its packets.
fn sorted<'a>(slice: &'a mut ModuleSlice, content: &Content, sent: &Sent) -> &'a [CalibratedHit] {
    slice.clear();
    for packet in &sent.packets {
        slice.add(&content.bytes[packet.clone()], &content.calibrations[sent.module]);
    }
    slice.sorted()
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

    fn found(finder: Finder, isa: IsaChoice, shuffled: bool) -> usize {
        let report = measure(&CoincidencesPlan {
            finder,
            isa,
            window_ns: 10,
            angle_deg: 90.0,
            rate_hz: 7000.0,
            shuffled,
            slices: 20,
            time: Duration::ZERO,
        });
        let report = report.unwrap();
        assert_eq!((report.unknown_channel, report.beyond_slice, report.overflow), (0, 0, 0));
        report.found
    }

    #[test]
    fn neither_the_order_of_hits_nor_the_instruction_set_changes_what_is_found() {
        let l1 = found(Finder::L1, IsaChoice::Auto, false);
        // 500 decays a second that two or more photomultipliers see, and as many pairs by chance again.
        assert!((2000..8000).contains(&l1), "{l1}");
        assert_eq!(l1, found(Finder::L1, IsaChoice::Scalar, true));
        let l2 = found(Finder::L2, IsaChoice::Auto, true);
        assert!(l2 < l1 && l2 > l1 / 2, "{l2} of {l1}");
        let supernova = found(Finder::Supernova, IsaChoice::Auto, false);
        assert!(supernova < l1 / 10, "{supernova}");
    }
}
