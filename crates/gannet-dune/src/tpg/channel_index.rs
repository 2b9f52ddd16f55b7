//! Which channel of a stream has an offline number.

use gannet_kernels::tpg::CHANNELS;
use gannet_measure::random::Random;

/// Slots of the table; a power of two. With 16 slots to a channel about one multiplier in eight
/// gives all channels a slot of their own.
const SLOTS: usize = 1024;

/// Most multipliers to try; that none of them fits does not happen.
const TRIES_MAX: usize = 4096;

/// Finds the index of an offline channel number among the 64 of a stream with one multiplication,
/// because it is asked for every primitive.
#[derive(Clone, Debug)]
pub(super) struct ChannelIndex {
    multiplier: u32,
    slots: Box<[u8; SLOTS]>,
}

impl ChannelIndex {
    /// The index of `channels`. Of equal numbers one index is found, of others any.
    pub(super) fn new(channels: &[u32; CHANNELS]) -> Self {
        let mut random = Random::new(1);
        let mut index = Self { multiplier: 1, slots: Box::new([0; SLOTS]) };
        for _ in 0..TRIES_MAX {
            index.multiplier = random.bits() as u32 | 1;
            if index.fill(channels) {
                break;
            }
        }
        index
    }

    /// Index of `channel` in the stream, 0 to 63.
    #[inline]
    pub(super) fn of(&self, channel: u32) -> usize {
        usize::from(self.slots[self.slot(channel)])
    }

    fn slot(&self, channel: u32) -> usize {
        (channel.wrapping_mul(self.multiplier) >> (32 - SLOTS.ilog2())) as usize
    }

    /// Fills the slots; says whether no two numbers share one.
    fn fill(&mut self, channels: &[u32; CHANNELS]) -> bool {
        let mut taken = [false; SLOTS];
        for (index, &channel) in channels.iter().enumerate() {
            let slot = self.slot(channel);
            if taken[slot] && channels[usize::from(self.slots[slot])] != channel {
                return false;
            }
            taken[slot] = true;
            self.slots[slot] = index as u8;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_channel_is_found(first in 0u32..1 << 23, steps in prop::array::uniform32(1u32..90)) {
            let mut next = first;
            let channels: [u32; CHANNELS] = std::array::from_fn(|i| {
                next += steps[i / 2];
                next
            });
            let index = ChannelIndex::new(&channels);
            for (i, &channel) in channels.iter().enumerate() {
                prop_assert_eq!(index.of(channel), i);
            }
        }
    }

    #[test]
    fn equal_numbers_do_not_hinder_the_others() {
        let mut channels = [0xff_ffff; CHANNELS];
        channels[5] = 77;
        let index = ChannelIndex::new(&channels);
        assert_eq!(index.of(77), 5);
        assert_ne!(index.of(0xff_ffff), 5);
    }
}
