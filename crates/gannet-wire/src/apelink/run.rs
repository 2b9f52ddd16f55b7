//! Runs of bits of a 128-bit word.

use super::Word;

/// Bits `first..=last` of a word, at most 64 of them.
#[derive(Clone, Copy)]
pub(super) struct Run {
    first: u32,
    mask: u64,
}

impl Run {
    /// The run `last:first`, written as tables of hardware do.
    pub(super) const fn new(last: u32, first: u32) -> Self {
        assert!(first <= last && last < 128 && last - first < 64, "a run has 1 to 64 bits");
        Self { first, mask: u64::MAX >> (63 - (last - first)) }
    }

    /// Value of the run in `word`.
    #[inline]
    pub(super) const fn of(self, word: Word) -> u64 {
        (word >> self.first) as u64 & self.mask
    }

    /// The low bits of `value` in their place, all other bits zero.
    #[inline]
    pub(super) const fn place(self, value: u64) -> Word {
        ((value & self.mask) as Word) << self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_may_cross_the_middle_of_the_word() {
        let run = Run::new(109, 62);
        assert_eq!(run.of(run.place(0xffff_1234_5678_9abc)), 0x1234_5678_9abc);
        assert_eq!(run.place(u64::MAX).count_ones(), 48);
        assert_eq!(Run::new(127, 64).of(Word::MAX), u64::MAX);
    }
}
