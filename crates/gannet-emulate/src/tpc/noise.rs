//! Pedestals and noise: a pool of packed blocks, made once, that frames borrow.

use gannet_measure::random::Random;
use gannet_wire::adc14::{self, BLOCK_LEN, Block, CHANNELS, SAMPLES};
use gannet_wire::channel_map::COLLECTION;

use super::config::Noise;
use crate::config::ConfigError;
use crate::seeds::{Purpose, family};

/// Most blocks of all pools together: 235 MB.
const BLOCKS_MAX: usize = 32_768;

/// Plane of each channel of a stream.
pub(crate) type Planes = [u8; CHANNELS];

/// Noise blocks for every stream; streams whose channels lie in the same planes share a pool.
#[derive(Clone, Debug)]
pub(crate) struct NoisePool {
    blocks: Vec<Block>,
    per_pattern: usize,
    /// Per stream: its first block, and the seed that chooses among its blocks.
    streams: Vec<(usize, u64)>,
}

impl NoisePool {
    /// Makes the blocks for streams with these `planes`.
    pub(crate) fn new(config: &Noise, seed: u64, planes: &[Planes]) -> Result<Self, ConfigError> {
        let mut patterns: Vec<Planes> = planes.to_vec();
        patterns.sort_unstable();
        patterns.dedup();
        if patterns.len() * config.blocks > BLOCKS_MAX {
            let allowed = format!(
                "the channel map has {} different plane patterns; expected at most {} blocks",
                patterns.len(),
                BLOCKS_MAX / patterns.len()
            );
            return Err(ConfigError::new("noise.blocks", config.blocks, allowed));
        }
        let mut blocks = Vec::with_capacity(patterns.len() * config.blocks);
        for (number, pattern) in patterns.iter().enumerate() {
            let mut random = Random::new(family(seed, Purpose::Noise, number));
            let pedestals = pedestals(config, pattern, &mut random);
            blocks.extend(
                (0..config.blocks).map(|_| noise_block(config, pattern, &pedestals, &mut random)),
            );
        }
        let stream = |(number, pattern): (usize, &Planes)| {
            let pool = patterns.partition_point(|other| other < pattern);
            (pool * config.blocks, family(seed, Purpose::Choice, number))
        };
        let streams = planes.iter().enumerate().map(stream).collect();
        Ok(Self { blocks, per_pattern: config.blocks, streams })
    }

    /// Number of the block that frame `index` of `stream` carries.
    #[inline]
    pub(crate) fn choose(&self, stream: usize, index: u64) -> usize {
        let (first, seed) = self.streams[stream];
        first + Random::stream(seed, index).below(self.per_pattern as u64) as usize
    }

    /// A block by its number.
    #[inline]
    pub(crate) fn block(&self, number: usize) -> &Block {
        &self.blocks[number]
    }
}

/// Draws the pedestal of each channel.
fn pedestals(config: &Noise, planes: &Planes, random: &mut Random) -> [f64; CHANNELS] {
    planes.map(|plane| {
        let (mean, spread) = match plane {
            COLLECTION => (config.collection_pedestal, config.collection_spread),
            _ => (config.induction_pedestal, config.induction_spread),
        };
        mean + spread * (2.0 * random.unit() - 1.0)
    })
}

/// Draws one block of noise around `pedestals`.
fn noise_block(
    config: &Noise,
    planes: &Planes,
    pedestals: &[f64; CHANNELS],
    random: &mut Random,
) -> Block {
    let mut samples = [[0; CHANNELS]; SAMPLES];
    for row in &mut samples {
        for (channel, adc) in row.iter_mut().enumerate() {
            let rms = match planes[channel] {
                COLLECTION => config.collection_rms,
                _ => config.induction_rms,
            };
            let noise = random.normal().clamp(-Noise::SIGMAS_MAX, Noise::SIGMAS_MAX);
            *adc = (pedestals[channel] + rms * noise).round() as u16;
        }
    }
    let mut block = [0; BLOCK_LEN];
    adc14::pack(&samples, &mut block);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 induction channels, then 32 collection channels.
    const HALVES: Planes = {
        let mut planes = [0; CHANNELS];
        let mut channel = 32;
        while channel < CHANNELS {
            planes[channel] = COLLECTION;
            channel += 1;
        }
        planes
    };

    #[test]
    fn pedestal_and_noise_are_those_of_the_plane() {
        let config = Noise { blocks: 16, ..Noise::default() };
        let pool = NoisePool::new(&config, 1, &[HALVES]).unwrap();
        for channel in 0..CHANNELS {
            let values: Vec<f64> = (0..16)
                .flat_map(|block| (0..SAMPLES).map(move |sample| (block, sample)))
                .map(|(block, sample)| f64::from(adc14::get(pool.block(block), channel, sample)))
                .collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let square: f64 = values.iter().map(|adc| (adc - mean).powi(2)).sum();
            let rms = (square / values.len() as f64).sqrt();
            // 1024 samples: the mean is known to 0.4 counts, the RMS to 2.2 %; 4 of each allowed.
            let (pedestal, spread, expected_rms) =
                if channel < 32 { (8200.0, 50.0, 12.0) } else { (840.0, 140.0, 9.0) };
            assert!((mean - pedestal).abs() < spread + 1.6, "channel {channel}: {mean}");
            assert!((rms / expected_rms - 1.0).abs() < 0.09, "channel {channel}: {rms}");
            let reach = values.iter().map(|adc| (adc - mean).abs()).fold(0.0, f64::max);
            assert!(reach < 4.0 * expected_rms + 3.0, "channel {channel}: {reach}");
        }
    }

    #[test]
    fn streams_share_a_pool_only_if_their_planes_agree() {
        let config = Noise { blocks: 8, ..Noise::default() };
        let planes = [HALVES, [0; CHANNELS], HALVES];
        let pool = NoisePool::new(&config, 1, &planes).unwrap();
        assert_eq!(pool.blocks.len(), 16);
        assert_eq!(pool.streams[0].0, pool.streams[2].0);
        assert_ne!(pool.streams[0].0, pool.streams[1].0);
        let choices = |stream| (0..64).map(|i| pool.choose(stream, i)).collect::<Vec<_>>();
        assert_ne!(choices(0), choices(2));
        assert!((0..8).all(|block| choices(0).contains(&(pool.streams[0].0 + block))));
    }

    #[test]
    fn too_many_patterns_are_refused() {
        let config = Noise { blocks: 1024, ..Noise::default() };
        let planes: Vec<Planes> =
            (0..33).map(|n| std::array::from_fn(|c| u8::from(c < n))).collect();
        let error = NoisePool::new(&config, 1, &planes).unwrap_err();
        assert_eq!(error.key, "noise.blocks");
    }
}
