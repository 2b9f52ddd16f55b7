//! Sums by carry-less products of 256 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::folding::{self, Lanes};
use crate::shm::{Piece, Source};

/// Bytes of a vector.
const BYTES: usize = 32;
/// Bytes that are summed side by side.
const BLOCK: usize = 4 * BYTES;

/// Proof that the machine has carry-less products of 256 bits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("pclmulqdq")
            && is_x86_feature_detected!("sse4.2");
        found.then_some(Self(()))
    }

    /// What the register becomes by `bytes`.
    #[inline]
    pub(crate) fn sum(self, register: u32, bytes: Source<'_>) -> u32 {
        // SAFETY: an `Avx2` exists only where the features were found.
        unsafe { sum(self, register, bytes) }
    }

    /// Copies all of `from` to `to`, and gives what the register becomes by these bytes.
    #[inline]
    pub(crate) fn copy(self, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
        // SAFETY: as above.
        unsafe { copy(self, register, from, to) }
    }
}

#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,sse4.2")]
fn sum(lanes: Avx2, register: u32, bytes: Source<'_>) -> u32 {
    folding::advance::<_, BYTES, BLOCK>(lanes, register, bytes, None)
}

#[target_feature(enable = "avx2,vpclmulqdq,pclmulqdq,sse4.2")]
fn copy(lanes: Avx2, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
    folding::advance::<_, BYTES, BLOCK>(lanes, register, from, Some(to))
}

impl Lanes<BYTES> for Avx2 {
    type Vector = __m256i;

    #[inline(always)]
    fn load(self, from: Piece<'_, BYTES>) -> Self::Vector {
        // SAFETY: the features were found, and all bytes may be read.
        unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, to: &mut [u8; BYTES]) {
        // SAFETY: the features were found, and all bytes may be written.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn start(self, register: u32) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm256_zextsi128_si256(_mm_cvtsi32_si128(register as i32)) }
    }

    #[inline(always)]
    fn halves(self, [low, high]: [i64; 2]) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm256_set_epi64x(high, low, high, low) }
    }

    #[inline(always)]
    fn added(self, left: Self::Vector, right: Self::Vector) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm256_xor_si256(left, right) }
    }

    #[inline(always)]
    fn folded(self, sum: Self::Vector, factors: Self::Vector, next: Self::Vector) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe {
            let low = _mm256_clmulepi64_epi128::<0x00>(sum, factors);
            let high = _mm256_clmulepi64_epi128::<0x11>(sum, factors);
            _mm256_xor_si256(_mm256_xor_si256(low, high), next)
        }
    }

    #[inline(always)]
    fn word(self, register: u32, word: [u8; 8]) -> u32 {
        // SAFETY: the features were found.
        unsafe { _mm_crc32_u64(register.into(), u64::from_le_bytes(word)) as u32 }
    }

    #[inline(always)]
    fn half_word(self, register: u32, half: [u8; 4]) -> u32 {
        // SAFETY: the features were found.
        unsafe { _mm_crc32_u32(register, u32::from_le_bytes(half)) }
    }

    #[inline(always)]
    fn byte(self, register: u32, byte: u8) -> u32 {
        // SAFETY: the features were found.
        unsafe { _mm_crc32_u8(register, byte) }
    }
}
