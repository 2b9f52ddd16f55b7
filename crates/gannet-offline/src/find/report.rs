//! What a search came to.

use std::path::PathBuf;

use gannet_dune::tpg::TpgConfig;
use gannet_wire::channel_map::PLANES;
use serde::Serialize;

use super::config::{FrameSource, PedestalStart};

/// What a search came to.
#[derive(Clone, Debug, Serialize)]
pub struct FindReport {
    /// Run number.
    pub run: u32,
    /// Which frames were searched.
    pub source: FrameSource,
    /// Where pedestals began.
    pub pedestals: PedestalStart,
    /// The chain.
    pub tpg: TpgConfig,
    /// Instruction set that was used.
    pub isa: &'static str,
    /// The streams, in the order in which they were met.
    pub streams: Vec<StreamReport>,
    /// Sums over the streams.
    pub total: Totals,
    /// Frames of streams whose channels are not known; not searched.
    pub frames_unmapped: u64,
    /// One such stream.
    pub unmapped_stream: Option<String>,
    /// Damaged chunks, records, fragments and frames; not searched.
    pub damaged: u64,
    /// Fragments and packets of other content.
    pub other: u64,
    /// Chunks known to be lost from the logs.
    pub chunks_missing: u64,
    /// Logs that have no end although nobody writes them any more.
    pub unfinished: Vec<PathBuf>,
    /// Places where files of the run are missing between two.
    pub breaks: Vec<Break>,
    /// Masked channels that the channel map does not have.
    pub masked_unread: Vec<u32>,
    /// Frames that the run searched and could not record, as the chunks of raw frames tell.
    pub frames_missing: u64,
    /// Primitives written behind one that starts later.
    pub out_of_order: u64,
    /// What was found by threshold, if several were tried.
    pub thresholds: Vec<ThresholdReport>,
    /// Files written.
    pub files: Vec<PathBuf>,
    /// Time that it took, in seconds.
    pub wall_s: f64,
    /// Frames searched a second.
    pub frames_per_s: f64,
    /// Gigabits of whole frames searched a second.
    pub gbit_per_s: f64,
}

/// A place where files of the run are missing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Break {
    /// The file before it.
    pub after: PathBuf,
    /// The file behind it.
    pub before: PathBuf,
    /// Chunks between them.
    pub chunks: u64,
}

impl FindReport {
    /// Whether anything is missing or damaged that the run took.
    pub fn is_lossy(&self) -> bool {
        let lost = self.damaged + self.chunks_missing + self.frames_missing;
        let lost = lost + self.total.missing + self.total.late;
        lost > 0 || !self.unfinished.is_empty() || !self.breaks.is_empty()
    }
}

/// Sums over all streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Totals {
    /// Frames searched.
    pub frames: u64,
    /// Times that frames were missing between two.
    pub gaps: u64,
    /// Frames missing there, by the time stamps; 0 for windows of records, which are apart.
    pub missing: u64,
    /// Open hits dropped there.
    pub hits_cut: u64,
    /// Frames that came after later ones and were put in their place.
    pub sorted: u64,
    /// Frames left out because they came too late or their time does not fit.
    pub late: u64,
    /// Frames left out because they were there before.
    pub repeated: u64,
    /// Primitives found.
    pub tps: u64,
    /// Primitives found, by plane.
    pub tps_by_plane: [u64; PLANES],
    /// Primitives a second and channel.
    pub hz_per_channel: f64,
    /// Time of the first frame, ticks; 0 without frames.
    pub first_ticks: u64,
    /// Time from the first to the last frame, seconds.
    pub span_s: f64,
    /// Time of all frames by the mean over the streams, seconds.
    pub live_s: f64,
}

/// What was found in one stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StreamReport {
    /// Place on the detector: detector/crate/slot/stream.
    pub stream: String,
    /// Frames searched.
    pub frames: u64,
    /// Times that frames were missing between two.
    pub gaps: u64,
    /// Frames missing there, by the time stamps; 0 for windows of records.
    pub missing: u64,
    /// Open hits dropped there.
    pub hits_cut: u64,
    /// Frames that came after later ones and were put in their place.
    pub sorted: u64,
    /// Frames left out because they came too late or their time does not fit.
    pub late: u64,
    /// Frames left out because they were there before.
    pub repeated: u64,
    /// Primitives found.
    pub tps: u64,
    /// Primitives found, by plane.
    pub tps_by_plane: [u64; PLANES],
}

/// What was found with one threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ThresholdReport {
    /// Threshold of all planes, ADC counts.
    pub threshold: u16,
    /// Primitives found.
    pub tps: u64,
    /// Primitives a second and channel.
    pub hz_per_channel: f64,
}
