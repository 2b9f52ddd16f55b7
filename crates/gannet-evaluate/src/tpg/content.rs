//! What the channels of the benchmark carry: a pedestal, noise, and hits at a given rate.

use gannet_measure::random::Random;

/// Highest rate of hits of a channel; beyond it hardly a sample would lie between them.
pub const HIT_RATE_MAX_HZ: f64 = 150e3;

/// Samples of a hit.
const HIT_SAMPLES: u32 = 10;
/// Fewest samples between two hits, so that they do not become one.
const GAP_MIN: u32 = 1;
/// Heights of hits above the pedestal in ADC counts: `200..=1000`.
const HEIGHT_MIN: u64 = 200;
const HEIGHTS: u64 = 801;
/// Standard deviation of the noise, ADC counts.
const NOISE_RMS: f64 = 4.0;
/// Values that noise is drawn from: as many as 16 random bits choose among.
const NOISE_VALUES: usize = 1 << 16;
/// Pedestal that the chain starts from, ADC counts. The channels lie around it.
pub(super) const PEDESTAL: i16 = 900;
/// Farthest that the pedestal of a channel lies from [`PEDESTAL`], ADC counts.
const PEDESTAL_SPREAD: u64 = 8;

/// Part of the samples that hits take up, at a rate of them and of samples.
pub(super) fn occupancy(hit_rate_hz: f64, samples_per_s: f64) -> f64 {
    hit_rate_hz * f64::from(HIT_SAMPLES) / samples_per_s
}

/// Samples with hits at a given rate.
#[derive(Clone, Debug)]
pub(super) struct Content {
    noise: Vec<i16>,
    gaps: Gaps,
}

impl Content {
    /// Content with `hit_rate_hz` hits a second on each channel, `0..=HIT_RATE_MAX_HZ`, at
    /// `samples_per_s` samples a second.
    pub fn new(hit_rate_hz: f64, samples_per_s: f64) -> Self {
        let mut random = Random::new(0);
        let mut noise = || (random.normal() * NOISE_RMS).round() as i16;
        Self {
            noise: (0..NOISE_VALUES).map(|_| noise()).collect(),
            gaps: Gaps::new(hit_rate_hz / samples_per_s),
        }
    }

    /// Samples of one stream of `CHANNELS` channels, different for each seed.
    pub fn stream<const CHANNELS: usize>(&self, seed: u64) -> Stream<'_, CHANNELS> {
        let mut random = Random::new(seed);
        let gaps = self.gaps;
        let channels = std::array::from_fn(|_| Channel {
            pedestal: PEDESTAL - PEDESTAL_SPREAD as i16
                + random.below(2 * PEDESTAL_SPREAD + 1) as i16,
            height: 0,
            samples_left: gaps.draw(&mut random),
        });
        Stream { noise: &self.noise, random, gaps, channels }
    }
}

/// The samples of a stream, one time after the other.
#[derive(Clone, Debug)]
pub(super) struct Stream<'a, const CHANNELS: usize> {
    noise: &'a [i16],
    random: Random,
    gaps: Gaps,
    channels: [Channel; CHANNELS],
}

impl<const CHANNELS: usize> Stream<'_, CHANNELS> {
    /// Takes the next sample of every channel.
    pub fn sample(&mut self, row: &mut [u16; CHANNELS]) {
        for (row, channels) in row.chunks_mut(4).zip(self.channels.chunks_mut(4)) {
            let mut bits = self.random.bits();
            for (adc, channel) in row.iter_mut().zip(channels) {
                let noise = self.noise[bits as usize % NOISE_VALUES];
                bits >>= 16;
                *adc = (channel.level(&self.gaps, &mut self.random) + noise) as u16;
            }
        }
    }
}

/// What a channel does without its noise.
#[derive(Clone, Copy, Debug)]
struct Channel {
    pedestal: i16,
    /// Height of the hit; 0 between hits.
    height: i16,
    /// Samples until the hit or the gap ends.
    samples_left: u32,
}

impl Channel {
    fn level(&mut self, gaps: &Gaps, random: &mut Random) -> i16 {
        if self.samples_left == 0 {
            (self.height, self.samples_left) = match self.height {
                0 => ((HEIGHT_MIN + random.below(HEIGHTS)) as i16, HIT_SAMPLES),
                _ => (0, gaps.draw(random)),
            };
        }
        self.samples_left -= 1;
        self.pedestal + self.height
    }
}

/// Lengths of the gaps between hits: geometric, so that hits come at random.
#[derive(Clone, Copy, Debug)]
struct Gaps {
    /// Mean of the exponential distribution whose whole part is drawn; none without hits.
    mean: Option<f64>,
}

impl Gaps {
    fn new(hits_per_sample: f64) -> Self {
        let beyond_min = 1.0 / hits_per_sample - f64::from(HIT_SAMPLES + GAP_MIN);
        Self { mean: (hits_per_sample > 0.0).then(|| (1.0 / beyond_min).ln_1p().recip()) }
    }

    fn draw(&self, random: &mut Random) -> u32 {
        // A conversion to an integer stops at its bounds, so the sum cannot overflow.
        self.mean.map_or(u32::MAX, |mean| GAP_MIN.saturating_add(random.exponential(mean) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLES_PER_S: f64 = 62.5e6 / 32.0;

    /// Hits that begin, and the samples of hits, in `samples` samples of 64 channels.
    fn count(hit_rate_hz: f64, samples: usize) -> (f64, f64) {
        let content = Content::new(hit_rate_hz, SAMPLES_PER_S);
        let mut stream = content.stream::<64>(7);
        let (mut row, mut over) = ([0; 64], [false; 64]);
        let (mut hits, mut inside) = (0, 0);
        for _ in 0..samples {
            stream.sample(&mut row);
            for (adc, over) in row.iter().zip(&mut over) {
                let now = *adc > PEDESTAL as u16 + 100;
                hits += u32::from(now && !*over);
                inside += u32::from(now);
                *over = now;
            }
        }
        (f64::from(hits), f64::from(inside))
    }

    #[test]
    fn the_samples_have_as_many_hits_as_asked_for() {
        let samples = 30_000;
        for rate_hz in [2e3, 20e3, 90e3, HIT_RATE_MAX_HZ] {
            let (hits, inside) = count(rate_hz, samples);
            let found_hz = hits / 64.0 / (samples as f64 / SAMPLES_PER_S);
            assert!((found_hz / rate_hz - 1.0).abs() < 0.1, "{rate_hz} asked, {found_hz} found");
            let length = inside / hits;
            assert!((length - f64::from(HIT_SAMPLES)).abs() < 0.1, "{length} samples a hit");
            let share = inside / 64.0 / samples as f64;
            let told = occupancy(rate_hz, SAMPLES_PER_S);
            assert!((share / told - 1.0).abs() < 0.1, "{share} of the samples, {told} told");
        }
        assert_eq!(count(0.0, 1000), (0.0, 0.0), "no hits at a rate of 0");
    }

    #[test]
    fn noise_and_pedestals_are_as_told() {
        let content = Content::new(0.0, SAMPLES_PER_S);
        let mut stream = content.stream::<64>(1);
        let mut row = [0; 64];
        let (n, mut sum, mut squares) = (20_000, [0.0; 64], [0.0; 64]);
        for _ in 0..n {
            stream.sample(&mut row);
            for (c, &adc) in row.iter().enumerate() {
                sum[c] += f64::from(adc);
                squares[c] += f64::from(adc).powi(2);
            }
        }
        let n = f64::from(n);
        for (c, channel) in stream.channels.iter().enumerate() {
            let mean = sum[c] / n;
            let rms = (squares[c] / n - mean * mean).sqrt();
            assert!((mean - f64::from(channel.pedestal)).abs() < 0.2, "channel {c}: {mean}");
            assert!((rms - NOISE_RMS).abs() < 0.2, "channel {c}: {rms}");
            assert!(channel.pedestal.abs_diff(PEDESTAL) <= PEDESTAL_SPREAD as u16);
        }
        assert!(stream.channels.iter().any(|channel| channel.pedestal != PEDESTAL));
    }
}
