//! How fast one core, or several, find trigger primitives in frames that lie in memory, and how
//! fast the same memory can be read.
//!
//! Several searches, by other chains, instruction sets or forms of the kernels, share the frames.
//! Passes of all of them and of reading take turns, and medians are taken, so that what disturbs
//! the machine disturbs all alike. Each thread stays on a core of its own where that is permitted.
//! Whether the instruction set finds what the scalar chain finds is tested beforehand; every pass
//! must find the same number of primitives.

mod comparison;
mod content;
mod finder;
mod format;
mod passes;
mod plot;
mod protowib;
mod report;
mod wibeth;
mod workers;
mod working_set;

use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use gannet_dune::tpg::{Chain, IsaChoice};
use gannet_kernels::tpg::Ahead;
use gannet_kernels::{Isa, IsaError};
use gannet_measure::quantity::Bytes;
use gannet_memory::{RegionError, headroom};
use serde::{Deserialize, Serialize};

use self::content::Content;
use self::finder::Setup;
use self::format::Format;
use self::passes::Passes;
use self::protowib::ProtoWib;
use self::report::{Measured, Point};
use self::wibeth::WibEth;
use self::workers::{Load, Work, Workers};
use crate::cores::Cores;
use crate::sys;

pub use self::comparison::{Compared, Comparison, Conditions, Earlier, Figure, TOLERANCE};
pub use self::content::HIT_RATE_MAX_HZ;
pub use self::format::FrameFormat;
pub use self::plot::{PlotError, is_drawable, svg};
pub use self::report::{TpgReport, TpgResult};
pub use self::working_set::WorkingSet;
pub use crate::sys::read::Way;

/// Most searches that take turns.
pub const SEARCHES_MAX: usize = 256;
/// Most streams of a thread.
pub const STREAMS_MAX: usize = 512;
/// Most threads.
pub const THREADS_MAX: usize = 1024;
/// Largest working set of a thread.
pub const WORKING_SET_MAX: Bytes = Bytes(1 << 40);
/// Largest threshold, ADC counts.
pub const THRESHOLD_MAX: u16 = i16::MAX as u16;

/// Frames of a thread that differ from each other, where its memory holds so many: too many for
/// a branch predictor to learn.
const DISTINCT_FRAMES: usize = 3200;
/// Why the experiment cannot be made, or came to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kernels refuse the chain or the instruction set.
    #[error(transparent)]
    Kernels(#[from] gannet_kernels::tpg::Error),
    /// The memory of the frames cannot be had.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// Less memory is free than the frames take.
    #[error("the frames of all threads take {needed}, but only {free} of memory are free")]
    Full {
        /// Memory of all threads.
        needed: Bytes,
        /// Memory that can be had without pushing anything out.
        free: Bytes,
    },
    /// More threads than the machine runs at a time.
    #[error("{asked} threads were asked for; this machine runs {available} at a time")]
    Threads {
        /// Threads asked for.
        asked: usize,
        /// Threads that run at a time.
        available: usize,
    },
    /// A number of the plan is out of its range.
    #[error("{what} = {got} is out of range; choose {allowed}")]
    OutOfRange {
        /// What the number is.
        what: &'static str,
        /// The number.
        got: String,
        /// What it may be.
        allowed: String,
    },
    /// An instruction set finds other primitives than the scalar chain.
    #[error(
        "frame {frame}: the primitives found with {isa} are not those of the scalar chain; please \
         report it"
    )]
    Differs {
        /// The instruction set.
        isa: Isa,
        /// Number of the first such frame in the memory of a thread.
        frame: usize,
    },
    /// Two passes over the same frames from the same state found different numbers of primitives.
    #[error(
        "a pass found {second} primitives where the one before found {first} in the same frames; \
         the memory or the program is not sound"
    )]
    Uneven {
        /// Primitives of a pass.
        first: u64,
        /// Primitives of a later pass.
        second: u64,
    },
    /// A thread stopped on an internal error.
    #[error("a thread of the experiment stopped on an internal error; please report it")]
    Defect,
}

/// What is measured: every hit rate with every working set, each by every search.
#[derive(Clone, Debug)]
pub struct TpgPlan {
    /// The searches that take turns; at least one.
    pub searches: Vec<TpgSearch>,
    /// Format of the frames.
    pub format: FrameFormat,
    /// Hits a second on each channel, `0..=`[`HIT_RATE_MAX_HZ`].
    pub hit_rates_hz: Vec<f64>,
    /// Memory of a thread.
    pub working_sets: Vec<WorkingSet>,
    /// Threads that search at the same time, each in its own memory.
    pub threads: usize,
    /// Streams of a thread, each with its own chain; their frames lie in turn.
    pub streams: usize,
    /// A sample belongs to a hit when it is above this; ADC counts, at most [`THRESHOLD_MAX`].
    pub threshold: u16,
    /// Length of the measurement of one search, without preparation. Three passes of each kind are
    /// made even if they take longer.
    pub time: Duration,
}

/// A way to search the frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TpgSearch {
    /// Steps between the samples and the threshold.
    pub chain: Chain,
    /// Instruction set of the kernels.
    pub isa: IsaChoice,
    /// Form of the vector kernels.
    pub path: PathChoice,
}

/// Form of the vector kernels. All give the same primitives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathChoice {
    /// The one that suits the hits of the frames before.
    #[default]
    Adaptive,
    /// The one for rare hits.
    Sparse,
    /// The one for frequent hits.
    Dense,
}

impl Default for TpgPlan {
    /// The setting of the published comparison: 100 hits a second on each channel, 512 MiB,
    /// threshold 60.
    fn default() -> Self {
        Self {
            searches: vec![TpgSearch::default()],
            format: FrameFormat::default(),
            hit_rates_hz: vec![100.0],
            working_sets: vec![WorkingSet::Size(Bytes::mib(512))],
            threads: 1,
            streams: 1,
            threshold: 60,
            time: Duration::from_secs(1),
        }
    }
}

/// How far the experiment is.
#[derive(Clone, Copy, Debug)]
pub enum Step<'a> {
    /// Frames are laid out in the memory of all threads.
    Preparing {
        /// Bytes laid out so far.
        done: u64,
        /// Bytes to be laid out.
        total: u64,
    },
    /// Memory is laid out, and passes are made.
    Measuring,
    /// A point is done; what came of a search there.
    Measured(&'a TpgResult),
}

/// Makes the experiment; `progress` hears of every step.
///
/// # Errors
/// When a number of the plan is out of range, when the machine lacks the instruction set, the
/// threads or the memory, or when primitives are not what they must be.
pub fn measure(plan: &TpgPlan, progress: &mut dyn FnMut(Step<'_>)) -> Result<TpgReport, Error> {
    match plan.format {
        FrameFormat::WibEth => measure_all::<WibEth>(plan, progress),
        FrameFormat::ProtoWib => measure_all::<ProtoWib>(plan, progress),
    }
}

/// Measures every hit rate with every working set.
fn measure_all<F: Format>(
    plan: &TpgPlan,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<TpgReport, Error> {
    check(plan, F::FRAME_LEN)?;
    let cycles_per_s = sys::cycles_per_s();
    let mut results = Vec::new();
    for set in &plan.working_sets {
        let mut fastest = None;
        for &hit_rate_hz in &plan.hit_rates_hz {
            let point = Point { working_set: set.bytes(), hit_rate_hz };
            let measured = measure_one::<F>(plan, &point, fastest, progress)?;
            // How memory is read and fetched fastest does not depend on what is in it.
            fastest = Some((measured.way, measured.ahead));
            let of_point = measured.results(plan, &point, cycles_per_s);
            of_point.iter().for_each(|result| progress(Step::Measured(result)));
            results.extend(of_point);
        }
    }
    let only = (results.len() == 1).then(|| results[0].clone());
    Ok(TpgReport { only, results })
}

/// Tests that the plan can be made on this machine.
fn check(plan: &TpgPlan, frame_len: usize) -> Result<(), Error> {
    within("searches", plan.searches.len(), 1, SEARCHES_MAX)?;
    for isa in plan.searches.iter().map(|search| search.isa.isa()) {
        if !isa.is_available() {
            let unavailable = IsaError::Unavailable { isa, best: Isa::best() };
            return Err(Error::Kernels(unavailable.into()));
        }
    }
    within("threads", plan.threads, 1, THREADS_MAX)?;
    let available = thread::available_parallelism().map_or(1, usize::from);
    if plan.threads > available {
        return Err(Error::Threads { asked: plan.threads, available });
    }
    within("streams", plan.streams, 1, STREAMS_MAX)?;
    within("threshold", plan.threshold, 0, THRESHOLD_MAX)?;
    for &hz in &plan.hit_rates_hz {
        within("hit rate in Hz", hz, 0.0, HIT_RATE_MAX_HZ)?;
    }
    let least = Bytes((plan.streams * frame_len) as u64);
    for set in &plan.working_sets {
        within("working set", set.bytes(), least, WORKING_SET_MAX)?;
        let needed = Bytes(set.bytes().0 * plan.threads as u64);
        // The system would rather end a program than refuse it memory.
        if let Some(room) = headroom().filter(|room| room.bytes < needed.0) {
            let free = Bytes::mib(room.bytes >> 20);
            return Err(Error::Full { needed, free });
        }
    }
    Ok(())
}

fn within<T: PartialOrd + ToString>(
    what: &'static str,
    got: T,
    least: T,
    most: T,
) -> Result<(), Error> {
    if (&least..=&most).contains(&&got) {
        return Ok(());
    }
    let allowed = format!("{} to {}", least.to_string(), most.to_string());
    Err(Error::OutOfRange { what, got: got.to_string(), allowed })
}

/// Measures one hit rate with one working set; `fastest` is how to read and fetch, if it is known.
fn measure_one<F: Format>(
    plan: &TpgPlan,
    point: &Point,
    fastest: Option<(Way, Ahead)>,
    progress: &mut dyn FnMut(Step<'_>),
) -> Result<Measured, Error> {
    let frames = point.working_set.0 as usize / F::FRAME_LEN / plan.streams * plan.streams;
    let load = Load {
        searches: plan.searches.iter().map(|one| Setup::new::<F>(one, plan.threshold)).collect(),
        streams: plan.streams,
        frames,
        distinct: frames.min(DISTINCT_FRAMES.next_multiple_of(plan.streams)),
        content: Content::new(point.hit_rate_hz, F::SAMPLES_PER_S),
        cores: Cores::usable(),
        laid_out: AtomicU64::new(0),
    };
    thread::scope(|scope| {
        let (workers, ready) = Workers::start::<F>(scope, plan.threads, &load, progress)?;
        progress(Step::Measuring);
        let (way, ahead) = match fastest {
            Some((way, ahead)) => {
                workers.pass(workers.all(), Work::Fetch(ahead), 1)?;
                (way, ahead)
            }
            None => {
                let way = passes::fastest_way(&workers, plan.time)?;
                let vector = plan.searches.iter().position(|one| one.isa.isa() != Isa::Scalar);
                (way, passes::fetch_fastest(&workers, vector, plan.time)?)
            }
        };
        let passes = Passes::make(&workers, plan.searches.len(), way, plan.time)?;
        Ok(Measured {
            frame_bytes: F::FRAME_LEN,
            frame_samples: F::ALL_SAMPLES,
            occupancy: content::occupancy(point.hit_rate_hz, F::SAMPLES_PER_S),
            frames,
            distinct: load.distinct,
            ready,
            way,
            ahead,
            passes,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> TpgPlan {
        TpgPlan {
            working_sets: vec![WorkingSet::Size(Bytes::mib(1))],
            time: Duration::from_millis(5),
            ..TpgPlan::default()
        }
    }

    #[test]
    fn every_hit_rate_is_measured_with_every_working_set() {
        let plan = TpgPlan {
            hit_rates_hz: vec![10e3, 90e3],
            working_sets: vec![WorkingSet::Size(Bytes(144_000)), WorkingSet::Size(Bytes::mib(1))],
            streams: 3,
            ..tiny()
        };
        let mut heard = 0;
        let count = |step: Step<'_>| heard += u32::from(matches!(step, Step::Measured(_)));
        let report = measure(&plan, &mut { count }).unwrap();
        assert!(report.only.is_none() && report.results.len() == 4 && heard == 4);
        let facts = report.results.iter().map(|r| (r.working_set_bytes, r.hit_rate_hz));
        let sizes = [144_000, 1 << 20];
        assert!(facts.eq(sizes.iter().flat_map(|&size| [(size, 10e3), (size, 90e3)])));
        for result in &report.results {
            let frames = result.working_set_bytes / 7200 / 3 * 3;
            assert_eq!(result.distinct_frames, frames);
            assert!(result.frames.is_multiple_of(frames) && result.frames > 0, "{result:?}");
            // All frames of a pass together hold this many hits, give or take few.
            let hits = result.hit_rate_hz * 64.0 * result.frames as f64 * 2048.0 / 62.5e6;
            let found = result.tps as f64 / hits;
            assert!((0.8..1.2).contains(&found), "{found} of the hits: {result:?}");
        }
    }

    #[test]
    fn what_is_laid_out_is_told_up_to_all_of_it() {
        let mut told = Vec::new();
        let plan = TpgPlan { working_sets: vec![WorkingSet::Size(Bytes::mib(4))], ..tiny() };
        let hear = |step: Step<'_>| {
            if let Step::Preparing { done, total } = step {
                told.push((done, total));
            }
        };
        measure(&plan, &mut { hear }).unwrap();
        let total = (4 << 20) / 7200 * 7200;
        assert!(told.is_sorted() && told.iter().all(|step| step.1 == total), "{told:?}");
        assert_eq!((told[0].0, told.last()), (0, Some(&(total, total))));
    }

    #[test]
    fn hits_that_take_half_of_the_samples_are_told() {
        let plan = TpgPlan { hit_rates_hz: vec![90e3, 110e3], ..tiny() };
        let results = measure(&plan, &mut |_| ()).unwrap().results;
        assert!((results[0].occupancy - 0.4608).abs() < 1e-9, "{}", results[0].occupancy);
        assert!(results[1].occupancy > 0.5);
    }

    #[test]
    fn the_figures_of_a_result_agree_with_each_other() {
        let report = measure(&tiny(), &mut |_| ()).unwrap();
        let result = report.only.unwrap();
        let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-9;
        assert!(near(result.ratio, result.gbit_per_s / result.limit_gbit_per_s));
        assert!(near(result.ns_per_frame, 57_600.0 / result.gbit_per_s));
        assert!(near(result.tps_per_frame, result.tps as f64 / result.frames as f64));
        assert!(near(result.tp_per_s, result.tps_per_frame * 1e9 / result.ns_per_frame));
        assert!(result.fetch_near >= 1536 && result.fetch_far > result.fetch_near, "{result:?}");
        assert_eq!((result.one_thread_gbit_per_s, result.scaling), (None, None));
        let around = |low: f64, middle: f64, high: f64| low <= middle && middle <= high;
        let (low, high) = (result.gbit_per_s_lowest, result.gbit_per_s_highest);
        assert!(around(low, result.gbit_per_s, high), "{result:?}");
        let (low, high) = (result.limit_gbit_per_s_lowest, result.limit_gbit_per_s_highest);
        assert!(around(low, result.limit_gbit_per_s, high), "{result:?}");
        assert!((3..=9).contains(&(result.passes + result.passes_left_out)), "{result:?}");
    }

    #[test]
    fn frames_of_twelve_bits_are_measured_too() {
        let plan = TpgPlan {
            format: FrameFormat::ProtoWib,
            hit_rates_hz: vec![50e3],
            streams: 2,
            ..tiny()
        };
        let result = measure(&plan, &mut |_| ()).unwrap().only.unwrap();
        assert_eq!((result.frame_bytes, result.distinct_frames), (5568, 188));
        let hits = 50e3 * 256.0 * result.frames as f64 * 12.0 / 2e6;
        let found = result.tps as f64 / hits;
        assert!((0.8..1.2).contains(&found), "{found} of the hits: {result:?}");
        assert!(Isa::best() == Isa::Scalar || result.verified_frames == 188);
    }

    #[test]
    fn searches_take_turns_over_the_same_frames() {
        let search = |path| TpgSearch { path, ..TpgSearch::default() };
        let paths = [PathChoice::Adaptive, PathChoice::Sparse, PathChoice::Dense].map(search);
        let scalar = TpgSearch { isa: IsaChoice::Scalar, ..TpgSearch::default() };
        let other = TpgSearch { chain: Chain::AbsRs, ..TpgSearch::default() };
        let searches = [&paths[..], &[scalar, other]].concat();
        let plan = TpgPlan { searches: searches.clone(), hit_rates_hz: vec![90e3], ..tiny() };
        let results = measure(&plan, &mut |_| ()).unwrap().results;
        let asked = searches.iter().map(|one| (one.chain, one.isa.isa().name(), one.path));
        assert!(results.iter().map(|one| (one.chain, one.isa, one.path)).eq(asked));
        let found: Vec<f64> = results.iter().map(|one| one.tps_per_frame.round()).collect();
        assert!(found[0] > 0.0 && found[..4].iter().all(|tps| *tps == found[0]), "{found:?}");
        assert_ne!(found[4], found[0], "running sums join hits");
        assert_eq!(results[3].verified_frames, 0, "nothing to compare the scalar chain with");
        assert!(results.iter().all(|one| one.limit_gbit_per_s == results[0].limit_gbit_per_s));
    }

    #[test]
    fn threads_are_compared_with_one_alone() {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(2);
        let report = measure(&TpgPlan { threads, ..tiny() }, &mut |_| ()).unwrap();
        let result = &report.results[0];
        assert_eq!(result.scaling.is_some(), threads > 1);
        let mut processors = result.processors.clone();
        processors.dedup();
        assert!(processors.is_empty() || processors.len() == threads, "one a thread: {result:?}");
        assert!(result.frames.is_multiple_of(145 * threads as u64));
    }

    #[test]
    fn what_the_machine_lacks_is_refused_by_name() {
        let refusal = |plan: TpgPlan| measure(&plan, &mut |_| ()).unwrap_err().to_string();
        let refused = refusal(TpgPlan { threads: THREADS_MAX, ..tiny() });
        assert!(refused.starts_with("1024 threads were asked for"), "{refused}");
        let refused = refusal(TpgPlan { searches: Vec::new(), ..tiny() });
        assert_eq!(refused, "searches = 0 is out of range; choose 1 to 256");
        let refused = refusal(TpgPlan { streams: 513, ..tiny() });
        assert_eq!(refused, "streams = 513 is out of range; choose 1 to 512");
        let refused = refusal(TpgPlan { hit_rates_hz: vec![2e5], ..tiny() });
        assert_eq!(refused, "hit rate in Hz = 200000 is out of range; choose 0 to 150000");
        let working_sets = vec![WorkingSet::Size(Bytes(7199))];
        let refused = refusal(TpgPlan { working_sets, ..tiny() });
        assert!(refused.starts_with("working set = 7199 B is out of range"), "{refused}");
        let working_sets = vec![WorkingSet::Size(WORKING_SET_MAX)];
        let refused = refusal(TpgPlan { working_sets, ..tiny() });
        assert!(refused.starts_with("the frames of all threads take 1 TiB, but only"), "{refused}");
    }
}
