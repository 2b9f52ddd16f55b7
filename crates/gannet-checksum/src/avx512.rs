//! Sums by carry-less products of 512 bits.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::avx2::Avx2;
use crate::folding::{self, Lanes};
use crate::shm::{Piece, Source};

/// Bytes of a vector.
const BYTES: usize = 64;
/// Bytes that are summed side by side.
const BLOCK: usize = 4 * BYTES;

/// Proof that the machine has carry-less products of 512 bits, and those of 256.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(Avx2);

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        let narrow = Avx2::detect()?;
        is_x86_feature_detected!("avx512f").then_some(Self(narrow))
    }

    /// What the register becomes by `bytes`.
    #[inline]
    pub(crate) fn sum(self, register: u32, bytes: Source<'_>) -> u32 {
        // SAFETY: an `Avx512` exists only where the features were found.
        unsafe { sum(self, register, bytes) }
    }

    /// Copies all of `from` to `to`, and gives what the register becomes by these bytes.
    #[inline]
    pub(crate) fn copy(self, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
        // SAFETY: as above.
        unsafe { copy(self, register, from, to) }
    }
}

#[target_feature(enable = "avx512f,avx2,vpclmulqdq,pclmulqdq,sse4.2")]
fn sum(lanes: Avx512, register: u32, bytes: Source<'_>) -> u32 {
    folding::advance::<_, BYTES, BLOCK>(lanes, register, bytes, None)
}

#[target_feature(enable = "avx512f,avx2,vpclmulqdq,pclmulqdq,sse4.2")]
fn copy(lanes: Avx512, register: u32, from: Source<'_>, to: &mut [u8]) -> u32 {
    folding::advance::<_, BYTES, BLOCK>(lanes, register, from, Some(to))
}

impl Lanes<BYTES> for Avx512 {
    type Vector = __m512i;

    #[inline(always)]
    fn load(self, from: Piece<'_, BYTES>) -> Self::Vector {
        // SAFETY: the features were found, and all bytes may be read.
        unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
    }

    #[inline(always)]
    fn store(self, vector: Self::Vector, to: &mut [u8; BYTES]) {
        // SAFETY: the features were found, and all bytes may be written.
        unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), vector) }
    }

    #[inline(always)]
    fn start(self, register: u32) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm512_zextsi128_si512(_mm_cvtsi32_si128(register as i32)) }
    }

    #[inline(always)]
    fn halves(self, [low, high]: [i64; 2]) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm512_set_epi64(high, low, high, low, high, low, high, low) }
    }

    #[inline(always)]
    fn added(self, left: Self::Vector, right: Self::Vector) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe { _mm512_xor_si512(left, right) }
    }

    #[inline(always)]
    fn folded(self, sum: Self::Vector, factors: Self::Vector, next: Self::Vector) -> Self::Vector {
        // SAFETY: the features were found.
        unsafe {
            let low = _mm512_clmulepi64_epi128::<0x00>(sum, factors);
            let high = _mm512_clmulepi64_epi128::<0x11>(sum, factors);
            _mm512_ternarylogic_epi64::<0x96>(low, high, next)
        }
    }

    #[inline(always)]
    fn word(self, register: u32, word: [u8; 8]) -> u32 {
        self.0.word(register, word)
    }

    #[inline(always)]
    fn half_word(self, register: u32, half: [u8; 4]) -> u32 {
        self.0.half_word(register, half)
    }

    #[inline(always)]
    fn byte(self, register: u32, byte: u8) -> u32 {
        self.0.byte(register, byte)
    }
}
