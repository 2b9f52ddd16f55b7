//! What a receiver tells about a stream.

use gannet_ingest::continuity::Counts;
use gannet_measure::counter::Counter;

/// Figures of one stream, which any thread may read.
#[derive(Debug, Default)]
pub struct StreamStatus {
    /// Frames taken.
    pub frames: Counter,
    /// Items found.
    pub items: Counter,
    /// Frames to be used, each for the first time, those included that were overwritten meanwhile.
    pub in_step: Counter,
    /// Frames that have not come, between the first and the newest by their time stamps.
    pub missing: Counter,
    /// Of the missing, those in the last gap of more than 4094 frames.
    pub outage: Counter,
    /// Frames that may be missing beyond those, while others came in their place from another time.
    pub unsure: Counter,
    /// 1 while the stream goes on from another time and has not come back.
    pub away: Counter,
    /// Frames in step before it went away, or else before the last outage.
    pub home: Counter,
    /// Frames in step before it went on from another time for the last time.
    pub earlier_series: Counter,
    /// Frames that came twice.
    pub duplicate: Counter,
    /// Frames that came after a later one.
    pub late: Counter,
    /// Frames whose time did not fit.
    pub out_of_step: Counter,
    /// Frames taken that came from elsewhere while the stream went on where it was.
    pub strange: Counter,
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
    /// Time stamp that the stream had reached [`SETTLE_NS`](super::SETTLE_NS) after the start, in
    /// ticks; 0 if it had sent nothing by then.
    pub early_timestamp: Counter,
    /// Time stamp that the stream had reached [`SETTLE_NS`](super::SETTLE_NS) ago, or that long
    /// before the stop, in ticks; 0 if it had sent nothing by then.
    pub settled_timestamp: Counter,
}

impl StreamStatus {
    /// Takes over what the continuity check counted.
    pub(super) fn set_counts(&self, counts: &Counts) {
        self.in_step.set(counts.in_step);
        self.missing.set(counts.missing);
        self.outage.set(counts.outage);
        self.unsure.set(counts.unsure);
        self.away.set(counts.away.into());
        self.home.set(counts.home);
        self.earlier_series.set(counts.earlier_series);
        self.duplicate.set(counts.duplicate);
        self.late.set(counts.late);
        self.out_of_step.set(counts.out_of_step);
        self.strange.set(counts.strange);
        self.sequence_errors.set(counts.sequence_disagreements);
        self.restarts.set(counts.restarts);
        self.stalls.set(counts.stalls);
    }

    /// All figures, in an order that processes of one version share.
    pub fn words(&self) -> [u64; Self::WORDS] {
        self.all().map(Counter::get)
    }

    /// Takes over the figures of another process, as [`words`](Self::words) gives them.
    pub fn set_words(&self, words: impl ExactSizeIterator<Item = u64>) {
        self.all().into_iter().zip(words).for_each(|(figure, word)| figure.set(word));
    }

    /// Number of figures.
    pub const WORDS: usize = 21;

    fn all(&self) -> [&Counter; Self::WORDS] {
        [
            &self.frames,
            &self.items,
            &self.in_step,
            &self.missing,
            &self.outage,
            &self.unsure,
            &self.away,
            &self.home,
            &self.earlier_series,
            &self.duplicate,
            &self.late,
            &self.out_of_step,
            &self.strange,
            &self.sequence_errors,
            &self.restarts,
            &self.stalls,
            &self.stalled,
            &self.first_timestamp,
            &self.newest_timestamp,
            &self.early_timestamp,
            &self.settled_timestamp,
        ]
    }
}
