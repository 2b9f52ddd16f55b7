//! What memory gives on this machine, for comparison.

use std::hint::black_box;
use std::time::{Duration, Instant};

use serde::Serialize;

/// Buffer that no cache holds, in bytes.
const BUFFER_BYTES: usize = 256 << 20;
/// Time for which each figure is taken.
const TIME: Duration = Duration::from_millis(400);

/// What one core does with memory that is not in its caches.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MemoryLimits {
    /// Copying frames of the given length into a ring, in Gbit/s of frames.
    pub copy_gbit_per_s: f64,
    /// Adding up all bytes, in Gbit/s.
    pub read_gbit_per_s: f64,
}

impl MemoryLimits {
    /// Measures with frames of `frame_bytes` bytes and a ring of `ring_frames` frames.
    pub fn measure(frame_bytes: usize, ring_frames: usize) -> Self {
        let source = vec![0x5a_u8; BUFFER_BYTES];
        let mut ring = vec![0_u8; frame_bytes * ring_frames];
        let copied = rate(|| copy_frames(&source, &mut ring, frame_bytes));
        let read = rate(|| {
            black_box(sum(black_box(&source)));
            source.len()
        });
        Self { copy_gbit_per_s: copied, read_gbit_per_s: read }
    }
}

/// Copies as many frames as fit from one end of `source` to the other, around the ring.
fn copy_frames(source: &[u8], ring: &mut [u8], frame_bytes: usize) -> usize {
    let mut cells = 0;
    for (frame, place) in source.chunks_exact(frame_bytes).zip(0..) {
        let at = place * frame_bytes % ring.len();
        ring[at..at + frame_bytes].copy_from_slice(frame);
        cells += 1;
    }
    black_box(&*ring);
    cells * frame_bytes
}

/// Rate of `work`, which says how many bytes it did, in Gbit/s; its first call warms up.
fn rate(mut work: impl FnMut() -> usize) -> f64 {
    work();
    let (begin, mut bytes) = (Instant::now(), 0);
    while begin.elapsed() < TIME {
        bytes += work();
    }
    bytes as f64 * 8e-9 / begin.elapsed().as_secs_f64()
}

/// Sum of the 64-bit words of `bytes`, modulo 2^64; a last part of a word is passed over.
#[inline]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    // Independent sums, so that memory and not the chain of additions sets the pace.
    let mut sums = [0_u64; 8];
    let (lines, rest) = bytes.as_chunks::<64>();
    for words in lines.iter().map(|line| line.as_slice()).chain([rest]) {
        for (sum, word) in sums.iter_mut().zip(words.as_chunks::<8>().0) {
            *sum = sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }
    sums.iter().fold(0, |total, sum| total.wrapping_add(*sum))
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
        let source: Vec<u8> = (0..96).collect();
        let mut ring = vec![0; 32];
        assert_eq!(copy_frames(&source, &mut ring, 16), 96);
        assert_eq!(ring[..16], source[64..80]);
        assert_eq!(ring[16..], source[80..]);
    }
}
