//! What a stream remembers from one block to the next.

use crate::tpg::block::CHANNELS;

/// Signals that the FIR filter looks back to.
pub const HISTORY: usize = 8;

/// Distance of the quartiles from the pedestal at the start, ADC counts.
const FIRST_QUARTILE_DISTANCE: i16 = 20;

/// The state of the chain on the 64 channels of one stream.
///
/// Laid out by quantity, so that a vector register holds one quantity of many channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct State {
    /// Pedestals, ADC counts.
    pub pedestal: [i16; CHANNELS],
    /// Samples above minus samples below the pedestal since its last move.
    pub accumulator: [i16; CHANNELS],
    /// Running sums; 0 in a chain without one.
    pub running_sum: [i16; CHANNELS],
    /// Frugal medians of the running sums, where they are fed back without it.
    pub sum_median: [i16; CHANNELS],
    /// Accumulators of `sum_median`.
    pub sum_accumulator: [i16; CHANNELS],
    /// Frugal estimates of the first and third quartile of the samples, for the FIR filter; ADC
    /// counts.
    pub quartile: [[i16; CHANNELS]; 2],
    /// Accumulators of `quartile`.
    pub quartile_accumulator: [[i16; CHANNELS]; 2],
    /// The last signals, which the FIR filter looks back to; the oldest first.
    pub history: [[i16; CHANNELS]; HISTORY],
    /// The open hits.
    pub hits: Hits,
    /// Samples of the stream so far.
    pub samples: u64,
}

/// The open hits of the 64 channels. On a channel without one all is 0, but for the peak in
/// chains that look for it outside hits as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Hits {
    /// Samples of the open hit so far, at most 32767; 0 where no hit is open.
    pub samples_over_threshold: [i16; CHANNELS],
    /// Low halves of the integrals of the open hits.
    pub integral_low: [u16; CHANNELS],
    /// High halves of the integrals; they stay at 65535 instead of wrapping.
    pub integral_high: [u16; CHANNELS],
    /// Peaks of the open hits.
    pub peak: [i16; CHANNELS],
    /// Samples from the starts of the open hits to their peaks.
    pub samples_to_peak: [i16; CHANNELS],
}

impl Hits {
    /// No open hits.
    pub const NONE: Self = Self {
        samples_over_threshold: [0; CHANNELS],
        integral_low: [0; CHANNELS],
        integral_high: [0; CHANNELS],
        peak: [0; CHANNELS],
        samples_to_peak: [0; CHANNELS],
    };

    /// Closes the hit of a channel.
    pub(crate) fn clear(&mut self, channel: usize) {
        self.samples_over_threshold[channel] = 0;
        self.integral_low[channel] = 0;
        self.integral_high[channel] = 0;
        self.peak[channel] = 0;
        self.samples_to_peak[channel] = 0;
    }
}

impl State {
    /// The state before the first sample.
    pub(crate) fn new(pedestal: [i16; CHANNELS]) -> Self {
        let mut state = Self {
            pedestal: [0; CHANNELS],
            accumulator: [0; CHANNELS],
            running_sum: [0; CHANNELS],
            sum_median: [0; CHANNELS],
            sum_accumulator: [0; CHANNELS],
            quartile: [[0; CHANNELS]; 2],
            quartile_accumulator: [[0; CHANNELS]; 2],
            history: [[0; CHANNELS]; HISTORY],
            hits: Hits::NONE,
            samples: 0,
        };
        state.set_pedestals(pedestal);
        state
    }

    /// Puts the pedestals to known values, and the quartiles about them.
    pub(crate) fn set_pedestals(&mut self, pedestal: [i16; CHANNELS]) {
        self.pedestal = pedestal;
        self.accumulator = [0; CHANNELS];
        self.quartile = [-1, 1].map(|side| pedestal.map(|p| p + side * FIRST_QUARTILE_DISTANCE));
        self.quartile_accumulator = [[0; CHANNELS]; 2];
    }

    /// Drops all open hits and gives their number.
    pub(crate) fn reset_hits(&mut self) -> usize {
        let open = self.hits.samples_over_threshold.iter().filter(|&&sot| sot != 0).count();
        self.hits = Hits::NONE;
        open
    }
}

/// A 16-bit quantity of [`State`]: any bits are a value, and every value is 16 bits.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Word16: Copy {}
#[cfg(target_arch = "x86_64")]
impl Word16 for i16 {}
#[cfg(target_arch = "x86_64")]
impl Word16 for u16 {}
