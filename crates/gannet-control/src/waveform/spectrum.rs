//! Spectrum of the samples of a channel, by Welch's method.
//!
//! The samples are cut into segments that overlap by half; the mean of each is taken off, each is multiplied by Hann's
//! window, and the squares of their Fourier transforms are averaged. Source: P. D. Welch, IEEE Trans. Audio
//! Electroacoust. 15 (1967) 70.

use std::f64::consts::{PI, TAU};

use schemars::JsonSchema;
use serde::Serialize;

use super::{FRAMES_MAX, NoWaveform, Picture, Sampling, Waveforms, bounded};

/// Most samples of a segment: the more, the finer the spectrum.
pub const SEGMENT_MAX: usize = 1024;

/// How strong each frequency is in the samples of a channel.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Spectrum {
    /// Number of the channel.
    pub channel: u32,
    /// Name of its stream.
    pub stream: String,
    /// Plane that it is in, where there are some.
    pub plane: u8,
    /// First tick of the samples.
    pub begin: u64,
    /// First tick after.
    pub end: u64,
    /// Samples a second.
    pub samples_per_s: f64,
    /// What the samples of a segment are multiplied by.
    pub window: &'static str,
    /// Samples of a segment.
    pub segment: usize,
    /// Segments that were averaged: those without a gap. Each overlaps the next by half.
    pub segments: usize,
    /// From one frequency to the next, in Hz; the first is 0.
    pub step_hz: f64,
    /// One-sided spectral density at each frequency up to half of the sampling rate, in ADC counts per square root of
    /// Hz; empty where no segment is without a gap. The sum of its squares times the step is the variance.
    pub density: Vec<f64>,
    /// Frames that were looked for.
    pub frames: usize,
    /// Those of them that were there.
    pub found: usize,
}

impl Waveforms {
    /// The spectrum of a channel in so many frames before the tick `end`, or in the newest.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn spectrum(
        &self,
        channel: u32,
        frames: usize,
        end: Option<u64>,
    ) -> Result<Spectrum, NoWaveform> {
        bounded("frames", frames, FRAMES_MAX)?;
        let channel = self.channel(channel)?;
        let sampling = self.samples.sampling(channel.stream);
        let (window, bytes) = self.cut(channel.stream, frames, end)?;
        let count = frames * sampling.samples_per_frame;
        let mut picture = Picture::new(window, sampling, frames, count);
        let frames_found = bytes.chunks_exact(sampling.frame_len);
        let found = frames_found.len();
        for frame in frames_found {
            picture.frame(|each| self.samples.unpack(channel, frame, each));
        }
        let segment = SEGMENT_MAX.min(1 << count.max(1).ilog2());
        let samples_per_s = sampling.samples_per_s();
        let (segments, density) = density(&picture.least, segment, samples_per_s);
        Ok(Spectrum {
            channel: channel.channel,
            stream: self.streams[channel.stream].0.clone(),
            plane: channel.plane,
            begin: window.begin,
            end: window.end,
            samples_per_s,
            window: "Hann",
            segment,
            segments,
            step_hz: samples_per_s / segment as f64,
            density,
            frames,
            found,
        })
    }
}

impl Sampling {
    /// Samples of a channel in a second.
    fn samples_per_s(&self) -> f64 {
        self.ticks_per_s as f64 * self.samples_per_frame as f64 / self.ticks_per_frame as f64
    }
}

/// How many segments of so many samples, a power of two, have no gap, and their mean spectral density.
fn density(samples: &[Option<u16>], segment: usize, samples_per_s: f64) -> (usize, Vec<f64>) {
    let hann: Vec<_> =
        (0..segment).map(|at| 0.5 - 0.5 * (TAU * at as f64 / segment as f64).cos()).collect();
    let fourier = Fourier::of(segment);
    let mut power = vec![0.0; segment / 2 + 1];
    let mut segments = 0_usize;
    for samples in samples.windows(segment).step_by((segment / 2).max(1)) {
        let Some(samples) = samples.iter().copied().collect::<Option<Vec<_>>>() else { continue };
        segments += 1;
        let mean = samples.iter().map(|it| f64::from(*it)).sum::<f64>() / segment as f64;
        let shaped = samples.iter().zip(&hann).map(|(it, hann)| (f64::from(*it) - mean) * hann);
        let mut values: Vec<_> = shaped.map(|it| (it, 0.0)).collect();
        fourier.transform(&mut values);
        for (power, (real, imaginary)) in power.iter_mut().zip(values) {
            *power += real * real + imaginary * imaginary;
        }
    }
    if segments == 0 {
        return (0, Vec::new());
    }
    let weight = samples_per_s * hann.iter().map(|it| it * it).sum::<f64>() * segments as f64;
    let density = power.iter().enumerate().map(|(at, power)| {
        // All frequencies between the first and the last stand for their negatives too.
        let sides = if at == 0 || at == segment / 2 { 1.0 } else { 2.0 };
        (sides * power / weight).sqrt()
    });
    (segments, density.collect())
}

/// The Fourier transform of so many numbers, a power of two.
struct Fourier {
    /// Roots of unity that the first half of the numbers are turned by.
    turns: Vec<(f64, f64)>,
}

impl Fourier {
    fn of(len: usize) -> Self {
        let turn = |at| (-PI * at as f64 / (len / 2) as f64).sin_cos();
        Self { turns: (0..len / 2).map(turn).map(|(sin, cos)| (cos, sin)).collect() }
    }

    /// Transforms complex numbers in place, by Cooley and Tukey.
    fn transform(&self, values: &mut [(f64, f64)]) {
        let len = values.len();
        let unused = usize::BITS - len.trailing_zeros();
        for place in 1..len {
            let other = place.reverse_bits() >> unused;
            if place < other {
                values.swap(place, other);
            }
        }
        let mut half = 1;
        while half < len {
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                let turns = self.turns.iter().step_by(len / (2 * half));
                for ((a, b), (cos, sin)) in low.iter_mut().zip(high).zip(turns) {
                    let turned = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
                    *b = (a.0 - turned.0, a.1 - turned.1);
                    *a = (a.0 + turned.0, a.1 + turned.1);
                }
            }
            half *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::Bench;
    use super::*;

    proptest! {
        #[test]
        fn the_fast_transform_is_the_plain_one(
            values in (0_u32..7).prop_flat_map(|bits| {
                prop::collection::vec((-1e3..1e3, -1e3..1e3), 1_usize << bits)
            }),
        ) {
            let plain: Vec<(f64, f64)> = (0..values.len()).map(|k| {
                values.iter().enumerate().fold((0.0, 0.0), |sum, (n, (real, imaginary))| {
                    let (sin, cos) = (-TAU * (k * n) as f64 / values.len() as f64).sin_cos();
                    (sum.0 + real * cos - imaginary * sin, sum.1 + real * sin + imaginary * cos)
                })
            }).collect();
            let mut fast = values;
            Fourier::of(fast.len()).transform(&mut fast);
            for (fast, plain) in fast.iter().zip(&plain) {
                prop_assert!((fast.0 - plain.0).abs() < 1e-6, "{fast:?} {plain:?}");
                prop_assert!((fast.1 - plain.1).abs() < 1e-6, "{fast:?} {plain:?}");
            }
        }
    }

    /// A sine of this amplitude and frequency about 8000 counts, sampled 2 million times a second.
    fn sine(amplitude: f64, hz: f64, samples: usize) -> Vec<Option<u16>> {
        let value = |at: usize| (TAU * hz * at as f64 / 2e6).sin();
        (0..samples).map(|at| Some((8000.0 + amplitude * value(at)).round() as u16)).collect()
    }

    #[test]
    fn a_sine_is_a_line_at_its_frequency_with_its_power() {
        let (amplitude, hz) = (500.0, 2e6 * 100.0 / 1024.0);
        let (segments, density) = density(&sine(amplitude, hz, 4096), 1024, 2e6);
        assert_eq!((segments, density.len()), (7, 513));
        let highest = (0..density.len()).max_by(|a, b| density[*a].total_cmp(&density[*b]));
        assert_eq!(highest, Some(100));
        // The window spreads the line over three frequencies, and nothing else is there but rounding.
        let step_hz = 2e6 / 1024.0;
        let power = |of: &[f64]| of.iter().map(|it| it * it * step_hz).sum::<f64>();
        let expected = amplitude * amplitude / 2.0;
        assert!((power(&density) / expected - 1.0).abs() < 1e-3, "{}", power(&density));
        assert!((power(&density[99..=101]) / expected - 1.0).abs() < 1e-3);
        // At the frequency itself Hann's window has an effective width of 1.5 steps.
        let peak = amplitude / (2.0 * 1.5 * step_hz).sqrt();
        assert!((density[100] / peak - 1.0).abs() < 1e-3, "{} {peak}", density[100]);
    }

    #[test]
    fn white_noise_is_flat_and_has_its_variance() {
        // Plus and minus one count by a linear generator: a variance of one.
        let mut state = 1_u64;
        let noise = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Some(if state >> 63 == 0 { 899 } else { 901 })
        });
        let samples: Vec<_> = noise.take(1 << 16).collect();
        let (_, density) = density(&samples, 256, 1e6);
        let flat = (1.0 / 0.5e6_f64).sqrt();
        for (at, density) in density.iter().enumerate().skip(2).take(125) {
            assert!((density / flat - 1.0).abs() < 0.2, "{at}: {density} {flat}");
        }
        let variance: f64 = density.iter().map(|it| it * it * 1e6 / 256.0).sum();
        assert!((variance - 1.0).abs() < 0.03, "{variance}");
    }

    #[test]
    fn segments_with_a_gap_are_left_out() {
        let mut samples = sine(100.0, 1e5, 1024);
        samples[300] = None;
        // Of those that begin at 0, 128, ... the three that contain it.
        assert_eq!(density(&samples, 256, 2e6).0, 5);
        assert_eq!(density(&samples[250..400], 128, 2e6), (0, vec![]));
    }

    #[test]
    fn a_spectrum_is_of_the_frames_that_are_there() {
        let mut bench = Bench::new();
        (4..8).for_each(|number| bench.put(number));
        let seen = bench.waveforms.spectrum(20, 4, None).unwrap();
        // Four samples in 25 ticks, of which there are 1000 in a second.
        assert_eq!((seen.samples_per_s, seen.segment, seen.segments), (160.0, 16, 1));
        assert_eq!((seen.step_hz, seen.density.len(), seen.found), (10.0, 9, 4));
        assert!(seen.density[1] > seen.density[5], "a ramp has low frequencies");
        assert!(matches!(
            bench.waveforms.spectrum(20, 257, None),
            Err(NoWaveform::TooMuch { most: FRAMES_MAX, .. })
        ));
    }
}
