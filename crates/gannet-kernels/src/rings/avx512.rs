//! 512-bit vectors: 16 numbers are a register.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::ops::{Add, Div, Mul, Sub};

use super::lanes::{LANES, Lanes, Real, TABLE};
use crate::isa::Avx512;

impl Avx512 {
    /// Runs the work with the instruction set enabled.
    pub(super) fn run<W: super::Work>(self, work: W) -> W::Output {
        // SAFETY: `self` exists only where the features were found.
        unsafe { run(self, work) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx2,fma,bmi1,bmi2,popcnt")]
fn run<W: super::Work>(isa: Avx512, work: W) -> W::Output {
    work.run(isa)
}

/// 16 numbers. Only an [`Avx512`] makes one, so it is the proof as well.
#[derive(Clone, Copy)]
pub(super) struct Numbers(__m512);

impl Lanes for Avx512 {
    type Real = Numbers;

    #[inline(always)]
    fn prefetch(self, address: *const u8) {
        // SAFETY: a prefetch reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }

    #[inline(always)]
    fn prefetch_far(self, address: *const u8) {
        // SAFETY: a prefetch reads nothing, so any address will do.
        unsafe { _mm_prefetch::<_MM_HINT_T1>(address.cast()) }
    }

    #[inline(always)]
    fn splat(self, x: f32) -> Numbers {
        // SAFETY: `self` is the proof that the machine has the instruction.
        Numbers(unsafe { _mm512_set1_ps(x) })
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Numbers {
        // SAFETY: the reference covers the 64 bytes read, and the load needs no alignment. `self` is
        // the proof that the machine has the instruction.
        Numbers(unsafe { _mm512_loadu_ps(from.as_ptr()) })
    }

    #[inline(always)]
    fn look_up(self, table: &[f32; TABLE], indices: &[u8; LANES]) -> Numbers {
        let start = table.as_ptr();
        // SAFETY: the references cover the 4 x 64 bytes and the 16 bytes read, and the loads need no
        // alignment. `self` is the proof that the machine has the instructions.
        unsafe {
            let index = _mm512_cvtepu8_epi32(_mm_loadu_si128(indices.as_ptr().cast()));
            let (a, b) = (_mm512_loadu_ps(start), _mm512_loadu_ps(start.add(LANES)));
            let (c, d) =
                (_mm512_loadu_ps(start.add(2 * LANES)), _mm512_loadu_ps(start.add(3 * LANES)));
            let low = _mm512_permutex2var_ps(a, index, b);
            let high = _mm512_permutex2var_ps(c, index, d);
            let is_high = _mm512_test_epi32_mask(index, _mm512_set1_epi32(2 * LANES as i32));
            Numbers(_mm512_mask_blend_ps(is_high, low, high))
        }
    }

    #[inline(always)]
    fn columns(self, rows: &[[f32; 8]; LANES]) -> [Numbers; 8] {
        let start = rows.as_ptr().cast::<f32>();
        // SAFETY: the reference covers the 8 x 64 bytes read, and the loads need no alignment. `self`
        // is the proof that the machine has the instructions.
        unsafe {
            let two = |pair: usize| _mm512_loadu_ps(start.add(pair * LANES));
            // Of four rows each, the first and the last four columns.
            let low = |four: usize| _mm512_shuffle_f32x4::<0x88>(two(2 * four), two(2 * four + 1));
            let high = |four: usize| _mm512_shuffle_f32x4::<0xdd>(two(2 * four), two(2 * four + 1));
            let [a, b, c, d] = transpose([low(0), low(1), low(2), low(3)]);
            let [e, f, g, h] = transpose([high(0), high(1), high(2), high(3)]);
            [a, b, c, d, e, f, g, h].map(Numbers)
        }
    }
}

/// Transposes the 4 x 4 numbers that the registers hold in each 128 bits.
#[target_feature(enable = "avx512f")]
fn transpose([a, b, c, d]: [__m512; 4]) -> [__m512; 4] {
    let pairs = |x, y| {
        (_mm512_castps_pd(_mm512_unpacklo_ps(x, y)), _mm512_castps_pd(_mm512_unpackhi_ps(x, y)))
    };
    let ((ab, ab_high), (cd, cd_high)) = (pairs(a, b), pairs(c, d));
    [
        _mm512_unpacklo_pd(ab, cd),
        _mm512_unpackhi_pd(ab, cd),
        _mm512_unpacklo_pd(ab_high, cd_high),
        _mm512_unpackhi_pd(ab_high, cd_high),
    ]
    .map(|x| _mm512_castpd_ps(x))
}

macro_rules! each {
    ($($trait:ident $name:ident $op:ident),*) => {$(
        impl $trait for Numbers {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                // SAFETY: `self` is the proof that the machine has the instruction.
                Self(unsafe { $op(self.0, other.0) })
            }
        }
    )*};
}

each!(Add add _mm512_add_ps, Sub sub _mm512_sub_ps, Mul mul _mm512_mul_ps, Div div _mm512_div_ps);

impl Real for Numbers {
    type Mask = __mmask16;

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        // SAFETY: the reference covers the 64 bytes written, and the store needs no alignment. `self`
        // is the proof that the machine has the instruction.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), self.0) }
    }

    #[inline(always)]
    fn less_product(self, a: Self, b: Self) -> Self {
        // SAFETY: `self` is the proof that the machine has the instruction.
        Self(unsafe { _mm512_fnmadd_ps(a.0, b.0, self.0) })
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: `self` is the proof that the machine has the instruction.
        Self(unsafe { _mm512_abs_ps(self.0) })
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        // SAFETY: `self` is the proof that the machine has the instruction.
        Self(unsafe { _mm512_sqrt_ps(self.0) })
    }

    #[inline(always)]
    fn less(self, than: Self) -> __mmask16 {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_cmp_ps_mask::<_CMP_LT_OQ>(self.0, than.0) }
    }

    #[inline(always)]
    fn both(a: __mmask16, b: __mmask16) -> __mmask16 {
        a & b
    }

    #[inline(always)]
    fn bits(mask: __mmask16) -> u16 {
        mask
    }

    #[inline(always)]
    fn pack(self, mask: __mmask16, to: &mut [f32; LANES]) {
        // SAFETY: the reference covers the 64 bytes written, and the store needs no alignment. `self`
        // is the proof that the machine has the instructions.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), _mm512_maskz_compress_ps(mask, self.0)) }
    }

    #[inline(always)]
    fn select(mask: __mmask16, yes: Self, no: Self) -> Self {
        // SAFETY: `yes` is the proof that the machine has the instruction.
        Self(unsafe { _mm512_mask_blend_ps(mask, no.0, yes.0) })
    }

    #[inline(always)]
    fn add_where(self, mask: __mmask16, x: Self) -> Self {
        // SAFETY: `self` is the proof that the machine has the instruction.
        Self(unsafe { _mm512_mask_add_ps(self.0, mask, self.0, x.0) })
    }
}
