//! What memory gives on this machine, for comparison.

use std::hint::black_box;
use std::time::Instant;

use gannet_memory::{Region, RegionError};
use serde::Serialize;

/// Bytes of the frames that are copied and read: more than the caches of a core hold.
const BUFFER_BYTES: usize = 256 << 20;
/// Times that each is done. The fastest counts: a limit is what can be reached.
const PASSES: usize = 8;

/// What one core does with frames in memory, on the pages that frames land on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryLimits {
    /// Copying frames of the given length into a ring, in Gbit/s of frames.
    pub copy_gbit_per_s: f64,
    /// Adding up all bytes of such frames, in Gbit/s.
    pub read_gbit_per_s: f64,
}

impl MemoryLimits {
    /// Measures with frames of `frame_bytes` bytes and a ring of `ring_frames` frames.
    ///
    /// # Errors
    /// When the memory cannot be had.
    ///
    /// # Panics
    /// When a frame or the ring has no bytes.
    pub fn measure(frame_bytes: usize, ring_frames: usize) -> Result<Self, RegionError> {
        let frames = BUFFER_BYTES / frame_bytes;
        let mut source = Region::map(frames * frame_bytes)?;
        let mut ring = Region::map(ring_frames * frame_bytes)?;
        let source = &mut source.bytes_mut()[..frames * frame_bytes];
        let ring = &mut ring.bytes_mut()[..ring_frames * frame_bytes];
        let numbered = source.chunks_exact_mut(frame_bytes).enumerate();
        numbered.for_each(|(number, frame)| frame.fill(number as u8));
        let copied_ns = fastest_ns(|| copy_frames(source, ring, frame_bytes));
        let read_ns = fastest_ns(|| _ = black_box(sum_frames(source, frame_bytes)));
        let bits = 8.0 * (frames * frame_bytes) as f64;
        Ok(Self { copy_gbit_per_s: bits / copied_ns, read_gbit_per_s: bits / read_ns })
    }
}

/// Copies all frames of `source` into `ring`, one after the other, again and again around it.
fn copy_frames(source: &[u8], ring: &mut [u8], frame_bytes: usize) {
    for frames in source.chunks(ring.len()) {
        let pairs = ring.chunks_exact_mut(frame_bytes).zip(frames.chunks_exact(frame_bytes));
        pairs.for_each(|(cell, frame)| cell.copy_from_slice(frame));
        black_box(&mut *ring);
    }
}

/// Reads all frames of `source`.
fn sum_frames(source: &[u8], frame_bytes: usize) -> u64 {
    source.chunks_exact(frame_bytes).map(sum).fold(0, u64::wrapping_add)
}

/// Time that `work` takes when nothing disturbs it, in nanoseconds.
fn fastest_ns(mut work: impl FnMut()) -> f64 {
    let mut time = || {
        let begin = Instant::now();
        work();
        begin.elapsed().as_nanos() as f64
    };
    (0..PASSES).map(|_| time()).fold(f64::INFINITY, f64::min)
}

/// Sum of the 64-bit words of `bytes`, modulo 2^64; a last part of a word is passed over.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    // Independent sums, so that memory and not the chain of additions sets the pace.
    let mut sums = [0_u64; 8];
    let (lines, rest) = bytes.as_chunks::<64>();
    for line in lines {
        for (sum, bytes) in sums.iter_mut().zip(line.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(word(bytes));
        }
    }
    let rest = rest.as_chunks::<8>().0.iter().map(word);
    sums.into_iter().chain(rest).fold(0, u64::wrapping_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_in_the_sum() {
        let bytes: Vec<u8> = (0..7200_u32).map(|i| (i * 7) as u8).collect();
        let naive = bytes.chunks_exact(8).fold(0_u64, |sum, word| {
            sum.wrapping_add(u64::from_le_bytes(word.try_into().unwrap()))
        });
        assert_eq!(sum(&bytes), naive, "7200 bytes are 112 lines and a half");
        let mut last = bytes.clone();
        last[7199] ^= 1;
        assert_ne!(sum(&last), naive);
        assert_eq!(sum(&[0xff; 16]), u64::MAX - 1, "modulo 2^64");
    }

    #[test]
    fn frames_go_around_the_ring_whole() {
        let source: Vec<u8> = (1..=6).flat_map(|value| [value; 64]).collect();
        let mut ring = [0; 4 * 64];
        copy_frames(&source, &mut ring, 64);
        let kept: Vec<u8> = ring.chunks(64).map(|frame| frame[63]).collect();
        assert_eq!(kept, [5, 6, 3, 4]);
        let sum = 8 * 0x0101_0101_0101_0101 * (1 + 2 + 3 + 4 + 5 + 6);
        assert_eq!(sum_frames(&source, 64), sum);
    }
}
