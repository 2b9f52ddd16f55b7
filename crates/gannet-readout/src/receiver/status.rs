//! What a receiver tells about a stream.

use gannet_ingest::continuity::Counts;
use gannet_measure::counter::Counter;

/// Figures of one stream, which any thread may read.
#[derive(Debug, Default)]
pub struct StreamStatus {
    /// Frames taken.
    pub frames: Counter,
    /// Trigger primitives found.
    pub primitives: Counter,
    /// Frames that have not come.
    pub missing: Counter,
    /// Frames that came twice.
    pub duplicate: Counter,
    /// Frames that came after a later one.
    pub late: Counter,
    /// Frames whose time did not fit.
    pub out_of_step: Counter,
    /// Frames whose sequence number disagreed with their time.
    pub sequence_errors: Counter,
    /// Times that the stream went on from another time.
    pub restarts: Counter,
    /// Times that the stream fell silent.
    pub stalls: Counter,
    /// 1 while the stream is silent for longer than it may be.
    pub stalled: Counter,
    /// Time stamp of the first frame, in ticks; of no meaning while `frames` is 0.
    pub first_timestamp: Counter,
    /// Time stamp of the newest frame, in ticks; of no meaning while `frames` is 0.
    pub newest_timestamp: Counter,
}

impl StreamStatus {
    /// Takes over what the continuity check counted.
    pub(super) fn set_counts(&self, counts: &Counts) {
        self.missing.set(counts.missing);
        self.duplicate.set(counts.duplicate);
        self.late.set(counts.late);
        self.out_of_step.set(counts.out_of_step);
        self.sequence_errors.set(counts.sequence_disagreements);
        self.restarts.set(counts.restarts);
        self.stalls.set(counts.stalls);
    }
}
