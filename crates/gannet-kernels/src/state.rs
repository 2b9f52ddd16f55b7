//! What a stream remembers from one block to the next.

use crate::block::CHANNELS;

/// The state of the chain on the 64 channels of one stream.
///
/// Laid out by quantity, so that a vector register holds one quantity of many channels. On a
/// channel without an open hit all five hit quantities are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct State {
    /// Pedestals, ADC counts.
    pub pedestal: [i16; CHANNELS],
    /// Samples above minus samples below the pedestal since its last move.
    pub accumulator: [i16; CHANNELS],
    /// Running sums; 0 in a chain without one.
    pub running_sum: [i16; CHANNELS],
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
    /// Samples of the stream so far.
    pub samples: u64,
}

impl State {
    /// The state before the first sample.
    pub(crate) fn new(initial_pedestal: i16) -> Self {
        Self {
            pedestal: [initial_pedestal; CHANNELS],
            accumulator: [0; CHANNELS],
            running_sum: [0; CHANNELS],
            samples_over_threshold: [0; CHANNELS],
            integral_low: [0; CHANNELS],
            integral_high: [0; CHANNELS],
            peak: [0; CHANNELS],
            samples_to_peak: [0; CHANNELS],
            samples: 0,
        }
    }

    /// Drops all open hits and gives their number.
    pub(crate) fn reset_hits(&mut self) -> usize {
        let open = self.samples_over_threshold.iter().filter(|&&sot| sot != 0).count();
        self.samples_over_threshold = [0; CHANNELS];
        self.integral_low = [0; CHANNELS];
        self.integral_high = [0; CHANNELS];
        self.peak = [0; CHANNELS];
        self.samples_to_peak = [0; CHANNELS];
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
