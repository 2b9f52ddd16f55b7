//! Faults that are switched on while a run goes on, one at a time and for a bounded time.
//!
//! Those of the front end are done by the emulator: which frames suffer depends on the seed, the stream, the frame, and the
//! frames between which the fault is on. Others are done by whoever stands at their place in the readout.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
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
/// Of so many frames of a stream with a noisy channel, one has a hit in it.
const NOISE_EVERY: u64 = 4;

/// A fault that can be switched on while a run goes on.
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
    /// Of every four frames of one stream, one has a hit that no particle made, always in the same channel.
    Noise,
    /// The disk of the recorder does not answer.
    StalledDisk,
    /// The disk of the recorder has no space left.
    FullDisk,
    /// The trigger decides nothing.
    StoppedTrigger,
}

impl LiveFault {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Loss,
        Self::BurstLoss,
        Self::Duplicate,
        Self::Reorder,
        Self::WrongId,
        Self::Cut,
        Self::Noise,
        Self::StalledDisk,
        Self::FullDisk,
        Self::StoppedTrigger,
    ];

    /// Whether it is one of a single stream.
    pub fn is_of_one_stream(self) -> bool {
        matches!(self, Self::Cut | Self::Noise)
    }

    /// Whether the front end does it.
    pub fn is_of_front_end(self) -> bool {
        !matches!(self, Self::StalledDisk | Self::FullDisk | Self::StoppedTrigger)
    }

    fn place(self) -> usize {
        self as usize - 1
    }
}

/// A fault that is asked for or under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultOrder {
    /// Which one.
    pub fault: LiveFault,
    /// The stream, if it is one of a single stream.
    pub stream: usize,
    /// For how long.
    pub time: Duration,
}

/// Switches faults on, from any thread. Who does them reads one word: the emulator once a burst, the disk once a call, the
/// trigger once a turn.
#[derive(Debug, Default)]
pub struct FaultSwitch {
    /// What is asked for or under way, packed; 0 for nothing.
    order: AtomicU64,
    suffered: [Counter; LiveFault::ALL.len()],
    noisy: OnceLock<Vec<u32>>,
}

impl FaultSwitch {
    /// Switches `fault` on for so long; `stream` is the one that suffers, if it is one of a single stream. The front end
    /// measures the time in its own frames. False if another fault is on.
    pub fn switch_on(&self, fault: LiveFault, stream: usize, time: Duration) -> bool {
        let ms = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        let order = u64::from(ms) << 32 | (stream as u64 & 0xff_ffff) << 8 | fault as u64;
        let (set, seen) = (Ordering::AcqRel, Ordering::Relaxed);
        self.order.compare_exchange(0, order, set, seen).is_ok()
    }

    /// What is asked for or under way.
    #[inline]
    pub fn order(&self) -> Option<FaultOrder> {
        let order = self.order.load(Ordering::Acquire);
        let fault = LiveFault::ALL.into_iter().find(|&fault| fault as u64 == order & 0xff)?;
        let (stream, time) =
            ((order >> 8 & 0xff_ffff) as usize, Duration::from_millis(order >> 32));
        Some(FaultOrder { fault, stream, time })
    }

    /// Tells that the fault under way is over: for whoever does it.
    pub fn end(&self) {
        self.order.store(0, Ordering::Release);
    }

    /// Counts what suffered `fault`: for whoever does it.
    #[inline]
    pub fn count(&self, fault: LiveFault) {
        self.suffered[fault.place()].add(1);
    }

    /// Frames that have suffered `fault`, or how often the disk or the trigger did it.
    pub fn suffered(&self, fault: LiveFault) -> u64 {
        self.suffered[fault.place()].get()
    }

    /// Number in the detector of the channel of `stream` that noise strikes; none where the front end has no channels, or
    /// has not said so yet.
    pub fn noisy_channel(&self, stream: usize) -> Option<u32> {
        self.noisy.get()?.get(stream).copied()
    }

    pub(crate) fn tell_noisy(&self, channels: Vec<u32>) {
        self.noisy.get_or_init(|| channels);
    }
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
    /// The stream, if the fault is one of a single stream.
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
        let Some(switch) = self.switch.as_ref().filter(|_| self.now.is_none()) else { return };
        let order = switch.order().filter(|order| order.fault.is_of_front_end());
        let Some(FaultOrder { fault, stream, time }) = order else { return };
        let (left, begin) = (next.len(), next.max().unwrap_or(0));
        let count = (time.as_secs_f64() * self.frames_per_s).ceil() as u64;
        let frames = begin..begin + count.max(1);
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
            switch.end();
        }
    }

    /// What frame `index` of `stream` suffers by the switch, and counts it.
    #[inline]
    pub fn draw(&self, stream: usize, index: u64) -> Option<Fault> {
        let now = self.now.as_ref()?;
        let fault = self.fault(now, stream, index)?;
        self.switch.iter().for_each(|switch| switch.count(now.fault));
        Some(fault)
    }

    fn fault(&self, now: &Disturbance, stream: usize, index: u64) -> Option<Fault> {
        let is_spared = now.fault.is_of_one_stream() && stream != now.stream;
        if is_spared || !now.frames.contains(&index) {
            return None;
        }
        let random = |item| Random::stream(self.seed ^ (stream as u64) << 32, item);
        let hits = |every: u64, run: u64| {
            let mut random = random(index / every);
            let begin = random.below(every - run.max(APART) + 1);
            (begin..begin + run).contains(&(index % every)).then_some(random)
        };
        Some(match now.fault {
            LiveFault::Cut => Fault::Stopped,
            LiveFault::Noise if !index.is_multiple_of(NOISE_EVERY) => return None,
            LiveFault::Noise => Fault::Noise,
            LiveFault::StalledDisk | LiveFault::FullDisk | LiveFault::StoppedTrigger => {
                return None;
            }
            LiveFault::BurstLoss => hits(BURST_EVERY, BURST).map(|_| Fault::Loss)?,
            LiveFault::Loss => hits(ONE_IN, 1).map(|_| Fault::Loss)?,
            LiveFault::Duplicate => hits(ONE_IN, 1).map(|_| Fault::Duplicate)?,
            LiveFault::Reorder => hits(ONE_IN, 1).map(|_| Fault::Reorder)?,
            LiveFault::WrongId => hits(ONE_IN, 1).map(Fault::WrongId)?,
        })
    }
}
