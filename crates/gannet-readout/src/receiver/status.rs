//! What a receiver tells about a stream.

use gannet_ingest::continuity::Counts;
use gannet_measure::counter::Counter;
use gannet_wire::Step;

/// A gap of more frames than that is an outage.
const OUTAGE_FRAMES: u64 = 4094;

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
    /// Of the missing, those that came due while no process took frames of the stream.
    pub unattended: Counter,
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

    /// The figures that [`words`](Self::words) gave.
    pub(crate) fn of_words(words: impl ExactSizeIterator<Item = u64>) -> Self {
        let status = Self::default();
        status.set_words(words);
        status
    }

    /// Takes over the figures of a stream of which one process has counted the `earlier` frames and another one, which
    /// has begun anew, the `later` ones. Those between the two are missing, as far as `step` tells how many they are.
    pub(crate) fn set_sum(&self, earlier: &Self, later: &Self, step: Step) {
        if earlier.frames.get() == 0 || later.frames.get() == 0 {
            let counted = if later.frames.get() == 0 { earlier } else { later };
            self.set_words(counted.words().into_iter());
            return self.stalled.set(later.stalled.get());
        }
        for ((sum, earlier), later) in self.all().into_iter().zip(earlier.all()).zip(later.all()) {
            sum.set(earlier.get().saturating_add(later.get()));
        }
        let ticks = later.first_timestamp.get().saturating_sub(earlier.newest_timestamp.get());
        let between = match step {
            Step::Fixed(step) => (ticks / step.max(1)).saturating_sub(1),
            Step::Varying { .. } | Step::Slices { .. } => 0,
        };
        self.missing.set(self.missing.get().saturating_add(between));
        self.unattended.set(self.unattended.get().saturating_add(between));
        let is_outage = between > OUTAGE_FRAMES;
        let before = earlier.in_step.get();
        let (outage, home) = match (later.outage.get(), is_outage) {
            (outage @ 1.., _) => (outage, before + later.home.get()),
            (0, true) => (between, before),
            (0, false) => (earlier.outage.get(), earlier.home.get()),
        };
        let is_away = later.away.get() == 1;
        self.outage.set(outage);
        self.home.set(if is_away { before + later.home.get() } else { home });
        self.away.set(later.away.get());
        self.earlier_series.set(match later.restarts.get() {
            0 => earlier.earlier_series.get(),
            _ => before + later.earlier_series.get(),
        });
        self.stalled.set(later.stalled.get());
        self.first_timestamp.set(earlier.first_timestamp.get());
        self.newest_timestamp.set(later.newest_timestamp.get());
        self.early_timestamp.set(earlier.early_timestamp.get());
        let settled = [later, earlier].map(|status| status.settled_timestamp.get());
        self.settled_timestamp.set(settled.into_iter().find(|settled| *settled > 0).unwrap_or(0));
    }

    /// Number of figures.
    pub const WORDS: usize = 22;

    fn all(&self) -> [&Counter; Self::WORDS] {
        [
            &self.frames,
            &self.items,
            &self.in_step,
            &self.missing,
            &self.outage,
            &self.unattended,
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

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Step = Step::Fixed(32);

    /// Figures of frames `first` to `newest`, of which one is missing.
    fn counted(first: u64, newest: u64) -> StreamStatus {
        let status = StreamStatus::default();
        let frames = newest - first;
        status.frames.set(frames);
        status.in_step.set(frames);
        status.missing.set(1);
        status.first_timestamp.set(32 * first);
        status.newest_timestamp.set(32 * newest);
        status.settled_timestamp.set(32 * newest);
        status
    }

    fn sum(earlier: &StreamStatus, later: &StreamStatus) -> StreamStatus {
        let sum = StreamStatus::default();
        sum.set_sum(earlier, later, STEP);
        sum
    }

    #[test]
    fn what_nobody_counted_in_between_is_missing() {
        let sum = sum(&counted(100, 200), &counted(221, 300));
        assert_eq!((sum.frames.get(), sum.in_step.get()), (179, 179));
        // One of each, and frames 201 to 220.
        assert_eq!((sum.missing.get(), sum.outage.get()), (22, 0));
        assert_eq!(sum.unattended.get(), 20);
        let later = self::sum(&sum, &counted(311, 400));
        assert_eq!((later.missing.get(), later.unattended.get()), (33, 30));
        // In step and missing are all of them.
        assert_eq!(sum.in_step.get() + sum.missing.get(), 201);
        assert_eq!((sum.first_timestamp.get(), sum.newest_timestamp.get()), (3200, 9600));
    }

    #[test]
    fn a_long_gap_is_an_outage_with_what_came_before_it() {
        let sum = sum(&counted(100, 200), &counted(10_201, 10_300));
        assert_eq!((sum.missing.get(), sum.outage.get(), sum.home.get()), (10_002, 10_000, 100));
    }

    #[test]
    fn one_that_has_counted_nothing_changes_nothing() {
        let none = StreamStatus::default();
        none.stalled.set(1);
        let sum_of = |earlier: &StreamStatus, later: &StreamStatus| sum(earlier, later).words();
        let counted = counted(100, 200);
        assert_eq!(sum_of(&none, &counted), counted.words());
        let silent = sum(&counted, &none);
        assert_eq!((silent.frames.get(), silent.stalled.get()), (100, 1));
        // A clock that went back leaves no gap.
        let back = sum(&counted, &self::counted(10, 20));
        assert_eq!((back.missing.get(), back.newest_timestamp.get()), (2, 640));
    }
}
