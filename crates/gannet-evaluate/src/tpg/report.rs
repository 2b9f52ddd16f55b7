//! The figures of the experiment.

use gannet_dune::tpg::Chain;
use gannet_kernels::tpg::Ahead;
use gannet_measure::quantity::Bytes;
use serde::Serialize;

use super::passes::Passes;
use super::workers::Ready;
use super::{FrameFormat, PathChoice, TpgPlan, TpgSearch, Way};

/// What came of one search at one hit rate with one working set.
#[derive(Clone, Debug, Serialize)]
pub struct TpgResult {
    /// Instruction set of the kernels.
    pub isa: &'static str,
    /// Steps between the samples and the threshold.
    pub chain: Chain,
    /// Form of the vector kernels.
    pub path: PathChoice,
    /// Format of the frames.
    pub format: FrameFormat,
    /// Length of what counts as a frame here; with `protowib` a super-chunk.
    pub frame_bytes: usize,
    /// A sample belongs to a hit when it is above this; ADC counts.
    pub threshold: u16,
    /// Hits a second on each channel.
    pub hit_rate_hz: f64,
    /// Part of the samples that hits take up. From one half on the pedestal follows the hits, and
    /// what is found are the gaps between them at best.
    pub occupancy: f64,
    /// Memory of a thread that was asked for; it holds as many whole frames as fit.
    pub working_set_bytes: u64,
    /// Kind of pages of the memory.
    pub pages: String,
    /// Threads that searched at the same time.
    pub threads: usize,
    /// Processors that the threads stayed on; none where that is not permitted.
    pub processors: Vec<usize>,
    /// Streams of a thread.
    pub streams: usize,
    /// Frames of a thread that differ from each other.
    pub distinct_frames: u64,
    /// Frames whose primitives were found to be those of the scalar chain; none of that chain
    /// itself.
    pub verified_frames: u64,
    /// Passes of searching that count.
    pub passes: usize,
    /// Passes of searching that do not, because a thread had no core for part of them.
    pub passes_left_out: usize,
    /// Frames that all threads search in a pass.
    pub frames: u64,
    /// Primitives that they find in it, the same in each.
    pub tps: u64,
    /// Rate of searching whole frames, all threads together: the median of the passes.
    pub gbit_per_s: f64,
    /// The lowest of them.
    pub gbit_per_s_lowest: f64,
    /// The highest of them.
    pub gbit_per_s_highest: f64,
    /// Rate of reading the same memory by as many threads in turn with searching, in the fastest
    /// way: the median of the passes.
    pub limit_gbit_per_s: f64,
    /// The lowest of them.
    pub limit_gbit_per_s_lowest: f64,
    /// The highest of them.
    pub limit_gbit_per_s_highest: f64,
    /// The fastest way.
    pub limit_way: Way,
    /// How far ahead searches fetch into the first-level cache, bytes: those of the kernels, unless
    /// others were clearly faster here.
    pub fetch_near: usize,
    /// The same into the second-level cache.
    pub fetch_far: usize,
    /// Rate of searching over that of reading.
    pub ratio: f64,
    /// Time of a thread for a frame.
    pub ns_per_frame: f64,
    /// Ticks of the time-stamp counter for a sample of one channel, where it can be read.
    pub cycles_per_sample: Option<f64>,
    /// Primitives found in a frame, on average.
    pub tps_per_frame: f64,
    /// Primitives found in a second of searching, all threads together.
    pub tp_per_s: f64,
    /// Part of the time of the passes that count for which the threads had a core; on a machine with nothing
    /// else to do it is 1.
    pub running_share: f64,
    /// Rate of one thread alone, in the same run; none with one thread.
    pub one_thread_gbit_per_s: Option<f64>,
    /// Rate of all threads over that of one; none with one thread.
    pub scaling: Option<f64>,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct TpgReport {
    /// The result, if there is exactly one: as a document its fields stand at the top.
    #[serde(flatten)]
    pub only: Option<TpgResult>,
    /// All results: for each working set all hit rates, for each of these all searches.
    pub results: Vec<TpgResult>,
}

/// What varies within the experiment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub working_set: Bytes,
    pub hit_rate_hz: f64,
}

/// What was measured at one point.
#[derive(Debug)]
pub(super) struct Measured {
    pub frame_bytes: usize,
    /// Samples of all channels in a frame.
    pub frame_samples: usize,
    /// Part of the samples that hits take up.
    pub occupancy: f64,
    /// Frames in the memory of a thread.
    pub frames: usize,
    /// Frames of them that differ from each other.
    pub distinct: usize,
    /// What each thread had got ready.
    pub ready: Vec<Ready>,
    /// The fastest way to read.
    pub way: Way,
    /// How far ahead searches fetch.
    pub ahead: Ahead,
    pub passes: Passes,
}

impl Measured {
    /// The figures of each search.
    pub fn results(
        &self,
        plan: &TpgPlan,
        point: &Point,
        cycles_per_s: Option<f64>,
    ) -> Vec<TpgResult> {
        let numbered = plan.searches.iter().enumerate();
        numbered
            .map(|(number, search)| self.result(plan, point, number, search, cycles_per_s))
            .collect()
    }

    fn result(
        &self,
        plan: &TpgPlan,
        point: &Point,
        number: usize,
        search: &TpgSearch,
        cycles_per_s: Option<f64>,
    ) -> TpgResult {
        let Self { ready, way, .. } = self;
        let passes = &self.passes.searches[number];
        let frame_bits = (8 * self.frame_bytes) as f64;
        let (found, read) = (passes.all.spread(), self.passes.read.spread());
        let alone = (plan.threads > 1).then(|| passes.alone.spread().median);
        let frames = (self.frames * plan.threads) as u64 * u64::from(passes.rounds);
        let ns_per_frame = plan.threads as f64 * frame_bits / found.median;
        let ns_per_sample = ns_per_frame / self.frame_samples as f64;
        let tps_per_frame = passes.tps as f64 / frames as f64;
        let processors: Option<Vec<usize>> = ready.iter().map(|ready| ready.processor).collect();
        TpgResult {
            isa: search.isa.isa().name(),
            chain: search.chain,
            path: search.path,
            format: plan.format,
            frame_bytes: self.frame_bytes,
            threshold: plan.threshold,
            hit_rate_hz: point.hit_rate_hz,
            occupancy: self.occupancy,
            working_set_bytes: point.working_set.0,
            pages: ready.first().map(|ready| ready.pages.to_string()).unwrap_or_default(),
            threads: plan.threads,
            processors: processors.unwrap_or_default(),
            streams: plan.streams,
            distinct_frames: self.distinct as u64,
            verified_frames: ready.iter().map(|ready| ready.verified[number] as u64).sum(),
            passes: found.passes,
            passes_left_out: found.left_out,
            frames,
            tps: passes.tps,
            gbit_per_s: found.median,
            gbit_per_s_lowest: found.lowest,
            gbit_per_s_highest: found.highest,
            limit_gbit_per_s: read.median,
            limit_gbit_per_s_lowest: read.lowest,
            limit_gbit_per_s_highest: read.highest,
            limit_way: *way,
            fetch_near: self.ahead.near,
            fetch_far: self.ahead.far,
            ratio: found.median / read.median,
            ns_per_frame,
            cycles_per_sample: cycles_per_s.map(|rate| ns_per_sample * 1e-9 * rate),
            tps_per_frame,
            tp_per_s: tps_per_frame * found.median * 1e9 / frame_bits,
            running_share: found.running,
            one_thread_gbit_per_s: alone,
            scaling: alone.map(|alone| found.median / alone),
        }
    }
}
