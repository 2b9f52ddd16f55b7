//! The definition of the chain: one channel and one sample at a time, one function a rule.
//!
//! Arithmetic is signed 16-bit with the wrapping and saturation of the published vector
//! instructions. The vector kernels are tested against this file.
//!
//! Source: DUNE-DAQ/tpglibs, processors and pipeline as of 2026 (32-bit integral, minimum of
//! samples over threshold); DUNE-DAQ/fdreadoutlibs for [`Transform::FeedbackSum`] and
//! [`Transform::Fir`].

use crate::tpg::block::CHANNELS;
use crate::tpg::chain::{FIR_TAPS, Transform};
use crate::tpg::job::Job;
use crate::tpg::parameters::Parameters;
use crate::tpg::samples::Packed;
use crate::tpg::state::{HISTORY, Hits, State};

/// Runs the chain over rows of samples.
pub(crate) fn process<P: Packed>(job: &mut Job, rows: P) {
    let p = job.parameters;
    let moving = p.moving_samples(job.state.samples, rows.count());
    for t in 0..rows.count() {
        for c in 0..CHANNELS {
            let adc = P::adc(rows.row(t), c) as i16;
            if let Some(Transform::Fir) = p.transform {
                move_quartiles(p, job.state, c, adc);
            }
            let signal = subtract_pedestal(p, job.state, c, adc, t < moving);
            match p.transform {
                None => find_hit(job, t, c, over_threshold(signal, p.threshold[c])),
                Some(Transform::RunningSum { absolute }) => {
                    let sum = running_sum(p, job.state, c, signal, absolute);
                    find_hit(job, t, c, over_threshold(sum, p.threshold[c]));
                }
                Some(Transform::FeedbackSum { absolute }) => {
                    let sum = feedback_sum(p, job.state, c, signal, absolute);
                    find_hit_over(job, t, c, signal, sum > p.threshold[c]);
                }
                Some(Transform::Fir) => {
                    let filtered = filter(job.state, c, signal);
                    let over = filtered > range_threshold(p, job.state, c);
                    find_hit_over(job, t, c, filtered >> FIR_SHIFT, over);
                }
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

/// The running sum of the signal.
fn running_sum(p: &Parameters, state: &mut State, c: usize, signal: i16, absolute: bool) -> i16 {
    let signal = if absolute { signal.wrapping_abs() } else { signal };
    let kept = tenth(state.running_sum[c]).wrapping_mul(p.memory_factor[c]);
    let added = tenth(signal).wrapping_mul(p.scale_factor[c]);
    state.running_sum[c] = kept.saturating_add(added);
    state.running_sum[c]
}

/// The running sum of the signal less its own median, which is what is fed back.
fn feedback_sum(p: &Parameters, state: &mut State, c: usize, signal: i16, absolute: bool) -> i16 {
    let kept = state.running_sum[c].wrapping_mul(p.memory_factor[c]);
    let added =
        if absolute { signal.wrapping_abs().wrapping_mul(p.scale_factor[c]) } else { signal };
    let sum = tenth(kept.wrapping_add(added));
    let (median, accumulator) = (&mut state.sum_median[c], &mut state.sum_accumulator[c]);
    move_pedestal(median, accumulator, sum, i16::from(p.accum_limit));
    state.running_sum[c] = sum.wrapping_sub(*median);
    state.running_sum[c]
}

/// Moves the first quartile by a sample below the pedestal, the third by one above it.
fn move_quartiles(p: &Parameters, state: &mut State, c: usize, adc: i16) {
    let side = match adc.cmp(&state.pedestal[c]) {
        core::cmp::Ordering::Less => 0,
        core::cmp::Ordering::Equal => return,
        core::cmp::Ordering::Greater => 1,
    };
    let quartile = &mut state.quartile[side][c];
    let accumulator = &mut state.quartile_accumulator[side][c];
    move_pedestal(quartile, accumulator, adc, i16::from(p.accum_limit));
}

/// Largest signal whose filtered value fits 16 bits.
pub(crate) const FIR_SIGNAL_MAX: i16 = i16::MAX >> FIR_SHIFT;
/// Binary logarithm of the sum of the taps.
pub(crate) const FIR_SHIFT: u32 = 6;

/// The filtered signals up to two samples before this one; remembers this one.
fn filter(state: &mut State, c: usize, signal: i16) -> i16 {
    let filtered = FIR_TAPS
        .iter()
        .zip(&state.history)
        .fold(0i16, |sum, (tap, signals)| sum.wrapping_add(tap.wrapping_mul(signals[c])));
    for t in 1..HISTORY {
        state.history[t - 1][c] = state.history[t][c];
    }
    state.history[HISTORY - 1][c] = signal.min(FIR_SIGNAL_MAX);
    filtered
}

/// The threshold of filtered signals.
fn range_threshold(p: &Parameters, state: &State, c: usize) -> i16 {
    let range = state.quartile[1][c].wrapping_sub(state.quartile[0][c]);
    p.range_limit(range, c).max(p.threshold[c])
}

/// A tenth as `_mm256_mulhrs_epi16` with 32768 / 10 = 3276 gives it: a little small, rounded.
pub(crate) fn tenth(x: i16) -> i16 {
    ((((i32::from(x) * 3276) >> 14) + 1) >> 1) as i16
}

/// The signal where it is strictly greater than the threshold, else 0.
fn over_threshold(signal: i16, threshold: i16) -> i16 {
    if signal > threshold { signal } else { 0 }
}

/// Ends the hit of a channel at a signal of 0, else adds the signal to it.
fn find_hit(job: &mut Job, t: usize, c: usize, signal: i16) {
    if signal == 0 && job.state.hits.samples_over_threshold[c] != 0 {
        job.complete(t, 1 << c);
        job.state.hits.clear(c);
    } else {
        extend_hit(&mut job.state.hits, c, signal);
    }
}

/// Adds a signal to the hit of a channel; 0 leaves it as it is.
fn extend_hit(hits: &mut Hits, c: usize, signal: i16) {
    let (low, carry) = hits.integral_low[c].overflowing_add(signal as u16);
    hits.integral_low[c] = low;
    hits.integral_high[c] = hits.integral_high[c].saturating_add(u16::from(carry));
    raise_peak(hits, c, signal);
    if signal > 0 {
        hits.samples_over_threshold[c] = hits.samples_over_threshold[c].saturating_add(1);
    }
}

/// The hits of the older generation: `over` threshold by another quantity than the signal that
/// is summed, which may be negative; the sum has 16 bits; the peak may lie before the hit, or
/// on the sample that ends it.
fn find_hit_over(job: &mut Job, t: usize, c: usize, signal: i16, over: bool) {
    let hits = &mut job.state.hits;
    raise_peak(hits, c, signal);
    if over {
        let charge = (hits.integral_low[c] as i16).saturating_add(signal);
        hits.integral_low[c] = charge as u16;
        hits.samples_over_threshold[c] = hits.samples_over_threshold[c].saturating_add(1);
    } else if hits.samples_over_threshold[c] != 0 {
        job.complete(t, 1 << c);
        job.state.hits.clear(c);
    }
}

/// Notes a signal that is higher than all before, and when it came.
fn raise_peak(hits: &mut Hits, c: usize, signal: i16) {
    if signal > hits.peak[c] {
        hits.peak[c] = signal;
        hits.samples_to_peak[c] = hits.samples_over_threshold[c];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::chain::{ChainConfig, ChannelTable};

    fn chain(transform: Option<Transform>) -> (Parameters, State) {
        let config = ChainConfig { transform, ..ChainConfig::default() };
        let parameters = Parameters::new(&config, &ChannelTable::default()).unwrap();
        (parameters, State::new([config.initial_pedestal; CHANNELS]))
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
        let (parameters, mut state) = chain(None);
        let input = [100, 100, 100, 0, 0, -1000];
        let sums = input.map(|signal| running_sum(&parameters, &mut state, 0, signal, false));
        // 8 x 10, 8 x 18 and 100 each; then 8 x 24 = 192, 8 x 19 = 152, 8 x 15 - 1000.
        assert_eq!(sums, [100, 180, 244, 192, 152, -880]);
    }

    #[test]
    fn taps_are_those_of_the_published_design() {
        // A Hamming window over a sinc, cut off at a tenth of the Nyquist frequency.
        use core::f64::consts::PI;
        let tap = |m: i32| {
            let window = 0.54 - 0.46 * (2.0 * PI * f64::from(m) / 6.0).cos();
            let x = 0.1 * PI * f64::from(m - 3);
            window * if x == 0.0 { 1.0 } else { x.sin() / x }
        };
        let sum: f64 = (0..7).map(tap).sum();
        let taps: Vec<i16> = (0..7).map(|m| (64.0 * tap(m) / sum).round() as i16).collect();
        assert_eq!(taps, FIR_TAPS);
        assert_eq!(FIR_TAPS.iter().sum::<i16>(), 1 << FIR_SHIFT);
    }

    #[test]
    fn threshold_of_the_filter_stops_where_16_bits_end() {
        let config = ChainConfig { transform: Some(Transform::Fir), ..ChainConfig::default() };
        let table = ChannelTable { threshold: [5; CHANNELS], ..ChannelTable::default() };
        let parameters = Parameters::new(&config, &table).unwrap();
        let mut state = State::new([900; CHANNELS]);
        assert_eq!(range_threshold(&parameters, &state, 0), 40 * 320);
        state.quartile[1][0] = 2000;
        assert_eq!(range_threshold(&parameters, &state, 0), 102 * 320);
    }

    #[test]
    fn absolute_value_of_the_smallest_number_wraps() {
        let (parameters, mut state) = chain(None);
        assert_eq!(running_sum(&parameters, &mut state, 0, i16::MIN, true), -32_760);
        assert_eq!(running_sum(&parameters, &mut state, 1, -100, true), 100);
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
