//! The chain with 512-bit vectors: a register holds one quantity of 32 channels, or of all 64
//! in 8 bits.
//!
//! What makes it fast, and exact:
//!
//! * **Unpacking** is one byte permutation (4 channels = 7 bytes = one 64-bit lane), one
//!   multi-shift and one mask for 32 channels.
//! * **Pedestals move at most 64 counts in a block**, so the serial part of the chain runs on
//!   the *rise* (sample minus pedestal at the start of the block) saturated to 8 bits: 64
//!   channels in one register. Saturation changes no comparison with an offset of at most 64.
//! * The signs are arithmetic, `clamp(rise - offset, -1, 1)`, which makes a shorter dependency
//!   chain than compare masks.
//! * **Hits are rare**: a row whose rises all lie below threshold minus the largest possible
//!   move, with no hit open, is left without looking at the exact signal.
//! * **All state stays in registers** over the block; that of the hits goes to memory only where
//!   one ends and its primitive is put together.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::hint::black_box;
use core::ops::Range;

use crate::block::{self, ADC_MAX, CHANNELS, PREFETCH_AHEAD, ROW_LEN, Row, SAMPLES};
use crate::chain::Parameters;
use crate::job::Job;
use crate::state::{State, Word16};

/// Channels in a register of 16-bit lanes.
const LANES: usize = CHANNELS / 2;

/// A 16-bit quantity of all channels. An 8-bit quantity of all channels is one register, in the
/// lane order of `_mm512_packs_epi16`.
type Words = [__m512i; 2];

/// Proof that the machine has AVX-512 F, BW and VBMI.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx512(());

impl Avx512 {
    /// Looks for the instruction set on this machine.
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vbmi");
        found.then_some(Self(()))
    }

    /// Runs the chain over a block.
    pub(crate) fn process(self, job: &mut Job) {
        // SAFETY: `self` exists only where `detect` found the features.
        unsafe { process(job) }
    }
}

/// Runs the chain over a block: the rows that move the pedestal, then those that do not.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn process(job: &mut Job) {
    let moving = job.parameters.moving_samples(job.state.samples);
    match job.parameters.transform {
        None => {
            process_rows::<true, false, false>(job, 0..moving);
            process_rows::<false, false, false>(job, moving..SAMPLES);
        }
        Some(sum) if sum.absolute => {
            process_rows::<true, true, true>(job, 0..moving);
            process_rows::<false, true, true>(job, moving..SAMPLES);
        }
        Some(_) => {
            process_rows::<true, true, false>(job, 0..moving);
            process_rows::<false, true, false>(job, moving..SAMPLES);
        }
    }
}

/// Runs the chain over some rows of a block, with the state of the pedestals in registers.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn process_rows<const MOVING: bool, const SUMMED: bool, const ABSOLUTE: bool>(
    job: &mut Job,
    rows: Range<usize>,
) {
    if rows.is_empty() {
        return;
    }
    let unpacker = Unpacker::new();
    let threshold = load(&job.parameters.threshold);
    let screen = screen(job.parameters, threshold);
    let mut pedestal = PedestalLanes::load(job.parameters, job.state);
    let mut sums = SumLanes::load(job.parameters, job.state);
    let mut hits = HitLanes::load(job.state);
    let mut open = hits.open();
    for (t, row) in rows.clone().zip(&block::rows(job.block)[rows]) {
        prefetch(row);
        let rise = pedestal.rise(unpacker.unpack(row));
        let narrow = narrow(rise);
        if MOVING {
            pedestal.step(narrow);
        }
        if !SUMMED && (_mm512_cmpgt_epi8_mask(narrow, screen) | open) == 0 {
            continue;
        }
        let mut signal = pedestal.signal(rise);
        if SUMMED {
            signal = sums.step::<ABSOLUTE>(signal);
        }
        let over = above(signal, threshold);
        if (over | open) != 0 {
            hits.step(job, t, signal, over, open);
        }
        open = over;
    }
    pedestal.store(job.state);
    hits.store(job.state);
    if SUMMED {
        sums.store(job.state);
    }
}

/// The rise above which a channel may be over threshold, in packed 8-bit lanes.
///
/// The signal exceeds the rise by at most the largest move of the pedestal. A rise that
/// saturates at 127 must always pass, hence the minimum.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn screen(parameters: &Parameters, threshold: Words) -> __m512i {
    let margin = _mm512_set1_epi16(parameters.moves_max());
    let lowest = narrow(subtract(threshold, [margin; 2]));
    _mm512_min_epi8(lowest, _mm512_set1_epi8(126))
}

/// Constants that bring a row into 16-bit lanes.
#[derive(Clone, Copy)]
struct Unpacker {
    gather: Words,
    shift: __m512i,
}

/// For each 64-bit lane, the seven bytes of four channels; the first lane begins at `first`.
const fn gather_bytes(first: u8) -> [u8; 64] {
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

impl Unpacker {
    /// The second half of a row is the 56 bytes from 56 on; loaded as the row's last 64 bytes.
    const GATHER: [[u8; 64]; 2] = [gather_bytes(0), gather_bytes(8)];
    /// Bit at which each byte of a 64-bit lane begins: two bytes for each 14-bit value.
    const SHIFT: i64 = i64::from_le_bytes([0, 8, 14, 22, 28, 36, 42, 50]);

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn new() -> Self {
        Self {
            gather: [load_bytes(&Self::GATHER[0]), load_bytes(&Self::GATHER[1])],
            shift: _mm512_set1_epi64(Self::SHIFT),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn unpack(&self, row: &Row) -> Words {
        const NONE: &[u8; 64] = &[0; 64];
        const { assert!(ROW_LEN >= NONE.len()) };
        [
            self.lanes(row.first_chunk().unwrap_or(NONE), self.gather[0]),
            self.lanes(row.last_chunk().unwrap_or(NONE), self.gather[1]),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn lanes(&self, bytes: &[u8; 64], gather: __m512i) -> __m512i {
        let fours = _mm512_permutexvar_epi8(gather, load_bytes(bytes));
        let values = _mm512_multishift_epi64_epi8(self.shift, fours);
        _mm512_and_si512(values, _mm512_set1_epi16(ADC_MAX as i16))
    }
}

/// Pedestals of all channels: `base` of 16 bits at the start of the rows, and since then an
/// `offset` of 8 bits.
#[derive(Clone, Copy)]
struct PedestalLanes {
    base: Words,
    offset: __m512i,
    accumulator: __m512i,
    limit: __m512i,
    one: __m512i,
}

impl PedestalLanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn load(parameters: &Parameters, state: &State) -> Self {
        Self {
            base: load(&state.pedestal),
            offset: _mm512_setzero_si512(),
            accumulator: narrow(load(&state.accumulator)),
            limit: _mm512_set1_epi8(parameters.accum_limit),
            // Hidden from the compiler, which would turn the clamp to +-1 into compare masks.
            one: black_box(_mm512_set1_epi8(1)),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn store(&self, state: &mut State) {
        let moved = widen(self.offset);
        let pedestal =
            [_mm512_add_epi16(self.base[0], moved[0]), _mm512_add_epi16(self.base[1], moved[1])];
        store(&mut state.pedestal, pedestal);
        store(&mut state.accumulator, widen(self.accumulator));
    }

    /// Samples minus the pedestals at the start.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn rise(&self, adc: Words) -> Words {
        subtract(adc, self.base)
    }

    /// Samples minus the pedestals now.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn signal(&self, rise: Words) -> Words {
        subtract(rise, widen(self.offset))
    }

    /// One sample of the frugal estimate, on the rises saturated to 8 bits.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn step(&mut self, rise: __m512i) {
        let zero = _mm512_setzero_si512();
        let sign = clamp(_mm512_subs_epi8(rise, self.offset), self.one);
        let accumulator = _mm512_add_epi8(self.accumulator, sign);
        let moved = _mm512_sub_epi8(accumulator, clamp(accumulator, self.limit));
        self.offset = _mm512_add_epi8(self.offset, moved);
        self.accumulator = _mm512_maskz_mov_epi8(_mm512_cmpeq_epi8_mask(moved, zero), accumulator);
    }
}

/// Running sums of all channels.
#[derive(Clone, Copy)]
struct SumLanes {
    sum: Words,
    memory_factor: Words,
    scale_factor: Words,
}

impl SumLanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn load(parameters: &Parameters, state: &State) -> Self {
        Self {
            sum: load(&state.running_sum),
            memory_factor: load(&parameters.memory_factor),
            scale_factor: load(&parameters.scale_factor),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn store(&self, state: &mut State) {
        store(&mut state.running_sum, self.sum);
    }

    /// Adds a sample and gives the new sums.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn step<const ABSOLUTE: bool>(&mut self, signal: Words) -> Words {
        let tenth = _mm512_set1_epi16(3276);
        for h in 0..2 {
            let signal = if ABSOLUTE { _mm512_abs_epi16(signal[h]) } else { signal[h] };
            let added =
                _mm512_mullo_epi16(_mm512_mulhrs_epi16(signal, tenth), self.scale_factor[h]);
            let kept = _mm512_mulhrs_epi16(self.sum[h], tenth);
            let kept = _mm512_mullo_epi16(kept, self.memory_factor[h]);
            self.sum[h] = _mm512_adds_epi16(kept, added);
        }
        self.sum
    }
}

/// Open hits of all channels.
#[derive(Clone, Copy)]
struct HitLanes {
    sot: Words,
    low: Words,
    high: Words,
    peak: Words,
    to_peak: Words,
}

impl HitLanes {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn load(state: &State) -> Self {
        Self {
            sot: load(&state.samples_over_threshold),
            low: load(&state.integral_low),
            high: load(&state.integral_high),
            peak: load(&state.peak),
            to_peak: load(&state.samples_to_peak),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn store(&self, state: &mut State) {
        store(&mut state.samples_over_threshold, self.sot);
        store(&mut state.integral_low, self.low);
        store(&mut state.integral_high, self.high);
        store(&mut state.peak, self.peak);
        store(&mut state.samples_to_peak, self.to_peak);
    }

    /// The channels with an open hit, one bit each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn open(&self) -> u64 {
        above(self.sot, [_mm512_setzero_si512(); 2])
    }

    /// Emits the hits that are no longer over threshold, then extends or opens the others.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn step(&mut self, job: &mut Job, t: usize, signal: Words, over: u64, open: u64) {
        let done = open & !over;
        if done != 0 {
            self.store(job.state);
            job.complete(t, done);
        }
        self.extend(signal, [over as u32, (over >> LANES) as u32]);
    }

    /// Adds a sample to the hits over threshold. All other channels are cleared: their hit either
    /// was just closed or did not exist.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
    fn extend(&mut self, signal: Words, over: [u32; 2]) {
        let one = _mm512_set1_epi16(1);
        for h in 0..2 {
            let (over, x) = (over[h], signal[h]);
            self.low[h] = _mm512_maskz_add_epi16(over, self.low[h], x);
            self.high[h] = _mm512_maskz_mov_epi16(over, self.high[h]);
            let carry = _mm512_mask_cmplt_epu16_mask(over, self.low[h], x);
            self.high[h] = _mm512_mask_adds_epu16(self.high[h], carry, self.high[h], one);
            let above = _mm512_mask_cmpgt_epi16_mask(over, x, self.peak[h]);
            let to_peak = _mm512_maskz_mov_epi16(over, self.to_peak[h]);
            self.to_peak[h] = _mm512_mask_mov_epi16(to_peak, above, self.sot[h]);
            self.peak[h] = _mm512_maskz_max_epi16(over, self.peak[h], x);
            self.sot[h] = _mm512_maskz_adds_epi16(over, self.sot[h], one);
        }
    }
}

/// `a - b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn subtract(a: Words, b: Words) -> Words {
    [_mm512_sub_epi16(a[0], b[0]), _mm512_sub_epi16(a[1], b[1])]
}

/// The channels where `a` is greater than `b`, channel 0 in the lowest bit.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn above(a: Words, b: Words) -> u64 {
    let low = _mm512_cmpgt_epi16_mask(a[0], b[0]);
    let high = _mm512_cmpgt_epi16_mask(a[1], b[1]);
    u64::from(low) | u64::from(high) << LANES
}

/// Limits signed bytes to `-limit..=limit`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn clamp(x: __m512i, limit: __m512i) -> __m512i {
    let lowest = _mm512_sub_epi8(_mm512_setzero_si512(), limit);
    _mm512_max_epi8(_mm512_min_epi8(x, limit), lowest)
}

/// 16-bit values saturated to signed bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn narrow(x: Words) -> __m512i {
    _mm512_packs_epi16(x[0], x[1])
}

/// Signed bytes as 16-bit values.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn widen(x: __m512i) -> Words {
    let zero = _mm512_setzero_si512();
    [
        _mm512_srai_epi16::<8>(_mm512_unpacklo_epi8(zero, x)),
        _mm512_srai_epi16::<8>(_mm512_unpackhi_epi8(zero, x)),
    ]
}

/// Fetches the cache lines that lie [`PREFETCH_AHEAD`] after a row.
///
/// At the end of a block these are the first of what follows in memory, which is the next frame
/// where frames land one after another.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn prefetch(row: &Row) {
    let line = row.as_ptr().wrapping_add(PREFETCH_AHEAD);
    _mm_prefetch::<_MM_HINT_T0>(line.cast());
    _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64).cast());
}

/// Loads 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load_bytes(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: the reference covers the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Loads a quantity of all channels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn load<T: Word16>(quantity: &[T; CHANNELS]) -> Words {
    let start = quantity.as_ptr();
    // SAFETY: the reference covers 64 words of 16 bits, which are the 2 x 64 bytes read; the
    // load needs no alignment.
    unsafe { [_mm512_loadu_si512(start.cast()), _mm512_loadu_si512(start.add(LANES).cast())] }
}

/// Stores a quantity of all channels.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn store<T: Word16>(quantity: &mut [T; CHANNELS], lanes: Words) {
    let start = quantity.as_mut_ptr();
    // SAFETY: the reference covers 64 words of 16 bits, which are the 2 x 64 bytes written; any
    // bits are a value of `Word16`; the store needs no alignment.
    unsafe {
        _mm512_storeu_si512(start.cast(), lanes[0]);
        _mm512_storeu_si512(start.add(LANES).cast(), lanes[1]);
    }
}
