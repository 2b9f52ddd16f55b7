//! 256-bit vectors: 16 numbers are two registers.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::array;
use core::ops::{Add, Div, Mul, Sub};

use super::lanes::{LANES, Lanes, Real, TABLE, row};
use crate::isa::Avx2;

impl Avx2 {
    /// Runs the work with the instruction set enabled.
    pub(super) fn run<W: super::Work>(self, work: W) -> W::Output {
        // SAFETY: `self` exists only where the features were found.
        unsafe { run(self, work) }
    }
}

#[target_feature(enable = "avx2,fma,bmi1,bmi2,popcnt")]
fn run<W: super::Work>(isa: Avx2, work: W) -> W::Output {
    work.run(isa)
}

/// 16 numbers. Only an [`Avx2`] makes one, so it is the proof as well.
#[derive(Clone, Copy)]
pub(super) struct Numbers([__m256; 2]);

/// Applies an operation to both registers.
macro_rules! on_both {
    ($op:ident $(::<$arg:ident>)? ($($x:expr),*)) => {
        // SAFETY: `self`, or another number, is the proof that the machine has the instruction.
        unsafe { [$op$(::<$arg>)?($($x[0]),*), $op$(::<$arg>)?($($x[1]),*)] }
    };
}

/// For each choice of 8 places those chosen, a byte each, in order.
static PLACES: [u64; 256] = {
    let mut places = [0; 256];
    let mut kept = 0;
    while kept < 256 {
        let (mut place, mut shift) = (0, 0);
        while place < 8 {
            if kept >> place & 1 == 1 {
                places[kept] |= (place as u64) << shift;
                shift += 8;
            }
            place += 1;
        }
        kept += 1;
    }
    places
};

impl Lanes for Avx2 {
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
        Numbers([unsafe { _mm256_set1_ps(x) }; 2])
    }

    #[inline(always)]
    fn load(self, from: &[f32; LANES]) -> Numbers {
        let start = from.as_ptr();
        // SAFETY: the reference covers the 2 x 32 bytes read, and the loads need no alignment. `self`
        // is the proof that the machine has the instruction.
        Numbers(unsafe { [_mm256_loadu_ps(start), _mm256_loadu_ps(start.add(8))] })
    }

    #[inline(always)]
    fn look_up(self, table: &[f32; TABLE], indices: &[u8; LANES]) -> Numbers {
        self.load(&indices.map(|index| table[usize::from(index) % TABLE]))
    }

    #[inline(always)]
    fn columns(self, rows: &[[f32; 8]; LANES]) -> [Numbers; 8] {
        array::from_fn(|column| self.load(&array::from_fn(|r| rows[row(r)][column])))
    }
}

macro_rules! each {
    ($($trait:ident $name:ident $op:ident),*) => {$(
        impl $trait for Numbers {
            type Output = Self;

            #[inline(always)]
            fn $name(self, other: Self) -> Self {
                Self(on_both!($op(self.0, other.0)))
            }
        }
    )*};
}

each!(Add add _mm256_add_ps, Sub sub _mm256_sub_ps, Mul mul _mm256_mul_ps, Div div _mm256_div_ps);

impl Real for Numbers {
    type Mask = [__m256; 2];

    #[inline(always)]
    fn store(self, to: &mut [f32; LANES]) {
        let start = to.as_mut_ptr();
        // SAFETY: the reference covers the 2 x 32 bytes written, and the stores need no alignment.
        // `self` is the proof that the machine has the instruction.
        unsafe {
            _mm256_storeu_ps(start, self.0[0]);
            _mm256_storeu_ps(start.add(8), self.0[1]);
        }
    }

    #[inline(always)]
    fn less_product(self, a: Self, b: Self) -> Self {
        Self(on_both!(_mm256_fnmadd_ps(a.0, b.0, self.0)))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        // SAFETY: `self` is the proof that the machine has the instruction.
        let sign = unsafe { [_mm256_set1_ps(-0.0); 2] };
        Self(on_both!(_mm256_andnot_ps(sign, self.0)))
    }

    #[inline(always)]
    fn sqrt(self) -> Self {
        Self(on_both!(_mm256_sqrt_ps(self.0)))
    }

    #[inline(always)]
    fn less(self, than: Self) -> [__m256; 2] {
        Self::from_less(self.0, than.0)
    }

    #[inline(always)]
    fn both(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        on_both!(_mm256_and_ps(a, b))
    }

    #[inline(always)]
    fn bits(mask: [__m256; 2]) -> u16 {
        // SAFETY: only an `Avx2` makes numbers, and only they make masks.
        let [low, high] = mask.map(|mask| unsafe { _mm256_movemask_ps(mask) });
        low as u16 | (high as u16) << 8
    }

    #[inline(always)]
    fn pack(self, mask: [__m256; 2], to: &mut [f32; LANES]) {
        let start = to.as_mut_ptr();
        // SAFETY: of the 64 bytes that the reference covers the first 32 are written, and then 32 from at most the
        // ninth number on. The stores need no alignment. `self` is the proof that the machine has the instructions.
        unsafe {
            let [low, high] = mask.map(|mask| _mm256_movemask_ps(mask) as usize & 0xFF);
            let order = |kept: usize| _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(PLACES[kept] as i64));
            _mm256_storeu_ps(start, _mm256_permutevar8x32_ps(self.0[0], order(low)));
            let high_start = start.add(low.count_ones() as usize);
            _mm256_storeu_ps(high_start, _mm256_permutevar8x32_ps(self.0[1], order(high)));
        }
    }

    #[inline(always)]
    fn select(mask: [__m256; 2], yes: Self, no: Self) -> Self {
        Self(on_both!(_mm256_blendv_ps(no.0, yes.0, mask)))
    }
}

impl Numbers {
    #[inline(always)]
    fn from_less(a: [__m256; 2], b: [__m256; 2]) -> [__m256; 2] {
        on_both!(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b))
    }
}
