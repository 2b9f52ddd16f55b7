//! 256-bit vectors: a register holds one quantity of 16 channels, or of 32 in 8 bits.
//!
//! Unpacking: two channels of 14 bits always lie in a window of 4 bytes, so a byte shuffle, a
//! shift of each 32-bit lane by 0 or 4 and one shifted copy bring 16 channels into their lanes.
#![allow(unsafe_code)]

use core::arch::x86_64::*;

use crate::isa::Avx2;
use crate::tpg::block::{ADC_BITS, ADC_MAX, CHANNELS, ROW_LEN, Row};
use crate::tpg::fetch::Ahead;
use crate::tpg::job::Job;
use crate::tpg::samples::Packed;
use crate::tpg::state::Word16;
use crate::tpg::tables::FrugalTables;
use crate::tpg::vector::{self, Lanes, Never, QuietSum, Tables};
use gannet_wire::protowib::coldata;

/// Channels in a register of 16-bit lanes.
const LANES: usize = 16;
/// Registers for a 16-bit quantity of all channels.
const GROUPS: usize = CHANNELS / LANES;

impl Avx2 {
    /// Runs the chain over rows of samples, block by block.
    pub(crate) fn process<P: Packed, const BLOCKS: usize>(
        self,
        jobs: &mut [Job; BLOCKS],
        rows: [P; BLOCKS],
        ahead: Ahead,
    ) {
        // SAFETY: `self` exists only where `detect` found the features.
        unsafe { process(self, jobs, rows, ahead) }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,popcnt")]
fn process<P: Packed, const BLOCKS: usize>(
    lanes: Avx2,
    jobs: &mut [Job; BLOCKS],
    rows: [P; BLOCKS],
    ahead: Ahead,
) {
    vector::process(lanes, jobs, rows, ahead);
}

/// An operation on each register of a 16-bit quantity.
macro_rules! on_each {
    ($op:ident($($x:ident),*)) => {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe { [$op($($x[0]),*), $op($($x[1]),*), $op($($x[2]),*), $op($($x[3]),*)] }
    };
}

/// Limits of the frugal estimate.
#[derive(Clone, Copy)]
pub(crate) struct Frugal {
    limit: __m256i,
    limit_below: __m256i,
    one: __m256i,
}

impl Lanes for Avx2 {
    const QUIET_ROWS: usize = 2;
    /// The dense path is there to be compared: measured slower at all rates.
    const DENSE_FROM: usize = usize::MAX;

    type Words = [__m256i; GROUPS];
    /// In the order of `_mm256_packs_epi16`.
    type Bytes = [__m256i; GROUPS / 2];
    /// All bits of a lane are set, or none.
    type Channels = [__m256i; GROUPS];
    type QuietSum<const ABSOLUTE: bool> = QuietSum<Self, ABSOLUTE>;
    type QuietFilter = Never;
    type Frugal = Frugal;

    #[inline(always)]
    fn load<T: Word16>(self, from: &[T; CHANNELS]) -> Self::Words {
        let start: *const __m256i = from.as_ptr().cast();
        // SAFETY: the reference covers 64 words of 16 bits, which are the 4 x 32 bytes read; the
        // loads need no alignment. `self` is the proof that the machine has the instruction.
        unsafe {
            [
                _mm256_loadu_si256(start),
                _mm256_loadu_si256(start.add(1)),
                _mm256_loadu_si256(start.add(2)),
                _mm256_loadu_si256(start.add(3)),
            ]
        }
    }

    #[inline(always)]
    fn store<T: Word16>(self, to: &mut [T; CHANNELS], x: Self::Words) {
        let start: *mut __m256i = to.as_mut_ptr().cast();
        // SAFETY: the reference covers 64 words of 16 bits, which are the 4 x 32 bytes written;
        // any bits are a value of `Word16`; the stores need no alignment. `self` is the proof
        // that the machine has the instruction.
        unsafe {
            _mm256_storeu_si256(start, x[0]);
            _mm256_storeu_si256(start.add(1), x[1]);
            _mm256_storeu_si256(start.add(2), x[2]);
            _mm256_storeu_si256(start.add(3), x[3]);
        }
    }

    #[inline(always)]
    fn splat(self, x: i16) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_set1_epi16(x); GROUPS] }
    }

    #[inline(always)]
    fn unpack_adc14(self, row: &Row) -> Self::Words {
        /// Bytes of 8 channels, which fill one half of a register.
        const HALF: usize = 8 * ADC_BITS / 8;
        /// The last 8 channels are loaded with the 2 bytes before them, to stay inside the row.
        const LAST: usize = ROW_LEN - 16;
        const GATHER: [u8; 16] = gather_adc14(0);
        const GATHER_LAST: [u8; 16] = gather_adc14(2);
        [
            self.adc14(bytes_at::<0>(row), bytes_at::<HALF>(row), &GATHER),
            self.adc14(bytes_at::<{ 2 * HALF }>(row), bytes_at::<{ 3 * HALF }>(row), &GATHER),
            self.adc14(bytes_at::<{ 4 * HALF }>(row), bytes_at::<{ 5 * HALF }>(row), &GATHER),
            self.adc14(bytes_at::<{ 6 * HALF }>(row), bytes_at::<LAST>(row), &GATHER_LAST),
        ]
    }

    #[inline(always)]
    fn unpack_coldata(self, row: &Row) -> Self::Words {
        /// The last segments are loaded with 4 bytes before them, to stay inside the row.
        const GATHER: [[u8; 16]; 2] = [gather_coldata(0), gather_coldata(4)];
        [
            self.two_adcs(bytes_at::<16>(row), bytes_at::<28>(row), [&GATHER[0]; 2]),
            self.two_adcs(bytes_at::<40>(row), bytes_at::<52>(row), [&GATHER[0]; 2]),
            self.two_adcs(bytes_at::<64>(row), bytes_at::<76>(row), [&GATHER[0]; 2]),
            self.two_adcs(bytes_at::<88>(row), bytes_at::<96>(row), [&GATHER[0], &GATHER[1]]),
        ]
    }

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
    fn add(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_add_epi16(a, b))
    }

    #[inline(always)]
    fn add_saturating(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_adds_epi16(a, b))
    }

    #[inline(always)]
    fn add_saturating_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_adds_epu16(a, b))
    }

    #[inline(always)]
    fn subtract(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_sub_epi16(a, b))
    }

    #[inline(always)]
    fn abs(self, a: Self::Words) -> Self::Words {
        on_each!(_mm256_abs_epi16(a))
    }

    #[inline(always)]
    fn min(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_min_epi16(a, b))
    }

    #[inline(always)]
    fn max(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_max_epi16(a, b))
    }

    #[inline(always)]
    fn multiply(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_mullo_epi16(a, b))
    }

    #[inline(always)]
    fn multiply_rounding(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_each!(_mm256_mulhrs_epi16(a, b))
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::Words) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let bits = _mm_cvtsi32_si128(BITS as i32);
            [
                _mm256_sra_epi16(a[0], bits),
                _mm256_sra_epi16(a[1], bits),
                _mm256_sra_epi16(a[2], bits),
                _mm256_sra_epi16(a[3], bits),
            ]
        }
    }

    #[inline(always)]
    fn above(self, a: Self::Words, b: Self::Words) -> Self::Channels {
        on_each!(_mm256_cmpgt_epi16(a, b))
    }

    #[inline(always)]
    fn below_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Channels {
        let larger = on_each!(_mm256_max_epu16(a, b));
        let not_below = on_each!(_mm256_cmpeq_epi16(larger, a));
        let all = self.splat(-1);
        on_each!(_mm256_andnot_si256(not_below, all))
    }

    #[inline(always)]
    fn both(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        on_each!(_mm256_and_si256(a, b))
    }

    #[inline(always)]
    fn either(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        on_each!(_mm256_or_si256(a, b))
    }

    #[inline(always)]
    fn without(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        on_each!(_mm256_andnot_si256(b, a))
    }

    #[inline(always)]
    fn any(self, a: Self::Channels) -> bool {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let all = _mm256_or_si256(_mm256_or_si256(a[0], a[1]), _mm256_or_si256(a[2], a[3]));
            _mm256_testz_si256(all, all) == 0
        }
    }

    #[inline(always)]
    fn bits(self, a: Self::Channels) -> u64 {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            // Packing takes the 128-bit halves of both registers in turn; this puts them right.
            const IN_ORDER: i32 = 0b11_01_10_00;
            let low = _mm256_permute4x64_epi64::<IN_ORDER>(_mm256_packs_epi16(a[0], a[1]));
            let high = _mm256_permute4x64_epi64::<IN_ORDER>(_mm256_packs_epi16(a[2], a[3]));
            let (low, high) = (_mm256_movemask_epi8(low), _mm256_movemask_epi8(high));
            u64::from(low as u32) | u64::from(high as u32) << 32
        }
    }

    #[inline(always)]
    fn keep(self, a: Self::Channels, x: Self::Words) -> Self::Words {
        on_each!(_mm256_and_si256(a, x))
    }

    #[inline(always)]
    fn choose(self, a: Self::Channels, x: Self::Words, y: Self::Words) -> Self::Words {
        on_each!(_mm256_blendv_epi8(y, x, a))
    }

    #[inline(always)]
    fn narrow(self, x: Self::Words) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_packs_epi16(x[0], x[1]), _mm256_packs_epi16(x[2], x[3])] }
    }

    #[inline(always)]
    fn widen(self, x: Self::Bytes) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let zero = _mm256_setzero_si256();
            [
                _mm256_srai_epi16::<8>(_mm256_unpacklo_epi8(zero, x[0])),
                _mm256_srai_epi16::<8>(_mm256_unpackhi_epi8(zero, x[0])),
                _mm256_srai_epi16::<8>(_mm256_unpacklo_epi8(zero, x[1])),
                _mm256_srai_epi16::<8>(_mm256_unpackhi_epi8(zero, x[1])),
            ]
        }
    }

    #[inline(always)]
    fn widen_unsigned(self, x: Self::Bytes) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let zero = _mm256_setzero_si256();
            [
                _mm256_unpacklo_epi8(x[0], zero),
                _mm256_unpackhi_epi8(x[0], zero),
                _mm256_unpacklo_epi8(x[1], zero),
                _mm256_unpackhi_epi8(x[1], zero),
            ]
        }
    }

    #[inline(always)]
    fn splat_bytes(self, x: i8) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_set1_epi8(x); GROUPS / 2] }
    }

    #[inline(always)]
    fn add_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_add_epi8(a[0], b[0]), _mm256_add_epi8(a[1], b[1])] }
    }

    #[inline(always)]
    fn add_saturating_unsigned_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_adds_epu8(a[0], b[0]), _mm256_adds_epu8(a[1], b[1])] }
    }

    #[inline(always)]
    fn subtract_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_sub_epi8(a[0], b[0]), _mm256_sub_epi8(a[1], b[1])] }
    }

    #[inline(always)]
    fn subtract_saturating_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_subs_epi8(a[0], b[0]), _mm256_subs_epi8(a[1], b[1])] }
    }

    #[inline(always)]
    fn max_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_max_epi8(a[0], b[0]), _mm256_max_epi8(a[1], b[1])] }
    }

    #[inline(always)]
    fn either_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_or_si256(a[0], b[0]), _mm256_or_si256(a[1], b[1])] }
    }

    #[inline(always)]
    fn abs_bytes(self, x: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm256_abs_epi8(x[0]), _mm256_abs_epi8(x[1])] }
    }

    #[inline(always)]
    fn any_negative(self, x: Self::Bytes) -> bool {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe { _mm256_movemask_epi8(_mm256_or_si256(x[0], x[1])) != 0 }
    }

    #[inline(always)]
    fn any_negative_words(self, x: Self::Words) -> bool {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let either = |a, b| _mm256_or_si256(a, b);
            let any = either(either(x[0], x[1]), either(x[2], x[3]));
            _mm256_movemask_epi8(_mm256_srai_epi16::<15>(any)) != 0
        }
    }

    #[inline(always)]
    fn weigh(self, a: Self::Bytes, b: Self::Bytes, factors: Self::Words) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            [
                _mm256_maddubs_epi16(factors[0], _mm256_unpacklo_epi8(a[0], b[0])),
                _mm256_maddubs_epi16(factors[1], _mm256_unpackhi_epi8(a[0], b[0])),
                _mm256_maddubs_epi16(factors[2], _mm256_unpacklo_epi8(a[1], b[1])),
                _mm256_maddubs_epi16(factors[3], _mm256_unpackhi_epi8(a[1], b[1])),
            ]
        }
    }

    #[inline(always)]
    fn frugal(self, limit: i8, _: &FrugalTables) -> Frugal {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe {
            Frugal {
                limit: _mm256_set1_epi8(limit),
                limit_below: _mm256_set1_epi8(-limit),
                one: _mm256_set1_epi8(1),
            }
        }
    }

    #[inline(always)]
    fn pack_accumulators(self, _: Frugal, accumulators: Self::Words) -> Self::Bytes {
        self.narrow(accumulators)
    }

    #[inline(always)]
    fn unpack_accumulators(self, _: Frugal, accumulators: Self::Bytes) -> Self::Words {
        self.widen(accumulators)
    }

    #[inline(always)]
    fn sign_of_difference(
        self,
        limits: Frugal,
        rise: Self::Bytes,
        offset: Self::Bytes,
    ) -> Self::Bytes {
        let sign = |h: usize| {
            // SAFETY: `self` is the proof that the machine has the instructions.
            unsafe { _mm256_sign_epi8(limits.one, _mm256_subs_epi8(rise[h], offset[h])) }
        };
        [sign(0), sign(1)]
    }

    #[inline(always)]
    fn keep_where_negative(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes {
        let keep = |h: usize| {
            // SAFETY: `self` is the proof that the machine has the instructions.
            unsafe { _mm256_and_si256(_mm256_cmpgt_epi8(_mm256_setzero_si256(), sign[h]), x[h]) }
        };
        [keep(0), keep(1)]
    }

    #[inline(always)]
    fn keep_where_positive(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes {
        let keep = |h: usize| {
            // SAFETY: `self` is the proof that the machine has the instructions.
            unsafe { _mm256_and_si256(_mm256_cmpgt_epi8(sign[h], _mm256_setzero_si256()), x[h]) }
        };
        [keep(0), keep(1)]
    }

    #[inline(always)]
    fn count(
        self,
        limits: Frugal,
        sign: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    ) -> Self::Bytes {
        let mut moved = *offset;
        for h in 0..2 {
            // SAFETY: `self` is the proof that the machine has the instructions.
            unsafe {
                let counted = _mm256_add_epi8(accumulators[h], sign[h]);
                let limited = _mm256_max_epi8(counted, limits.limit_below);
                let limited = _mm256_min_epi8(limited, limits.limit);
                let stays = _mm256_cmpeq_epi8(counted, limited);
                moved[h] = _mm256_sub_epi8(counted, limited);
                offset[h] = _mm256_add_epi8(offset[h], moved[h]);
                accumulators[h] = _mm256_and_si256(counted, stays);
            }
        }
        moved
    }
}

impl Tables for Avx2 {
    const ENTRIES: u8 = 32;

    /// In both halves of each the same 16 entries.
    type Table = [__m256i; 2];

    #[inline(always)]
    fn table(self, entries: &[i8; 64]) -> Self::Table {
        let start: *const __m128i = entries.as_ptr().cast();
        // SAFETY: the reference covers the 2 x 16 bytes read; the loads need no alignment. `self` is
        // the proof that the machine has the instructions.
        unsafe {
            [
                _mm256_broadcastsi128_si256(_mm_loadu_si128(start)),
                _mm256_broadcastsi128_si256(_mm_loadu_si128(start.add(1))),
            ]
        }
    }

    #[inline(always)]
    fn look_up(self, table: Self::Table, index: Self::Bytes) -> Self::Bytes {
        let entries = |h: usize| {
            // SAFETY: `self` is the proof that the machine has the instructions.
            unsafe {
                let first = _mm256_shuffle_epi8(table[0], index[h]);
                let second = _mm256_shuffle_epi8(table[1], index[h]);
                // A blend heeds the highest bit of each byte.
                _mm256_blendv_epi8(first, second, _mm256_slli_epi16::<3>(index[h]))
            }
        };
        [entries(0), entries(1)]
    }
}

impl Avx2 {
    /// 16 channels of 14 bits: 8 each from two places, by `gather` in the second.
    #[inline(always)]
    fn adc14(self, low: &[u8; 16], high: &[u8; 16], gather_high: &[u8; 16]) -> __m256i {
        const GATHER: [u8; 16] = gather_adc14(0);
        // SAFETY: the references cover the 16 bytes read; the loads need no alignment. `self` is
        // the proof that the machine has the instructions.
        unsafe {
            let load = |bytes: &[u8; 16]| _mm_loadu_si128(bytes.as_ptr().cast());
            let gather = _mm256_set_m128i(load(gather_high), load(&GATHER));
            let bytes = _mm256_set_m128i(load(high), load(low));
            let shift = _mm256_set_epi32(4, 0, 4, 0, 4, 0, 4, 0);
            let pairs = _mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, gather), shift);
            // Bits 0..14 are the even channel; 14..28 the odd one, which belongs into bits 16..30.
            let odd = _mm256_slli_epi32::<{ 16 - ADC_BITS as i32 }>(pairs);
            let values = _mm256_blend_epi16::<0b1010_1010>(pairs, odd);
            _mm256_and_si256(values, _mm256_set1_epi16(ADC_MAX as i16))
        }
    }

    /// The 16 channels of an even and an odd ADC, from their two segments.
    #[inline(always)]
    fn two_adcs(self, first: &[u8; 16], second: &[u8; 16], gather: [&[u8; 16]; 2]) -> __m256i {
        // SAFETY: the references cover the 16 bytes read; the loads need no alignment. `self` is
        // the proof that the machine has the instructions.
        unsafe {
            let load = |bytes: &[u8; 16]| _mm_loadu_si128(bytes.as_ptr().cast());
            let segments = _mm256_set_m128i(load(second), load(first));
            let gather = _mm256_set_m128i(load(gather[1]), load(gather[0]));
            let windows = _mm256_shuffle_epi8(segments, gather);
            // An even channel is in the low 12 bits of its window, an odd one in the high 12.
            let odd = _mm256_srli_epi16::<4>(windows);
            let values = _mm256_blend_epi16::<0b1010_1010>(windows, odd);
            let values = _mm256_and_si256(values, _mm256_set1_epi16(coldata::ADC_MAX as i16));
            // Four channels of the even ADC, four of the odd, then the other four of each.
            _mm256_permute4x64_epi64::<0b11_01_10_00>(values)
        }
    }
}

/// The 16 bytes of a row from byte `FIRST` on.
#[inline(always)]
fn bytes_at<const FIRST: usize>(row: &Row) -> &[u8; 16] {
    const { assert!(FIRST + 16 <= ROW_LEN) };
    row[FIRST..].first_chunk().unwrap_or(&[0; 16])
}

/// For each 32-bit lane of 8 channels of 14 bits, the 4 bytes in which its two channels lie; the
/// first channel begins `skip` bytes into the register half.
const fn gather_adc14(skip: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        let pair = i / 4;
        bytes[i] = skip + (pair * 2 * ADC_BITS / 8 + i % 4) as u8;
        i += 1;
    }
    bytes
}

/// For each 16-bit lane, the 2 bytes in which a channel of a segment lies: four channels of the
/// even ADC, then four of the odd; the segment begins `skip` bytes into the register half.
const fn gather_coldata(skip: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut lane = 0;
    while lane < 8 {
        let (odd_adc, channel) = (lane as u8 / 4, lane as u8 % 4);
        // Channels 0 and 2 begin a window of three bytes of the ADC, 1 and 3 end it.
        let first = channel / 2 * 3 + channel % 2;
        bytes[2 * lane] = skip + odd_adc + 2 * first;
        bytes[2 * lane + 1] = skip + odd_adc + 2 * (first + 1);
        lane += 1;
    }
    bytes
}
