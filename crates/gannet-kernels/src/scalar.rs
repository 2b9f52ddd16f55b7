//! The definition of the chain: one channel and one sample at a time, one function a rule.
//!
//! Arithmetic is signed 16-bit with the wrapping and saturation of the published vector
//! instructions. The vector kernels are tested against this file.
//!
//! Source: DUNE-DAQ/tpglibs, processors and pipeline as of 2026 (32-bit integral, minimum of
//! samples over threshold).

use crate::block::{self, CHANNELS};
use crate::chain::Parameters;
use crate::job::Job;
use crate::state::State;

/// Runs the chain over a block.
pub(crate) fn process(job: &mut Job) {
    let parameters = job.parameters;
    let moving = parameters.moving_samples(job.state.samples);
    for (t, row) in block::rows(job.block).iter().enumerate() {
        for c in 0..CHANNELS {
            let adc = block::sample(row, c) as i16;
            let signal = subtract_pedestal(parameters, job.state, c, adc, t < moving);
            let signal = transform(parameters, job.state, c, signal);
            let signal = over_threshold(signal, parameters.threshold[c]);
            if signal == 0 && job.state.samples_over_threshold[c] != 0 {
                job.complete(t, 1 << c);
                clear_hit(job.state, c);
            } else {
                extend_hit(job.state, c, signal);
            }
        }
    }
}

/// Moves the pedestal if it is still `moving`, then subtracts it.
fn subtract_pedestal(p: &Parameters, state: &mut State, c: usize, adc: i16, moving: bool) -> i16 {
    if moving {
        let (pedestal, accumulator) = (&mut state.pedestal[c], &mut state.accumulator[c]);
        move_pedestal(pedestal, accumulator, adc, i16::from(p.accum_limit));
    }
    adc.wrapping_sub(state.pedestal[c])
}

/// Counts a sample above or below the pedestal; past the limit the pedestal moves by one.
fn move_pedestal(pedestal: &mut i16, accumulator: &mut i16, adc: i16, limit: i16) {
    *accumulator += match adc.cmp(pedestal) {
        core::cmp::Ordering::Greater => 1,
        core::cmp::Ordering::Equal => 0,
        core::cmp::Ordering::Less => -1,
    };
    if *accumulator > limit {
        *pedestal = pedestal.saturating_add(1);
        *accumulator = 0;
    } else if *accumulator < -limit {
        *pedestal = pedestal.saturating_sub(1);
        *accumulator = 0;
    }
}

/// The running sum of the signal, or the signal itself in a chain without one.
fn transform(p: &Parameters, state: &mut State, c: usize, signal: i16) -> i16 {
    let Some(running_sum) = p.transform else { return signal };
    let signal = if running_sum.absolute { signal.wrapping_abs() } else { signal };
    let kept = tenth(state.running_sum[c]).wrapping_mul(p.memory_factor[c]);
    let added = tenth(signal).wrapping_mul(p.scale_factor[c]);
    state.running_sum[c] = kept.saturating_add(added);
    state.running_sum[c]
}

/// A tenth as `_mm256_mulhrs_epi16` with 32768 / 10 = 3276 gives it: a little small, rounded.
fn tenth(x: i16) -> i16 {
    ((((i32::from(x) * 3276) >> 14) + 1) >> 1) as i16
}

/// The signal where it is strictly greater than the threshold, else 0.
fn over_threshold(signal: i16, threshold: i16) -> i16 {
    if signal > threshold { signal } else { 0 }
}

/// Adds a sample to the hit of a channel; 0 leaves it as it is.
fn extend_hit(state: &mut State, c: usize, signal: i16) {
    let (low, carry) = state.integral_low[c].overflowing_add(signal as u16);
    state.integral_low[c] = low;
    state.integral_high[c] = state.integral_high[c].saturating_add(u16::from(carry));
    if signal > state.peak[c] {
        state.peak[c] = signal;
        state.samples_to_peak[c] = state.samples_over_threshold[c];
    }
    if signal > 0 {
        state.samples_over_threshold[c] = state.samples_over_threshold[c].saturating_add(1);
    }
}

/// Closes the hit of a channel.
fn clear_hit(state: &mut State, c: usize) {
    state.samples_over_threshold[c] = 0;
    state.integral_low[c] = 0;
    state.integral_high[c] = 0;
    state.peak[c] = 0;
    state.samples_to_peak[c] = 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::{ChainConfig, ChannelTable, RunningSum};

    fn chain(transform: Option<RunningSum>) -> (Parameters, State) {
        let config = ChainConfig { transform, ..ChainConfig::default() };
        let parameters = Parameters::new(&config, &ChannelTable::default()).unwrap();
        (parameters, State::new(config.initial_pedestal))
    }

    #[test]
    fn constant_zero_gives_minus_16384_at_the_first_step_and_zero_after_200_000() {
        // The published check of the frugal pedestal subtraction.
        let (parameters, mut state) = chain(None);
        let mut step = || subtract_pedestal(&parameters, &mut state, 0, 0, true);
        assert_eq!(step(), -16384);
        let last = (1..200_000).map(|_| step()).last();
        assert_eq!(last, Some(0));
    }

    #[test]
    fn pedestal_moves_before_it_is_subtracted() {
        let (parameters, mut state) = chain(None);
        let signals: Vec<i16> =
            (0..12).map(|_| subtract_pedestal(&parameters, &mut state, 0, 16_000, true)).collect();
        assert_eq!(signals[..10], [-384; 10]);
        assert_eq!(signals[10..], [-383; 2]);
    }

    #[test]
    fn running_sum_decays_by_its_memory_factor() {
        let (parameters, mut state) = chain(Some(RunningSum { absolute: false }));
        let input = [100, 100, 100, 0, 0, -1000];
        let sums = input.map(|signal| transform(&parameters, &mut state, 0, signal));
        // 8 x 10, 8 x 18 and 100 each; then 8 x 24 = 192, 8 x 19 = 152, 8 x 15 - 1000.
        assert_eq!(sums, [100, 180, 244, 192, 152, -880]);
    }

    #[test]
    fn absolute_value_of_the_smallest_number_wraps() {
        let (parameters, mut state) = chain(Some(RunningSum { absolute: true }));
        assert_eq!(transform(&parameters, &mut state, 0, i16::MIN), -32_760);
        assert_eq!(transform(&parameters, &mut state, 1, -100), 100);
    }

    #[test]
    fn a_tenth_rounds_as_the_published_multiplication() {
        // 3276/32768 is 0.09998, so 5 gives 0.4999 and rounds down; halves round up.
        let worked = [(0, 0), (4, 0), (5, 0), (6, 1), (10, 1), (15, 1), (16, 2), (100, 10)];
        for (x, expected) in worked {
            assert_eq!(tenth(x), expected, "tenth of {x}");
        }
        assert_eq!([tenth(-4), tenth(-5), tenth(-6), tenth(-10)], [0, 0, -1, -1]);
        assert_eq!([tenth(i16::MAX), tenth(i16::MIN)], [3276, -3276]);
    }
}
