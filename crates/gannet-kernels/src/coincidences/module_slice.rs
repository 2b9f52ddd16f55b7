//! The hits of a module in a slice: calibrated, in order of time.

use core::fmt;

use gannet_wire::Record;
use gannet_wire::km3net::{CHANNELS, Hit};

use super::near::lesser_next;
use super::run;
use crate::isa::{Isa, IsaError, Kernel};

/// Most hits of a slice that are kept: 40 kHz on each photomultiplier.
pub const HITS_MAX: usize = 1 << 17;
/// Longest slice, ns.
pub const SLICE_MAX_NS: u32 = 1 << 30;
/// Largest time that is added to that of a hit, ns.
pub const T0_MAX_NS: u32 = 1 << 20;
/// Buckets of time that hits out of order are put into.
const BUCKETS: usize = 1 << 15;
/// Places by which hits may be moved one by one, for each hit.
const MOVES: usize = 2;

/// A hit with the time of the detector. Hits are in order of time, channel, time over threshold.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CalibratedHit(u64);

impl CalibratedHit {
    /// A hit; time in ns from the begin of the slice, time over threshold in ns.
    #[inline(always)]
    pub const fn new(time: u32, channel: u8, time_over_threshold: u8) -> Self {
        Self((time as u64) << 32 | (channel as u64) << 8 | time_over_threshold as u64)
    }

    /// Time from the begin of the slice, ns.
    #[inline(always)]
    pub const fn time(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// Photomultiplier.
    #[inline(always)]
    pub const fn channel(self) -> u8 {
        (self.0 >> 8) as u8
    }

    /// Time over threshold, ns.
    #[inline(always)]
    pub const fn time_over_threshold(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Debug for CalibratedHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (time, channel, tot) = (self.time(), self.channel(), self.time_over_threshold());
        write!(f, "{time} ns on {channel} for {tot} ns")
    }
}

/// What is added to the time of a hit, by channel.
#[derive(Clone, Debug)]
pub struct Calibration([u32; 256]);

impl Calibration {
    /// Times to add, ns: t0 of a photomultiplier less the least t0 of the detector.
    ///
    /// # Panics
    /// If there are more than [`CHANNELS`] or one is beyond [`T0_MAX_NS`].
    pub fn new(t0_ns: &[u32]) -> Self {
        assert!(t0_ns.len() <= CHANNELS && t0_ns.iter().all(|&t0| t0 <= T0_MAX_NS));
        let mut all = [0; 256];
        all[..t0_ns.len()].copy_from_slice(t0_ns);
        Self(all)
    }
}

/// Hits that were left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// On channels that are none.
    pub unknown_channel: u64,
    /// Not within the slice.
    pub beyond_slice: u64,
    /// Beyond [`HITS_MAX`].
    pub overflow: u64,
}

/// Buffers for the hits of a module and a slice.
#[derive(Clone, Debug)]
pub struct ModuleSlice {
    kernel: Kernel,
    length_ns: u32,
    shift: u32,
    /// The last place is for hits that there is no room for.
    hits: Box<[CalibratedHit; HITS_MAX + 1]>,
    len: usize,
    spare: Box<[CalibratedHit]>,
    starts: Box<[u32; BUCKETS]>,
    counts: Counts,
}

impl ModuleSlice {
    /// Buffers for slices of this length in ns.
    ///
    /// # Errors
    /// When this machine lacks the instruction set.
    ///
    /// # Panics
    /// If the length is 0 or beyond [`SLICE_MAX_NS`].
    pub fn new(length_ns: u32, isa: Isa) -> Result<Self, IsaError> {
        assert!((1..=SLICE_MAX_NS).contains(&length_ns), "a slice of {length_ns} ns");
        let last = length_ns - 1 + T0_MAX_NS;
        Ok(Self {
            kernel: Kernel::of(isa)?,
            length_ns,
            shift: (u32::BITS - last.leading_zeros()).saturating_sub(BUCKETS.trailing_zeros()),
            hits: boxed(CalibratedHit::default()),
            len: 0,
            spare: vec![CalibratedHit::default(); HITS_MAX].into(),
            starts: boxed(0),
            counts: Counts::default(),
        })
    }

    /// Begins another slice. The counts go on.
    pub fn clear(&mut self) {
        self.len = 0;
    }

    /// Hits left out since the buffers were made.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds the hits of a packet, 6 bytes each; the rest of a hit is passed over.
    pub fn add(&mut self, hits: &[u8], calibration: &Calibration) {
        run(self.kernel, || self.unpack(hits.as_chunks().0, calibration));
    }

    #[inline(always)]
    fn unpack(&mut self, records: &[[u8; Hit::LEN]], Calibration(t0): &Calibration) {
        let (before, mut len, mut unknown) = (self.len, self.len, 0);
        for record in records {
            let Hit { channel, time, time_over_threshold } = Hit::read(record);
            let is_known = usize::from(channel) < CHANNELS;
            let time_there = time.wrapping_add(t0[usize::from(channel)]);
            self.hits[len.min(HITS_MAX)] =
                CalibratedHit::new(time_there, channel, time_over_threshold);
            len += usize::from(is_known & (time < self.length_ns));
            unknown += u64::from(!is_known);
        }
        let beyond = (records.len() - (len - before)) as u64 - unknown;
        self.counts.unknown_channel += unknown;
        self.counts.beyond_slice += beyond;
        self.counts.overflow += len.saturating_sub(HITS_MAX) as u64;
        self.len = len.min(HITS_MAX);
    }

    /// Puts the hits in order and gives them.
    pub fn sorted(&mut self) -> &[CalibratedHit] {
        match self.kernel {
            Kernel::Scalar => self.hits[..self.len].sort_unstable(),
            kernel => run(kernel, || self.sort()),
        }
        &self.hits[..self.len]
    }

    /// Modules send their hits almost in order. If these are not, buckets bring them near their
    /// places; if they all lie in a few buckets, that is no help.
    #[inline(always)]
    fn sort(&mut self) {
        let hits = &mut self.hits[..self.len];
        if move_back(hits) {
            return;
        }
        let spare = &mut self.spare[..hits.len()];
        spare.copy_from_slice(hits);
        let bucket = |hit: CalibratedHit| (hit.time() >> self.shift) as usize % BUCKETS;
        self.starts.fill(0);
        spare.iter().for_each(|&hit| self.starts[bucket(hit)] += 1);
        let mut start = 0;
        for place in self.starts.iter_mut() {
            (*place, start) = (start, start + *place);
        }
        for &hit in &*spare {
            let place = &mut self.starts[bucket(hit)];
            hits[*place as usize] = hit;
            *place += 1;
        }
        if !move_back(hits) {
            hits.sort_unstable();
        }
    }
}

/// Moves hits back to their places. Gives up, and tells so, where that takes too many moves.
#[inline(always)]
fn move_back(hits: &mut [CalibratedHit]) -> bool {
    let mut moves = MOVES * hits.len();
    let mut last = 0;
    while last + 1 < hits.len() {
        last = lesser_next(hits, last);
        let Some(&hit) = hits.get(last + 1) else { break };
        let later = hits[..=last].iter().rev().take_while(|&&other| other > hit).count();
        hits.copy_within(last + 1 - later..=last, last + 2 - later);
        hits[last + 1 - later] = hit;
        match moves.checked_sub(later) {
            Some(left) => moves = left,
            None => return false,
        }
        last += 1;
    }
    true
}

fn boxed<T: Copy + fmt::Debug, const N: usize>(value: T) -> Box<[T; N]> {
    vec![value; N].into_boxed_slice().try_into().expect("it has N")
}
