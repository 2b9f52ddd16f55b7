//! The chain with 256-bit vectors: a register holds one quantity of a group of 16 channels, or
//! of 32 in 8 bits.
//!
//! The method is that of `avx512`: pedestals as 8-bit offsets, and a screen that passes over rows
//! without hits. Two things differ:
//!
//! * **Unpacking.** Two channels are 28 bits, which always lie in a window of 4 bytes, so a byte
//!   shuffle, a shift of each 32-bit lane by 0 or 4 and one shifted copy bring 16 channels into
//!   their lanes.
//! * **Hit state stays in memory**, as 16 registers cannot hold it; it is touched only in rows
//!   with a hit.
#![allow(unsafe_code)]

use core::arch::x86_64::*;
use core::ops::Range;

use crate::block::{self, ADC_BITS, ADC_MAX, CHANNELS, PREFETCH_AHEAD, ROW_LEN, Row, SAMPLES};
use crate::chain::Parameters;
use crate::job::Job;
use crate::state::{State, Word16};

/// Channels in a register of 16-bit lanes.
const LANES: usize = 16;
/// Registers for a 16-bit quantity of all channels.
const GROUPS: usize = CHANNELS / LANES;

/// A 16-bit quantity of all channels.
type Words = [__m256i; GROUPS];
/// An 8-bit quantity of all channels, in the lane order of `_mm256_packs_epi16`.
type Bytes = [__m256i; GROUPS / 2];

/// Proof that the machine has AVX2.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Avx2(());

impl Avx2 {
    /// Looks for the instruction set on this machine.
    pub(crate) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }

    /// Runs the chain over a block.
    pub(crate) fn process(self, job: &mut Job) {
        // SAFETY: `self` exists only where `detect` found the feature.
        unsafe { process(job) }
    }
}

/// Runs the chain over a block: the rows that move the pedestal, then those that do not.
#[target_feature(enable = "avx2")]
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
#[target_feature(enable = "avx2")]
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
    let mut open = any(load(&job.state.samples_over_threshold));
    for (t, row) in rows.clone().zip(&block::rows(job.block)[rows]) {
        prefetch(row);
        let rise = pedestal.rise(unpacker.unpack(row));
        let narrow = narrow(rise);
        if MOVING {
            pedestal.step(narrow);
        }
        if !SUMMED && !open && !any_above(narrow, screen) {
            continue;
        }
        let mut signal = pedestal.signal(rise);
        if SUMMED {
            signal = sums.step::<ABSOLUTE>(signal);
        }
        let over = above(signal, threshold);
        let now_open = any(over);
        if now_open || open {
            step_hits(job, t, signal, over);
        }
        open = now_open;
    }
    pedestal.store(job.state);
    if SUMMED {
        sums.store(job.state);
    }
}

/// The rise above which a channel may be over threshold.
///
/// The signal exceeds the rise by at most the largest move of the pedestal. A rise that
/// saturates at 127 must always pass, hence the minimum.
#[inline]
#[target_feature(enable = "avx2")]
fn screen(parameters: &Parameters, threshold: Words) -> Bytes {
    let margin = _mm256_set1_epi16(parameters.moves_max());
    let lowest = narrow([
        _mm256_sub_epi16(threshold[0], margin),
        _mm256_sub_epi16(threshold[1], margin),
        _mm256_sub_epi16(threshold[2], margin),
        _mm256_sub_epi16(threshold[3], margin),
    ]);
    let most = _mm256_set1_epi8(126);
    [_mm256_min_epi8(lowest[0], most), _mm256_min_epi8(lowest[1], most)]
}

/// Constants that bring a row into 16-bit lanes.
#[derive(Clone, Copy)]
struct Unpacker {
    gather: __m256i,
    gather_last: __m256i,
    shift: __m256i,
}

/// For each 32-bit lane of 8 channels, the 4 bytes in which its two channels lie; the first
/// channel begins `skip` bytes into the register half.
const fn gather_bytes(skip: u8) -> [u8; 16] {
    let mut bytes = [0; 16];
    let mut i = 0;
    while i < 16 {
        let pair = i / 4;
        bytes[i] = skip + (pair * 2 * ADC_BITS / 8 + i % 4) as u8;
        i += 1;
    }
    bytes
}

impl Unpacker {
    /// Bytes of 8 channels, which fill one half of a register.
    const HALF: usize = 8 * ADC_BITS / 8;
    /// The last 8 channels are loaded with the 2 bytes before them, to stay inside the row.
    const LAST: usize = ROW_LEN - 16;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        const GATHER: [u8; 16] = gather_bytes(0);
        const GATHER_LAST: [u8; 16] = gather_bytes(2);
        let gather = load_bytes(&GATHER);
        Self {
            gather: _mm256_set_m128i(gather, gather),
            gather_last: _mm256_set_m128i(load_bytes(&GATHER_LAST), gather),
            shift: _mm256_set_epi32(4, 0, 4, 0, 4, 0, 4, 0),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn unpack(&self, row: &Row) -> Words {
        const HALF: usize = Unpacker::HALF;
        [
            self.lanes(bytes_at::<0>(row), bytes_at::<HALF>(row), self.gather),
            self.lanes(bytes_at::<{ 2 * HALF }>(row), bytes_at::<{ 3 * HALF }>(row), self.gather),
            self.lanes(bytes_at::<{ 4 * HALF }>(row), bytes_at::<{ 5 * HALF }>(row), self.gather),
            self.lanes(
                bytes_at::<{ 6 * HALF }>(row),
                bytes_at::<{ Self::LAST }>(row),
                self.gather_last,
            ),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn lanes(&self, low: &[u8; 16], high: &[u8; 16], gather: __m256i) -> __m256i {
        let bytes = _mm256_set_m128i(load_bytes(high), load_bytes(low));
        let pairs = _mm256_srlv_epi32(_mm256_shuffle_epi8(bytes, gather), self.shift);
        // Bits 0..14 are the even channel; 14..28 the odd one, which belongs into bits 16..30.
        let odd = _mm256_slli_epi32::<{ 16 - ADC_BITS as i32 }>(pairs);
        let values = _mm256_blend_epi16::<0b1010_1010>(pairs, odd);
        _mm256_and_si256(values, _mm256_set1_epi16(ADC_MAX as i16))
    }
}

/// The 16 bytes of a row from byte `FIRST` on.
#[inline]
fn bytes_at<const FIRST: usize>(row: &Row) -> &[u8; 16] {
    const { assert!(FIRST + 16 <= ROW_LEN) };
    row[FIRST..].first_chunk().unwrap_or(&[0; 16])
}

/// Pedestals of all channels: `base` of 16 bits at the start of the rows, and since then an
/// `offset` of 8 bits.
#[derive(Clone, Copy)]
struct PedestalLanes {
    base: Words,
    offset: Bytes,
    accumulator: Bytes,
    limit: __m256i,
    limit_below: __m256i,
}

impl PedestalLanes {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(parameters: &Parameters, state: &State) -> Self {
        Self {
            base: load(&state.pedestal),
            offset: [_mm256_setzero_si256(); 2],
            accumulator: narrow(load(&state.accumulator)),
            limit: _mm256_set1_epi8(parameters.accum_limit),
            limit_below: _mm256_set1_epi8(-parameters.accum_limit),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(&self, state: &mut State) {
        let mut pedestal = widen(self.offset);
        for (pedestal, base) in pedestal.iter_mut().zip(self.base) {
            *pedestal = _mm256_add_epi16(*pedestal, base);
        }
        store(&mut state.pedestal, pedestal);
        store(&mut state.accumulator, widen(self.accumulator));
    }

    /// Samples minus the pedestals at the start.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn rise(&self, adc: Words) -> Words {
        subtract(adc, self.base)
    }

    /// Samples minus the pedestals now.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn signal(&self, rise: Words) -> Words {
        subtract(rise, widen(self.offset))
    }

    /// One sample of the frugal estimate, on the rises saturated to 8 bits.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn step(&mut self, rise: Bytes) {
        let one = _mm256_set1_epi8(1);
        for (i, rise) in rise.into_iter().enumerate() {
            let sign = _mm256_sign_epi8(one, _mm256_subs_epi8(rise, self.offset[i]));
            let accumulator = _mm256_add_epi8(self.accumulator[i], sign);
            let limited = _mm256_max_epi8(accumulator, self.limit_below);
            let limited = _mm256_min_epi8(limited, self.limit);
            let stays = _mm256_cmpeq_epi8(accumulator, limited);
            self.offset[i] = _mm256_add_epi8(self.offset[i], _mm256_sub_epi8(accumulator, limited));
            self.accumulator[i] = _mm256_and_si256(accumulator, stays);
        }
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
    #[target_feature(enable = "avx2")]
    fn load(parameters: &Parameters, state: &State) -> Self {
        Self {
            sum: load(&state.running_sum),
            memory_factor: load(&parameters.memory_factor),
            scale_factor: load(&parameters.scale_factor),
        }
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(&self, state: &mut State) {
        store(&mut state.running_sum, self.sum);
    }

    /// Adds a sample and gives the new sums.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn step<const ABSOLUTE: bool>(&mut self, signal: Words) -> Words {
        let tenth = _mm256_set1_epi16(3276);
        for g in 0..GROUPS {
            let signal = if ABSOLUTE { _mm256_abs_epi16(signal[g]) } else { signal[g] };
            let added =
                _mm256_mullo_epi16(_mm256_mulhrs_epi16(signal, tenth), self.scale_factor[g]);
            let kept = _mm256_mulhrs_epi16(self.sum[g], tenth);
            let kept = _mm256_mullo_epi16(kept, self.memory_factor[g]);
            self.sum[g] = _mm256_adds_epi16(kept, added);
        }
        self.sum
    }
}

/// Emits the hits that are no longer over threshold, then extends or opens the others.
#[inline]
#[target_feature(enable = "avx2")]
fn step_hits(job: &mut Job, t: usize, signal: Words, over: Words) {
    let sot = load(&job.state.samples_over_threshold);
    let zero = _mm256_setzero_si256();
    let mut done = 0;
    for g in 0..GROUPS {
        let closed = _mm256_andnot_si256(over[g], _mm256_cmpgt_epi16(sot[g], zero));
        // One bit a byte; every second of them is one bit a channel.
        let bits = _mm256_movemask_epi8(_mm256_packs_epi16(closed, zero)) as u32 as u64;
        done |= ((bits & 0xff) | ((bits >> 8) & 0xff00)) << (g * LANES);
    }
    if done != 0 {
        job.complete(t, done);
    }
    extend_hits(job.state, signal, over, sot);
}

/// Adds a sample to the hits over threshold. All other channels are cleared: their hit either
/// was just closed or did not exist.
#[inline]
#[target_feature(enable = "avx2")]
fn extend_hits(state: &mut State, signal: Words, over: Words, sot: Words) {
    let one = _mm256_set1_epi16(1);
    let mut low = load(&state.integral_low);
    let mut high = load(&state.integral_high);
    let mut peak = load(&state.peak);
    let mut to_peak = load(&state.samples_to_peak);
    let mut longer = sot;
    for g in 0..GROUPS {
        let keep = |x| _mm256_and_si256(x, over[g]);
        let x = keep(signal[g]);
        low[g] = keep(_mm256_add_epi16(low[g], x));
        let no_carry = _mm256_cmpeq_epi16(_mm256_max_epu16(low[g], x), low[g]);
        high[g] = keep(_mm256_adds_epu16(high[g], _mm256_add_epi16(no_carry, one)));
        let above = _mm256_cmpgt_epi16(x, peak[g]);
        to_peak[g] = keep(_mm256_blendv_epi8(to_peak[g], sot[g], above));
        peak[g] = keep(_mm256_max_epi16(peak[g], x));
        longer[g] = keep(_mm256_adds_epi16(sot[g], one));
    }
    store(&mut state.integral_low, low);
    store(&mut state.integral_high, high);
    store(&mut state.peak, peak);
    store(&mut state.samples_to_peak, to_peak);
    store(&mut state.samples_over_threshold, longer);
}

#[inline]
#[target_feature(enable = "avx2")]
fn subtract(a: Words, b: Words) -> Words {
    [
        _mm256_sub_epi16(a[0], b[0]),
        _mm256_sub_epi16(a[1], b[1]),
        _mm256_sub_epi16(a[2], b[2]),
        _mm256_sub_epi16(a[3], b[3]),
    ]
}

/// All ones where `a` is greater than `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn above(a: Words, b: Words) -> Words {
    [
        _mm256_cmpgt_epi16(a[0], b[0]),
        _mm256_cmpgt_epi16(a[1], b[1]),
        _mm256_cmpgt_epi16(a[2], b[2]),
        _mm256_cmpgt_epi16(a[3], b[3]),
    ]
}

/// Whether any bit of a quantity is set.
#[inline]
#[target_feature(enable = "avx2")]
fn any(x: Words) -> bool {
    let all = _mm256_or_si256(_mm256_or_si256(x[0], x[1]), _mm256_or_si256(x[2], x[3]));
    _mm256_testz_si256(all, all) == 0
}

/// Whether any byte of `a` is greater than that of `b`.
#[inline]
#[target_feature(enable = "avx2")]
fn any_above(a: Bytes, b: Bytes) -> bool {
    let above = [_mm256_cmpgt_epi8(a[0], b[0]), _mm256_cmpgt_epi8(a[1], b[1])];
    _mm256_movemask_epi8(_mm256_or_si256(above[0], above[1])) != 0
}

/// 16-bit values saturated to signed bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn narrow(x: Words) -> Bytes {
    [_mm256_packs_epi16(x[0], x[1]), _mm256_packs_epi16(x[2], x[3])]
}

/// Signed bytes as 16-bit values.
#[inline]
#[target_feature(enable = "avx2")]
fn widen(x: Bytes) -> Words {
    let zero = _mm256_setzero_si256();
    [
        _mm256_srai_epi16::<8>(_mm256_unpacklo_epi8(zero, x[0])),
        _mm256_srai_epi16::<8>(_mm256_unpackhi_epi8(zero, x[0])),
        _mm256_srai_epi16::<8>(_mm256_unpacklo_epi8(zero, x[1])),
        _mm256_srai_epi16::<8>(_mm256_unpackhi_epi8(zero, x[1])),
    ]
}

/// Fetches the cache lines that lie [`PREFETCH_AHEAD`] after a row.
///
/// At the end of a block these are the first of what follows in memory, which is the next frame
/// where frames land one after another.
#[inline]
#[target_feature(enable = "avx2")]
fn prefetch(row: &Row) {
    let line = row.as_ptr().wrapping_add(PREFETCH_AHEAD);
    _mm_prefetch::<_MM_HINT_T0>(line.cast());
    _mm_prefetch::<_MM_HINT_T0>(line.wrapping_add(64).cast());
}

/// Loads 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn load_bytes(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: the reference covers the 16 bytes read; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Loads a quantity of all channels.
#[inline]
#[target_feature(enable = "avx2")]
fn load<T: Word16>(quantity: &[T; CHANNELS]) -> Words {
    let start: *const __m256i = quantity.as_ptr().cast();
    // SAFETY: the reference covers 64 words of 16 bits, which are the 4 x 32 bytes read; the
    // loads need no alignment.
    unsafe {
        [
            _mm256_loadu_si256(start),
            _mm256_loadu_si256(start.add(1)),
            _mm256_loadu_si256(start.add(2)),
            _mm256_loadu_si256(start.add(3)),
        ]
    }
}

/// Stores a quantity of all channels.
#[inline]
#[target_feature(enable = "avx2")]
fn store<T: Word16>(quantity: &mut [T; CHANNELS], lanes: Words) {
    let start: *mut __m256i = quantity.as_mut_ptr().cast();
    for (g, lanes) in lanes.into_iter().enumerate() {
        // SAFETY: the reference covers 64 words of 16 bits, which are the 4 x 32 bytes written;
        // any bits are a value of `Word16`; the store needs no alignment.
        unsafe { _mm256_storeu_si256(start.add(g), lanes) }
    }
}
