//! Which frame suffers which fault: a function of configuration, seed, stream and frame alone.

use std::ops::Range;

use gannet_measure::quantity::Span;
use gannet_measure::random::Random;
use gannet_measure::ticks::TickRate;

use crate::config::Settings;
use crate::seeds::{Purpose, family};

/// What happens to one frame. What else must be drawn for it comes from the numbers given along.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// It is not sent, because its stream has stopped.
    Stopped,
    /// It is not sent.
    Loss,
    /// It is sent twice.
    Duplicate,
    /// It is sent after later frames.
    Reorder,
    /// Only a part of it is sent.
    Truncation(Random),
    /// One bit of it is inverted.
    BitFlip(Random),
    /// It names a stream that does not exist.
    WrongId(Random),
    /// One of its channels has a hit that no particle made.
    Noise,
    /// From here on sequence numbers have jumped.
    SequenceJump,
    /// From here on timestamps have jumped.
    TimestampJump,
}

/// Kinds of [`Fault`] that have a probability: all but the first and noise.
const KINDS: usize = 8;

/// Draws the faults of every frame.
#[derive(Clone, Debug)]
pub(crate) struct Injector {
    seed: u64,
    /// Upper edge of each kind in the unit interval, in the order of [`Fault`] from its second on; none if all are 0.
    edges: Option<[f64; KINDS]>,
    /// Frames of each stream that are not sent because it has stopped.
    outages: Vec<Vec<Range<u64>>>,
    /// Frames of each stream whose clock is wrong, and by how many ticks.
    clocks: Vec<Vec<(Range<u64>, u64)>>,
}

impl Injector {
    /// Faults for so many streams of `frames_per_s` frames each, whose times `clock` counts.
    pub(crate) fn new(
        settings: &Settings,
        streams: usize,
        clock: TickRate,
        frames_per_s: f64,
    ) -> Self {
        let Settings { seed, faults, .. } = settings;
        let mut sum = 0.0;
        let edges = faults.probabilities().map(|probability| {
            sum += probability;
            sum
        });
        let mut outages = vec![Vec::new(); streams];
        for outage in &faults.outages {
            outages[outage.stream].push(frames_of(outage.stop, outage.restart, frames_per_s));
        }
        let mut clocks = vec![Vec::new(); streams];
        for wrong in &faults.clocks {
            let ticks = |span: Span| clock.ticks(span.ns());
            let off = ticks(wrong.ahead).wrapping_sub(ticks(wrong.behind));
            clocks[wrong.stream].push((frames_of(wrong.from, wrong.until, frames_per_s), off));
        }
        let seed = family(*seed, Purpose::Faults, 0);
        Self { seed, edges: (sum > 0.0).then_some(edges), outages, clocks }
    }

    /// Ticks by which the clock of `stream` is ahead in frame `index`, modulo 2^64.
    #[inline]
    pub(crate) fn clock_off(&self, stream: usize, index: u64) -> u64 {
        let off = self.clocks[stream].iter().find(|(frames, _)| frames.contains(&index));
        off.map_or(0, |(_, ticks)| *ticks)
    }

    /// True if `stream` does not send frame `index` because it has stopped.
    #[inline]
    pub(crate) fn stopped(&self, stream: usize, index: u64) -> bool {
        self.outages[stream].iter().any(|frames| frames.contains(&index))
    }

    /// The fault that frame `index` of `stream` suffers.
    #[inline]
    pub(crate) fn draw(&self, stream: usize, index: u64) -> Option<Fault> {
        let edges = self.edges.as_ref()?;
        let mut random = Random::stream(self.seed ^ (stream as u64) << 32, index);
        let place = random.unit();
        Some(match edges.iter().position(|&edge| place < edge)? {
            0 => Fault::Loss,
            1 => Fault::Duplicate,
            2 => Fault::Reorder,
            3 => Fault::Truncation(random),
            4 => Fault::BitFlip(random),
            5 => Fault::WrongId(random),
            6 => Fault::SequenceJump,
            _ => Fault::TimestampJump,
        })
    }
}

/// Numbers of the frames that begin between two times since the first frame.
fn frames_of(from: Span, until: Option<Span>, frames_per_s: f64) -> Range<u64> {
    let frame = |span: Span| (span.ns() as f64 / 1e9 * frames_per_s).ceil() as u64;
    frame(from)..until.map_or(u64::MAX, frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Faults, Outage, WrongClock};
    use gannet_wire::{FrameFormat, TpcFormat};

    fn injector(faults: Faults) -> Injector {
        let (settings, rhythm) =
            (Settings { faults, ..Settings::default() }, TpcFormat::WibEth.rhythm());
        settings.check(16, &rhythm).unwrap();
        Injector::new(&settings, 16, rhythm.clock, rhythm.frames_per_s())
    }

    #[test]
    fn each_kind_has_its_probability() {
        let injector = injector(Faults {
            loss: 0.10,
            duplicate: 0.02,
            reorder: 0.03,
            truncation: 0.04,
            bit_flip: 0.05,
            wrong_id: 0.06,
            sequence_jump: 0.01,
            timestamp_jump: 0.005,
            ..Faults::default()
        });
        let mut counts = [0u32; KINDS];
        for index in 0..100_000 {
            let Some(fault) = injector.draw(3, index) else { continue };
            counts[match fault {
                Fault::Stopped | Fault::Noise => panic!("it has no probability"),
                Fault::Loss => 0,
                Fault::Duplicate => 1,
                Fault::Reorder => 2,
                Fault::Truncation(_) => 3,
                Fault::BitFlip(_) => 4,
                Fault::WrongId(_) => 5,
                Fault::SequenceJump => 6,
                Fault::TimestampJump => 7,
            }] += 1;
        }
        for (count, expected) in
            counts.into_iter().zip([10_000u32, 2_000, 3_000, 4_000, 5_000, 6_000, 1_000, 500])
        {
            // Four standard deviations of a Poisson count.
            let allowed = 4.0 * f64::from(expected).sqrt();
            assert!((f64::from(count) - f64::from(expected)).abs() < allowed, "{counts:?}");
        }
    }

    #[test]
    fn without_probabilities_there_is_no_fault() {
        let injector = injector(Faults::default());
        assert!((0..1000).all(|index| injector.draw(0, index).is_none()));
    }

    #[test]
    fn a_clock_is_wrong_for_the_frames_that_begin_meanwhile() {
        let clock = WrongClock {
            stream: 1,
            from: Span(32_768),
            until: Some(Span(98_304)),
            ahead: Span(0),
            behind: Span(1600),
        };
        let injector = injector(Faults { clocks: vec![clock], ..Faults::default() });
        let off: Vec<i64> = (0..4).map(|index| injector.clock_off(1, index) as i64).collect();
        assert_eq!((off, injector.clock_off(0, 1)), (vec![0, -100, -100, 0], 0));
    }

    #[test]
    fn an_outage_covers_the_frames_that_begin_in_it() {
        let outage = |stop, restart: Option<u64>| Outage {
            stream: 2,
            stop: Span(stop),
            restart: restart.map(Span),
        };
        let injector = injector(Faults {
            outages: vec![outage(32_768, Some(65_537)), outage(3_276_800, None)],
            ..Faults::default()
        });
        let stopped: Vec<u64> = (0..102).filter(|&index| injector.stopped(2, index)).collect();
        assert_eq!(stopped, [1, 2, 100, 101]);
        assert!(injector.stopped(2, u64::MAX - 1) && !injector.stopped(1, 1));
    }
}
