//! 512-bit vectors: a register holds one quantity of 32 channels, or of all 64 in 8 bits.
//!
//! Unpacking is one byte permutation, which brings the bytes of four channels into each 64-bit
//! lane, one multi-shift and one mask for 32 channels.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::hint::black_box;

use crate::isa::Avx512;
use crate::tpg::block::{ADC_MAX, CHANNELS, ROW_LEN, Row};
use crate::tpg::fetch::Ahead;
use crate::tpg::job::Job;
use crate::tpg::parameters::Parameters;
use crate::tpg::samples::Packed;
use crate::tpg::state::Word16;
use crate::tpg::tables::FrugalTables;
use crate::tpg::vector::{
    self, AT_ONCE, Endings, Lanes, Masks, PLACES, QuietFilter, QuietSum, Tables, TimeBase,
};
use gannet_wire::TriggerPrimitive;
use gannet_wire::protowib::coldata;

/// Channels in a register of 16-bit lanes.
const LANES: usize = CHANNELS / 2;

impl Avx512 {
    /// Largest limit of the frugal estimate: an accumulator after a sample must have 6 bits.
    pub(crate) const ACCUM_LIMIT_MAX: u16 = 30;

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

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,bmi1,bmi2,popcnt")]
fn process<P: Packed, const BLOCKS: usize>(
    lanes: Avx512,
    jobs: &mut [Job; BLOCKS],
    rows: [P; BLOCKS],
    ahead: Ahead,
) {
    vector::process(lanes, jobs, rows, ahead);
}

/// A binary operation on both registers of a quantity.
macro_rules! on_both {
    ($op:ident($($x:ident),*)) => {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe { [$op($($x[0]),*), $op($($x[1]),*)] }
    };
}

/// What the frugal estimate needs in registers. All that follows from an accumulator after a
/// sample is looked up in tables of 64 bytes, which is a shorter chain than a comparison and the
/// use of its mask.
#[derive(Clone, Copy)]
pub(crate) struct Frugal {
    /// What accumulators are kept above 0 by.
    bias: __m512i,
    one: __m512i,
    /// The accumulator that follows.
    next: __m512i,
    /// The move of the pedestal.
    moved: __m512i,
}

impl Lanes for Avx512 {
    const QUIET_ROWS: usize = 4;
    const DENSE_FROM: usize = 16;

    type Words = [__m512i; 2];
    /// In the order of `_mm512_packs_epi16`.
    type Bytes = __m512i;
    type Channels = [__mmask32; 2];
    type QuietSum<const ABSOLUTE: bool> = QuietSum<Self, ABSOLUTE>;
    type QuietFilter = QuietFilter<Self>;
    type Frugal = Frugal;

    #[inline(always)]
    fn load<T: Word16>(self, from: &[T; CHANNELS]) -> Self::Words {
        let start = from.as_ptr();
        // SAFETY: the reference covers 64 words of 16 bits, which are the 2 x 64 bytes read; the
        // loads need no alignment. `self` is the proof that the machine has the instruction.
        unsafe { [_mm512_loadu_si512(start.cast()), _mm512_loadu_si512(start.add(LANES).cast())] }
    }

    #[inline(always)]
    fn store<T: Word16>(self, to: &mut [T; CHANNELS], x: Self::Words) {
        let start = to.as_mut_ptr();
        // SAFETY: the reference covers 64 words of 16 bits, which are the 2 x 64 bytes written;
        // any bits are a value of `Word16`; the stores need no alignment. `self` is the proof
        // that the machine has the instruction.
        unsafe {
            _mm512_storeu_si512(start.cast(), x[0]);
            _mm512_storeu_si512(start.add(LANES).cast(), x[1]);
        }
    }

    #[inline(always)]
    fn splat(self, x: i16) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm512_set1_epi16(x); 2] }
    }

    #[inline(always)]
    fn unpack_adc14(self, row: &Row) -> Self::Words {
        /// The second half of a row is the 56 bytes from 56 on; loaded as the row's last 64 bytes.
        const GATHER: [[u8; 64]; 2] = [gather_adc14(0), gather_adc14(8)];
        self.unpack([first(row), last(row)], &GATHER, [0, 8, 14, 22, 28, 36, 42, 50], ADC_MAX)
    }

    #[inline(always)]
    fn unpack_coldata(self, row: &Row) -> Self::Words {
        /// The last four segments are the 48 bytes from 64 on; loaded as the row's last 64 bytes.
        const GATHER: [[u8; 64]; 2] = [gather_coldata(16), gather_coldata(16)];
        const SHIFT: [u8; 8] = [0, 8, 12, 20, 24, 32, 36, 44];
        self.unpack([first(row), last(row)], &GATHER, SHIFT, coldata::ADC_MAX)
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
        on_both!(_mm512_add_epi16(a, b))
    }

    #[inline(always)]
    fn add_saturating(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_adds_epi16(a, b))
    }

    #[inline(always)]
    fn add_saturating_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_adds_epu16(a, b))
    }

    #[inline(always)]
    fn subtract(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_sub_epi16(a, b))
    }

    #[inline(always)]
    fn abs(self, a: Self::Words) -> Self::Words {
        on_both!(_mm512_abs_epi16(a))
    }

    #[inline(always)]
    fn min(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_min_epi16(a, b))
    }

    #[inline(always)]
    fn max(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_max_epi16(a, b))
    }

    #[inline(always)]
    fn multiply(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_mullo_epi16(a, b))
    }

    #[inline(always)]
    fn multiply_rounding(self, a: Self::Words, b: Self::Words) -> Self::Words {
        on_both!(_mm512_mulhrs_epi16(a, b))
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self, a: Self::Words) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { [_mm512_srai_epi16::<BITS>(a[0]), _mm512_srai_epi16::<BITS>(a[1])] }
    }

    #[inline(always)]
    fn above(self, a: Self::Words, b: Self::Words) -> Self::Channels {
        on_both!(_mm512_cmpgt_epi16_mask(a, b))
    }

    #[inline(always)]
    fn below_unsigned(self, a: Self::Words, b: Self::Words) -> Self::Channels {
        on_both!(_mm512_cmplt_epu16_mask(a, b))
    }

    #[inline(always)]
    fn both(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        [a[0] & b[0], a[1] & b[1]]
    }

    #[inline(always)]
    fn either(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        [a[0] | b[0], a[1] | b[1]]
    }

    #[inline(always)]
    fn without(self, a: Self::Channels, b: Self::Channels) -> Self::Channels {
        [a[0] & !b[0], a[1] & !b[1]]
    }

    #[inline(always)]
    fn any(self, a: Self::Channels) -> bool {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _kortestz_mask32_u8(a[0], a[1]) == 0 }
    }

    #[inline(always)]
    fn bits(self, a: Self::Channels) -> u64 {
        u64::from(a[0]) | u64::from(a[1]) << LANES
    }

    #[inline(always)]
    fn keep(self, a: Self::Channels, x: Self::Words) -> Self::Words {
        on_both!(_mm512_maskz_mov_epi16(a, x))
    }

    #[inline(always)]
    fn choose(self, a: Self::Channels, x: Self::Words, y: Self::Words) -> Self::Words {
        on_both!(_mm512_mask_mov_epi16(y, a, x))
    }

    #[inline(always)]
    fn narrow(self, x: Self::Words) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_packs_epi16(x[0], x[1]) }
    }

    #[inline(always)]
    fn widen(self, x: Self::Bytes) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let zero = _mm512_setzero_si512();
            [
                _mm512_srai_epi16::<8>(_mm512_unpacklo_epi8(zero, x)),
                _mm512_srai_epi16::<8>(_mm512_unpackhi_epi8(zero, x)),
            ]
        }
    }

    #[inline(always)]
    fn widen_unsigned(self, x: Self::Bytes) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let zero = _mm512_setzero_si512();
            [_mm512_unpacklo_epi8(x, zero), _mm512_unpackhi_epi8(x, zero)]
        }
    }

    #[inline(always)]
    fn splat_bytes(self, x: i8) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_set1_epi8(x) }
    }

    #[inline(always)]
    fn add_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_add_epi8(a, b) }
    }

    #[inline(always)]
    fn add_saturating_unsigned_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_adds_epu8(a, b) }
    }

    #[inline(always)]
    fn subtract_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_sub_epi8(a, b) }
    }

    #[inline(always)]
    fn subtract_saturating_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_subs_epi8(a, b) }
    }

    #[inline(always)]
    fn max_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_max_epi8(a, b) }
    }

    #[inline(always)]
    fn either_bytes(self, a: Self::Bytes, b: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_or_si512(a, b) }
    }

    #[inline(always)]
    fn abs_bytes(self, x: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_abs_epi8(x) }
    }

    #[inline(always)]
    fn any_negative(self, x: Self::Bytes) -> bool {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_movepi8_mask(x) != 0 }
    }

    #[inline(always)]
    fn any_negative_words(self, x: Self::Words) -> bool {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe { _mm512_movepi16_mask(_mm512_or_si512(x[0], x[1])) != 0 }
    }

    #[inline(always)]
    fn weigh(self, a: Self::Bytes, b: Self::Bytes, factors: Self::Words) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            [
                _mm512_maddubs_epi16(factors[0], _mm512_unpacklo_epi8(a, b)),
                _mm512_maddubs_epi16(factors[1], _mm512_unpackhi_epi8(a, b)),
            ]
        }
    }

    #[inline(always)]
    fn append(
        self,
        endings: &mut Endings,
        quantities: [Self::Words; 5],
        has_high: bool,
        ended: [Self::Channels; 2],
        samples_left: u16,
    ) {
        let [earlier, later] = [self.bits(ended[0]), self.bits(ended[1])];
        let count_earlier = earlier.count_ones();
        let count = (count_earlier + later.count_ones()) as usize;
        // SAFETY: the reference covers the 64 bytes read, which need no alignment. `self` is the
        // proof that the machine has the instructions.
        let halves = unsafe {
            let all = _mm512_loadu_si512(ALL_CHANNELS.as_ptr().cast());
            let marked = _mm512_or_si512(all, _mm512_set1_epi8(EARLIER as i8));
            let list = _mm512_maskz_compress_epi8(earlier, marked);
            let behind = u64::MAX.checked_shl(count_earlier).unwrap_or(0);
            let list_later = _mm512_maskz_compress_epi8(later, all);
            let list = _mm512_mask_expand_epi8(list, behind, list_later);
            [_mm512_castsi512_si256(list), _mm512_extracti64x4_epi64::<1>(list)]
        };
        self.append_half(endings, &quantities, has_high, halves[0], samples_left);
        endings.count += count.min(LANES);
        if count > LANES {
            self.append_half(endings, &quantities, has_high, halves[1], samples_left);
            endings.count += count - LANES;
        }
    }

    #[inline(always)]
    fn primitives(
        self,
        endings: &Endings,
        parameters: &Parameters,
        time_base: TimeBase,
        first: usize,
        primitives: &mut [TriggerPrimitive; AT_ONCE],
    ) {
        let first = first.min(PLACES - AT_ONCE);
        let eight = |quantity: &[u16; PLACES]| {
            let words = quantity.get(first..).and_then(<[u16]>::first_chunk::<AT_ONCE>);
            // SAFETY: the reference covers the 16 bytes read, which need no alignment. `self` is
            // the proof that the machine has the instructions.
            unsafe {
                _mm512_cvtepu16_epi64(_mm_loadu_si128(words.unwrap_or(&[0; 8]).as_ptr().cast()))
            }
        };
        let [sot, low] = [eight(&endings.samples_over_threshold), eight(&endings.integral_low)];
        let [high, peak] = [eight(&endings.integral_high), eight(&endings.peak)];
        let [to_peak, left] = [eight(&endings.samples_to_peak), eight(&endings.samples_left)];
        // SAFETY: a channel has 6 bits, and there are 64 words; the references cover what is
        // written, 8 primitives of 3 words of 8 bytes, and any bits are such a word. `self` is the
        // proof that the machine has the instructions.
        unsafe {
            let channel = _mm512_and_si512(eight(&endings.channel), _mm512_set1_epi64(63));
            let word0 = _mm512_i64gather_epi64::<8>(channel, parameters.word0.as_ptr().cast());
            let word0 = _mm512_or_si512(word0, _mm512_slli_epi64::<48>(sot));
            let ticks = _mm512_set1_epi64(time_base.ticks_per_sample as i64);
            let before_end = _mm512_mul_epu32(_mm512_add_epi64(left, sot), ticks);
            let word1 = _mm512_sub_epi64(_mm512_set1_epi64(time_base.end as i64), before_end);
            let word2 = _mm512_or_si512(
                _mm512_or_si512(to_peak, _mm512_slli_epi64::<16>(low)),
                _mm512_or_si512(_mm512_slli_epi64::<32>(high), _mm512_slli_epi64::<48>(peak)),
            );
            // Word `i` of the three in turn; 8 and more are those of the second.
            let places = |first: [i64; 8]| _mm512_loadu_si512(first.as_ptr().cast());
            let to: *mut __m512i = primitives.as_mut_ptr().cast();
            let pairs = places([0, 8, 0, 1, 9, 0, 2, 10]);
            let third = places([0, 0, 0, 0, 0, 1, 0, 0]);
            let mixed = _mm512_permutex2var_epi64(word0, pairs, word1);
            let mixed = _mm512_mask_permutexvar_epi64(mixed, 0b0010_0100, third, word2);
            _mm512_storeu_si512(to, mixed);
            let pairs = places([0, 3, 11, 0, 4, 12, 0, 5]);
            let third = places([2, 0, 0, 3, 0, 0, 4, 0]);
            let mixed = _mm512_permutex2var_epi64(word0, pairs, word1);
            let mixed = _mm512_mask_permutexvar_epi64(mixed, 0b0100_1001, third, word2);
            _mm512_storeu_si512(to.add(1), mixed);
            let pairs = places([13, 0, 6, 14, 0, 7, 15, 0]);
            let third = places([0, 5, 0, 0, 6, 0, 0, 7]);
            let mixed = _mm512_permutex2var_epi64(word0, pairs, word1);
            let mixed = _mm512_mask_permutexvar_epi64(mixed, 0b1001_0010, third, word2);
            _mm512_storeu_si512(to.add(2), mixed);
        }
    }

    #[inline(always)]
    fn frugal(self, limit: i8, tables: &FrugalTables) -> Frugal {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe {
            Frugal {
                bias: _mm512_set1_epi8(FrugalTables::bias(limit)),
                // Hidden from the compiler, which would turn the clamp to +-1 into compare masks.
                one: black_box(_mm512_set1_epi8(1)),
                next: self.table(&tables.next),
                moved: self.table(&tables.moved),
            }
        }
    }

    #[inline(always)]
    fn pack_accumulators(self, frugal: Frugal, accumulators: Self::Words) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_add_epi8(self.narrow(accumulators), frugal.bias) }
    }

    #[inline(always)]
    fn unpack_accumulators(self, frugal: Frugal, accumulators: Self::Bytes) -> Self::Words {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { self.widen(_mm512_sub_epi8(accumulators, frugal.bias)) }
    }

    #[inline(always)]
    fn sign_of_difference(
        self,
        frugal: Frugal,
        rise: Self::Bytes,
        offset: Self::Bytes,
    ) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let minus_one = _mm512_sub_epi8(_mm512_setzero_si512(), frugal.one);
            let sign = _mm512_min_epi8(_mm512_subs_epi8(rise, offset), frugal.one);
            _mm512_max_epi8(sign, minus_one)
        }
    }

    #[inline(always)]
    fn keep_where_negative(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe { _mm512_maskz_mov_epi8(_mm512_movepi8_mask(sign), x) }
    }

    #[inline(always)]
    fn keep_where_positive(self, sign: Self::Bytes, x: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let positive = _mm512_cmpgt_epi8_mask(sign, _mm512_setzero_si512());
            _mm512_maskz_mov_epi8(positive, x)
        }
    }

    #[inline(always)]
    fn count(
        self,
        frugal: Frugal,
        sign: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    ) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let counted = _mm512_add_epi8(*accumulators, sign);
            *accumulators = _mm512_permutexvar_epi8(counted, frugal.next);
            let moved = _mm512_permutexvar_epi8(counted, frugal.moved);
            *offset = _mm512_add_epi8(*offset, moved);
            moved
        }
    }
}

impl Tables for Avx512 {
    const ENTRIES: u8 = 64;

    type Table = __m512i;

    #[inline(always)]
    fn table(self, entries: &[i8; 64]) -> Self::Table {
        // SAFETY: the reference covers the 64 bytes read; the load needs no alignment. `self` is
        // the proof that the machine has the instruction.
        unsafe { _mm512_loadu_si512(entries.as_ptr().cast()) }
    }

    #[inline(always)]
    fn look_up(self, table: Self::Table, index: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_permutexvar_epi8(index, table) }
    }
}

impl Masks for Avx512 {
    type ByteChannels = __mmask64;

    #[inline(always)]
    fn negative(self, x: Self::Bytes) -> __mmask64 {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_movepi8_mask(x) }
    }

    #[inline(always)]
    fn positive(self, x: Self::Bytes) -> __mmask64 {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_cmpgt_epi8_mask(x, _mm512_setzero_si512()) }
    }

    #[inline(always)]
    fn move_where(
        self,
        frugal: Frugal,
        channels: __mmask64,
        counted: Self::Bytes,
        offset: &mut Self::Bytes,
        accumulators: &mut Self::Bytes,
    ) {
        // SAFETY: `self` is the proof that the machine has the instructions.
        unsafe {
            let moved = _mm512_permutexvar_epi8(counted, frugal.moved);
            *offset = _mm512_mask_add_epi8(*offset, channels, *offset, moved);
            *accumulators =
                _mm512_mask_permutexvar_epi8(*accumulators, channels, counted, frugal.next);
        }
    }

    #[inline(always)]
    fn choose_bytes(self, channels: __mmask64, x: Self::Bytes, y: Self::Bytes) -> Self::Bytes {
        // SAFETY: `self` is the proof that the machine has the instruction.
        unsafe { _mm512_mask_mov_epi8(y, channels, x) }
    }
}

impl Avx512 {
    /// Adds hits of the channels in `list`, a byte each, which may be marked as [`EARLIER`]; whatever
    /// is in it is written.
    #[inline(always)]
    fn append_half(
        self,
        endings: &mut Endings,
        quantities: &[<Self as Lanes>::Words; 5],
        has_high: bool,
        list: __m256i,
        samples_left: u16,
    ) {
        // So that the compiler sees that all places are there.
        let first = endings.count.min(PLACES - LANES);
        // SAFETY: `self` is the proof that the machine has the instructions.
        let (list, left) = unsafe {
            let list = _mm512_cvtepu8_epi16(list);
            let earlier = _mm512_srli_epi16::<{ EARLIER.ilog2() }>(list);
            (list, _mm512_add_epi16(earlier, _mm512_set1_epi16(samples_left as i16)))
        };
        let put = |places: &mut [u16; PLACES], words: __m512i| {
            let places = places.get_mut(first..).and_then(<[u16]>::first_chunk_mut::<LANES>);
            if let Some(places) = places {
                // SAFETY: the reference covers the 64 bytes written, which need no alignment.
                // `self` is the proof that the machine has the instruction.
                unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), words) }
            }
        };
        let of = |quantity: &<Self as Lanes>::Words| {
            // SAFETY: `self` is the proof that the machine has the instruction.
            unsafe { _mm512_permutex2var_epi16(quantity[0], list, quantity[1]) }
        };
        let [sot, low, high, peak, to_peak] = quantities;
        put(&mut endings.channel, list);
        put(&mut endings.samples_over_threshold, of(sot));
        put(&mut endings.integral_low, of(low));
        match has_high {
            true => put(&mut endings.integral_high, of(high)),
            // SAFETY: `self` is the proof that the machine has the instruction.
            false => put(&mut endings.integral_high, unsafe { _mm512_setzero_si512() }),
        }
        put(&mut endings.peak, of(peak));
        put(&mut endings.samples_to_peak, of(to_peak));
        put(&mut endings.samples_left, left);
    }

    /// Two times 32 channels: their bytes by `gather`, each value from bit `shift` of its 64-bit
    /// lane on, and of it the bits of `mask`.
    #[inline(always)]
    fn unpack(
        self,
        halves: [&[u8; 64]; 2],
        gather: &[[u8; 64]; 2],
        shift: [u8; 8],
        mask: u16,
    ) -> <Self as Lanes>::Words {
        // SAFETY: the references cover the 64 bytes read; the loads need no alignment. `self` is
        // the proof that the machine has the instructions.
        unsafe {
            let shift = _mm512_set1_epi64(i64::from_le_bytes(shift));
            let mask = _mm512_set1_epi16(mask as i16);
            let half = |bytes: &[u8; 64], gather: &[u8; 64]| {
                let bytes = _mm512_loadu_si512(bytes.as_ptr().cast());
                let gather = _mm512_loadu_si512(gather.as_ptr().cast());
                let fours = _mm512_permutexvar_epi8(gather, bytes);
                _mm512_and_si512(_mm512_multishift_epi64_epi8(shift, fours), mask)
            };
            [half(halves[0], &gather[0]), half(halves[1], &gather[1])]
        }
    }
}

/// What marks channels whose hits end one sample earlier; no look-up by channel heeds it.
const EARLIER: u8 = CHANNELS as u8;

/// The numbers of all channels.
const ALL_CHANNELS: [u8; CHANNELS] = {
    let mut channels = [0; CHANNELS];
    let mut i = 0;
    while i < CHANNELS {
        channels[i] = i as u8;
        i += 1;
    }
    channels
};

/// The first 64 bytes of a row.
#[inline(always)]
fn first(row: &Row) -> &[u8; 64] {
    const { assert!(ROW_LEN >= 64) };
    row.first_chunk().unwrap_or(&[0; 64])
}

/// The last 64 bytes of a row.
#[inline(always)]
fn last(row: &Row) -> &[u8; 64] {
    row.last_chunk().unwrap_or(&[0; 64])
}

/// For each 64-bit lane, the seven bytes of four 14-bit values; the first lane begins at `first`.
const fn gather_adc14(first: u8) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = first + 7 * (i as u8 / 8) + i as u8 % 8;
        i += 1;
    }
    // The eighth byte of a lane is not used; the last one would lie outside the register.
    bytes[63] = 0;
    bytes
}

/// For each 64-bit lane, the six bytes of four channels of one ADC in four segments of 12 bytes;
/// the first segment begins at `first`. ADCs lie in pairs: the first four channels of both in one
/// segment, byte by byte in turn, the last four in the next.
const fn gather_coldata(first: u8) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (lane, byte) = (i as u8 / 8, i as u8 % 8);
        let (adc, second_four) = (lane / 2, lane % 2);
        let segment = adc / 2 * 2 + second_four;
        if byte < 6 {
            bytes[i] = first + 12 * segment + adc % 2 + 2 * byte;
        }
        i += 1;
    }
    bytes
}
