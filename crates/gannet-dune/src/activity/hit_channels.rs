//! The channels that have hits in a window.

/// Farthest that the next hit channel may be for a run to go on: four channels may be missed.
pub(super) const REACH: u32 = 5;

/// How many hits each channel has, with the channels that have any as bits.
///
/// Memory grows to the largest channel number seen, at most 66 MB for 24 bits, and is kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct HitChannels {
    hits: Vec<u32>,
    bits: Vec<u64>,
    distinct: u32,
}

impl HitChannels {
    /// Adds a hit; says whether the channel had none before.
    pub(crate) fn insert(&mut self, channel: u32) -> bool {
        let index = channel as usize;
        if index >= self.hits.len() {
            self.grow(index);
        }
        self.hits[index] += 1;
        let first = self.hits[index] == 1;
        if first {
            self.bits[index / 64] |= 1 << (index % 64);
            self.distinct += 1;
        }
        first
    }

    /// Takes away a hit that was inserted; says whether the channel has none left.
    pub(crate) fn remove(&mut self, channel: u32) -> bool {
        let index = channel as usize;
        self.hits[index] -= 1;
        let last = self.hits[index] == 0;
        if last {
            self.bits[index / 64] &= !(1 << (index % 64));
            self.distinct -= 1;
        }
        last
    }

    /// Number of channels with hits.
    pub(crate) fn distinct(&self) -> u32 {
        self.distinct
    }

    /// Whether `channel` has hits.
    pub(super) fn contains(&self, channel: u32) -> bool {
        self.bits_from(channel) & 1 != 0
    }

    /// Next channel with hits after `channel`, if within [`REACH`].
    pub(super) fn next(&self, channel: u32) -> Option<u32> {
        let near = self.bits_from(channel + 1) & ((1 << REACH) - 1);
        (near != 0).then(|| channel + 1 + near.trailing_zeros())
    }

    /// Last channel with hits before `channel`, if within [`REACH`].
    pub(super) fn previous(&self, channel: u32) -> Option<u32> {
        let from = channel.saturating_sub(REACH);
        let near = self.bits_from(from) & ((1 << (channel - from)) - 1);
        (near != 0).then(|| from + near.ilog2())
    }

    /// The bits of 64 channels from `channel` on; channels never seen have no hits.
    fn bits_from(&self, channel: u32) -> u64 {
        let (word, shift) = (channel as usize / 64, channel % 64);
        let bits = |word: usize| self.bits.get(word).copied().unwrap_or(0);
        match shift {
            0 => bits(word),
            _ => bits(word) >> shift | bits(word + 1) << (64 - shift),
        }
    }

    #[cold]
    fn grow(&mut self, index: usize) {
        let words = (index / 64 + 1).next_power_of_two();
        self.bits.resize(words, 0);
        self.hits.resize(words * 64, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn agrees_with_a_map_of_counts(
            steps in prop::collection::vec((0u32..200, any::<bool>()), 1..200)
        ) {
            let (mut hits, mut map) = (HitChannels::default(), BTreeMap::<u32, u32>::new());
            for (channel, insert) in steps {
                if insert {
                    let count = map.entry(channel).or_default();
                    *count += 1;
                    prop_assert_eq!(hits.insert(channel), *count == 1);
                } else if let Some(count) = map.get_mut(&channel) {
                    *count -= 1;
                    let last = *count == 0;
                    if last {
                        map.remove(&channel);
                    }
                    prop_assert_eq!(hits.remove(channel), last);
                }
                prop_assert_eq!(hits.distinct() as usize, map.len());
            }
            for channel in 0..260u32 {
                prop_assert_eq!(hits.contains(channel), map.contains_key(&channel));
                let next = map.range(channel + 1..=channel + REACH).next().map(|(&c, _)| c);
                prop_assert_eq!(hits.next(channel), next);
                let previous = map.range(channel.saturating_sub(REACH)..channel).next_back();
                prop_assert_eq!(hits.previous(channel), previous.map(|(&c, _)| c));
            }
        }
    }
}
