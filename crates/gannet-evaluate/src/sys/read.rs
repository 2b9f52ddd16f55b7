//! Ways to read memory, for the fastest of them is the limit.
//!
//! Each adds up all words of the bytes, so that none can be left out. Compilers make vectors of
//! the additions; fetching ahead needs an instruction that only unsafe code may use.
#![allow(unsafe_code)]

use std::fmt;

use serde::Serialize;

/// Bytes of a cache line.
const LINE: usize = 64;

/// A way to read memory from end to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Way {
    /// From the first byte to the last.
    Plain,
    /// The same, fetching the line that lies 512 bytes ahead.
    Ahead512,
    /// The same, fetching the line that lies 1024 bytes ahead.
    Ahead1024,
    /// The two halves side by side.
    Two,
    /// The same, fetching the lines that lie 1024 bytes ahead.
    TwoAhead1024,
    /// The four quarters side by side.
    Four,
    /// The same, fetching the lines that lie 1024 bytes ahead.
    FourAhead1024,
}

impl Way {
    /// All ways.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Ahead512,
        Self::Ahead1024,
        Self::Two,
        Self::TwoAhead1024,
        Self::Four,
        Self::FourAhead1024,
    ];

    /// Sum of the 64-bit words of `bytes`, modulo 2^64; a last part of a word is passed over.
    pub(crate) fn sum(self, bytes: &[u8]) -> u64 {
        match self {
            Self::Plain => sum::<1, 0>(bytes),
            Self::Ahead512 => sum::<1, 512>(bytes),
            Self::Ahead1024 => sum::<1, 1024>(bytes),
            Self::Two => sum::<2, 0>(bytes),
            Self::TwoAhead1024 => sum::<2, 1024>(bytes),
            Self::Four => sum::<4, 0>(bytes),
            Self::FourAhead1024 => sum::<4, 1024>(bytes),
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plain => "plain loads",
            Self::Ahead512 => "fetching 512 bytes ahead",
            Self::Ahead1024 => "fetching 1024 bytes ahead",
            Self::Two => "two positions",
            Self::TwoAhead1024 => "two positions, fetching 1024 bytes ahead",
            Self::Four => "four positions",
            Self::FourAhead1024 => "four positions, fetching 1024 bytes ahead",
        })
    }
}

/// The sum with the widest vectors that the machine has.
fn sum<const POSITIONS: usize, const AHEAD: usize>(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        if std::is_x86_feature_detected!("avx512f") {
            // SAFETY: the instruction set was found the line before.
            return unsafe { sum_avx512::<POSITIONS, AHEAD>(bytes) };
        }
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the instruction set was found the line before.
            return unsafe { sum_avx2::<POSITIONS, AHEAD>(bytes) };
        }
    }
    sum_lines::<POSITIONS, AHEAD>(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn sum_avx512<const POSITIONS: usize, const AHEAD: usize>(bytes: &[u8]) -> u64 {
    sum_lines::<POSITIONS, AHEAD>(bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sum_avx2<const POSITIONS: usize, const AHEAD: usize>(bytes: &[u8]) -> u64 {
    sum_lines::<POSITIONS, AHEAD>(bytes)
}

/// The sum over `POSITIONS` equal parts of the bytes side by side, fetching `AHEAD` bytes ahead.
#[inline(always)]
fn sum_lines<const POSITIONS: usize, const AHEAD: usize>(bytes: &[u8]) -> u64 {
    let (lines, rest) = bytes.as_chunks::<LINE>();
    let part = lines.len() / POSITIONS;
    let (parts, left) = lines.split_at(part * POSITIONS);
    let parts: [&[[u8; LINE]]; POSITIONS] = std::array::from_fn(|p| &parts[p * part..][..part]);
    // Independent sums, so that memory and not the chain of additions sets the pace.
    let mut sums = [[0_u64; LINE / 8]; POSITIONS];
    for line in 0..part {
        for (sums, part) in sums.iter_mut().zip(parts) {
            fetch::<AHEAD>(&part[line]);
            for (sum, bytes) in sums.iter_mut().zip(part[line].as_chunks::<8>().0) {
                *sum = sum.wrapping_add(u64::from_le_bytes(*bytes));
            }
        }
    }
    let left = left.as_flattened().as_chunks::<8>().0.iter().chain(rest.as_chunks::<8>().0);
    let left = left.map(|bytes| u64::from_le_bytes(*bytes));
    sums.into_iter().flatten().chain(left).fold(0, u64::wrapping_add)
}

/// Asks for the line that lies `AHEAD` bytes after `line`, if that is not 0.
#[inline(always)]
fn fetch<const AHEAD: usize>(line: &[u8; LINE]) {
    #[cfg(target_arch = "x86_64")]
    if AHEAD > 0 {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let ahead = line.as_ptr().wrapping_add(AHEAD).cast();
        // SAFETY: a hint; it reads nothing, and addresses outside any mapping are ignored.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(ahead) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_in_the_sum_in_every_way() {
        for len in [0, 7, 8, 64, 7200, 64 * 7 + 24] {
            let bytes: Vec<u8> = (0..len).map(|i: u32| (i * i + 7) as u8).collect();
            let words = bytes.chunks_exact(8).map(|word| word.try_into().unwrap());
            let naive = words.map(u64::from_le_bytes).fold(0, u64::wrapping_add);
            for way in Way::ALL {
                assert_eq!(way.sum(&bytes), naive, "{way}, {len} bytes");
            }
        }
    }

    #[test]
    fn all_instruction_sets_give_the_sum() {
        let bytes: Vec<u8> = (0..7200_u32).map(|i| (i * 7) as u8).collect();
        assert_eq!(sum_lines::<2, 512>(&bytes), Way::Plain.sum(&bytes));
        #[cfg(target_arch = "x86_64")]
        if std::is_x86_feature_detected!("avx2") {
            // SAFETY: the instruction set was found the line before.
            assert_eq!(unsafe { sum_avx2::<4, 512>(&bytes) }, Way::Plain.sum(&bytes));
        }
    }
}
