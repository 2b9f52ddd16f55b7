//! Faults that are switched on while frames are made, one at a time and for a bounded time.
//!
//! Which frames suffer depends on the seed, the stream, the frame, and the frames between which the fault is on.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gannet_measure::counter::Counter;
use gannet_measure::random::Random;

use crate::config::Settings;
use crate::faults::Fault;
use crate::seeds::{Purpose, family};

/// Of so many frames of a stream, one suffers a fault that comes now and then.
const ONE_IN: u64 = 100;
/// Between two of them are at least so many others, so that a frame that is held back comes after some that are not.
const APART: u64 = 20;
/// Of so many frames of a stream, [`BURST`] in a row are lost.
const BURST_EVERY: u64 = 400;
const BURST: u64 = 20;

/// A fault that can be switched on while frames are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LiveFault {
    /// Of every 100 frames of a stream, one is not sent.
    Loss = 1,
    /// Of every 400 frames of a stream, 20 in a row are not sent.
    BurstLoss,
    /// Of every 100 frames of a stream, one is sent twice.
    Duplicate,
    /// Of every 100 frames of a stream, one is sent after later ones.
    Reorder,
    /// Of every 100 frames of a stream, one names a stream that does not exist.
    WrongId,
    /// One stream sends nothing.
    Cut,
}

impl LiveFault {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Loss, Self::BurstLoss, Self::Duplicate, Self::Reorder, Self::WrongId, Self::Cut];

    fn place(self) -> usize {
        self as usize - 1
    }
}

/// Switches faults of an emulator on, from any thread; the emulator reads one word a burst.
#[derive(Debug, Default)]
pub struct FaultSwitch {
    /// What is asked for or under way, packed; 0 for nothing.
    order: AtomicU64,
    suffered: [Counter; LiveFault::ALL.len()],
}

impl FaultSwitch {
    /// Switches `fault` on for so long, of the time in which the front end sends; `stream` is the one that is cut. False
    /// if another fault is on.
    pub fn switch_on(&self, fault: LiveFault, stream: usize, time: Duration) -> bool {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let order = u64::from(ms) << 32 | (stream as u64 & 0xff_ffff) << 8 | fault as u64;
        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.order.compare_exchange(0, order, set, seen).is_ok()
    }

    /// The fault that is on, or about to be.
    pub fn under_way(&self) -> Option<LiveFault> {
        fault_of(self.order.load(Ordering::Acquire))
    }

    /// Frames that have suffered `fault` by this switch.
    pub fn suffered(&self, fault: LiveFault) -> u64 {
        self.suffered[fault.place()].get()
    }
}

fn fault_of(order: u64) -> Option<LiveFault> {
    LiveFault::ALL.into_iter().find(|&fault| fault as u64 == order & 0xff)
}

/// What a switch does to an emulator.
#[derive(Debug)]
pub(crate) struct Live {
    switch: Option<Arc<FaultSwitch>>,
    seed: u64,
    frames_per_s: f64,
    now: Option<Disturbance>,
}

/// A fault that is on.
#[derive(Debug)]
struct Disturbance {
    fault: LiveFault,
    /// The stream that is cut.
    stream: usize,
    frames: Range<u64>,
    /// Streams that have not made all of them.
    left: usize,
}

impl Live {
    /// Without a switch, for streams that send so many frames at the true rate.
    pub fn new(settings: &Settings, frames_per_s: f64) -> Self {
        let pace = &settings.pace;
        let scale = if pace.unpaced { 1.0 } else { pace.rate_scale };
        let seed = family(settings.seed, Purpose::Faults, 1);
        Self { switch: None, seed, frames_per_s: frames_per_s * scale, now: None }
    }

    pub fn obey(&mut self, switch: Arc<FaultSwitch>) {
        self.switch = Some(switch);
    }

    /// Looks at the switch. `next` gives the next frame of each stream.
    #[inline]
    pub fn look(&mut self, next: impl ExactSizeIterator<Item = u64>) {
        let Some(switch) = &self.switch else { return };
        let order = switch.order.load(Ordering::Acquire);
        if order == 0 || self.now.is_some() {
            return;
        }
        let Some(fault) = fault_of(order) else { return };
        let (left, begin) = (next.len(), next.max().unwrap_or(0));
        let count = ((order >> 32) as f64 * 1e-3 * self.frames_per_s).ceil() as u64;
        let (stream, frames) = ((order >> 8 & 0xff_ffff) as usize, begin..begin + count.max(1));
        self.now = Some(Disturbance { fault, stream, frames, left });
    }

    /// Notes that a stream has gone on in its frames; the fault is over when all have made its last.
    #[inline]
    pub fn note(&mut self, made: Range<u64>) {
        let (Some(now), Some(switch)) = (&mut self.now, &self.switch) else { return };
        if made.start < now.frames.end && made.end >= now.frames.end {
            now.left -= 1;
        }
        if now.left == 0 {
            self.now = None;
            switch.order.store(0, Ordering::Release);
        }
    }

    /// What frame `index` of `stream` suffers by the switch, and counts it.
    #[inline]
    pub fn draw(&self, stream: usize, index: u64) -> Option<Fault> {
        let now = self.now.as_ref()?;
        let fault = self.fault(now, stream, index)?;
        self.switch.iter().for_each(|switch| switch.suffered[now.fault.place()].add(1));
        Some(fault)
    }

    fn fault(&self, now: &Disturbance, stream: usize, index: u64) -> Option<Fault> {
        if !now.frames.contains(&index) {
            return None;
        }
        let random = |item| Random::stream(self.seed ^ (stream as u64) << 32, item);
        let hits = |every: u64, run: u64| {
            let mut random = random(index / every);
            let begin = random.below(every - run.max(APART) + 1);
            (begin..begin + run).contains(&(index % every)).then_some(random)
        };
        Some(match now.fault {
            LiveFault::Cut if stream != now.stream => return None,
            LiveFault::Cut => Fault::Stopped,
            LiveFault::BurstLoss => hits(BURST_EVERY, BURST).map(|_| Fault::Loss)?,
            LiveFault::Loss => hits(ONE_IN, 1).map(|_| Fault::Loss)?,
            LiveFault::Duplicate => hits(ONE_IN, 1).map(|_| Fault::Duplicate)?,
            LiveFault::Reorder => hits(ONE_IN, 1).map(|_| Fault::Reorder)?,
            LiveFault::WrongId => hits(ONE_IN, 1).map(Fault::WrongId)?,
        })
    }
}
