//! Which frame suffers which fault: a function of configuration, seed, stream and frame alone.

use gannet_measure::quantity::Span;
use gannet_measure::random::Random;
use gannet_wire::GeoId;
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::tpc_frame::FRAME_LEN;

use crate::config::Config;
use crate::seeds::{Purpose, family};
use gannet_wire::TpcFormat;

/// What happens to one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is not sent.
    Loss,
    /// It is sent twice.
    Duplicate,
    /// It is sent after later frames.
    Reorder,
    /// Only this many bytes of it are sent.
    Truncation(usize),
    /// This bit of it is inverted.
    BitFlip(usize),
    /// It names this stream, which does not exist.
    WrongId(GeoId),
    /// From here on sequence numbers have jumped.
    SequenceJump,
    /// From here on timestamps have jumped.
    TimestampJump,
}

/// Number of kinds of [`Fault`].
const KINDS: usize = 8;

/// Draws the faults of every frame.
#[derive(Clone, Debug)]
pub(crate) struct Injector {
    seed: u64,
    /// Upper edge of each kind in the unit interval, in the order of [`Fault`]; none if all are 0.
    edges: Option<[f64; KINDS]>,
    geo_ids: Vec<GeoId>,
    /// Frames of each stream that are not sent because it has stopped.
    outages: Vec<Vec<std::ops::Range<u64>>>,
    /// Frames of each stream whose clock is wrong, and by how many ticks.
    clocks: Vec<Vec<(std::ops::Range<u64>, u64)>>,
}

impl Injector {
    /// Faults of `config` for the streams `geo_ids`.
    pub(crate) fn new(config: &Config, geo_ids: &[GeoId]) -> Self {
        let mut sum = 0.0;
        let edges = config.faults.probabilities().map(|probability| {
            sum += probability;
            sum
        });
        let mut outages = vec![Vec::new(); geo_ids.len()];
        for outage in &config.faults.outages {
            let frames = frames_of(outage.stop, outage.restart, config.streams.format);
            outages[outage.stream].push(frames);
        }
        let mut clocks = vec![Vec::new(); geo_ids.len()];
        for clock in &config.faults.clocks {
            let frames = frames_of(clock.from, clock.until, config.streams.format);
            let ticks = |span: Span| CLOCK.ticks(span.ns());
            let off = ticks(clock.ahead).wrapping_sub(ticks(clock.behind));
            clocks[clock.stream].push((frames, off));
        }
        let mut sorted = geo_ids.to_vec();
        sorted.sort_unstable();
        Self {
            seed: family(config.seed, Purpose::Faults, 0),
            edges: (sum > 0.0).then_some(edges),
            geo_ids: sorted,
            outages,
            clocks,
        }
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
    pub(crate) fn draw(&self, stream: usize, geo: GeoId, index: u64) -> Option<Fault> {
        let edges = self.edges.as_ref()?;
        let mut random = Random::stream(self.seed ^ (stream as u64) << 32, index);
        let place = random.unit();
        let kind = edges.iter().position(|&edge| place < edge)?;
        Some(self.detail(kind, geo, &mut random))
    }

    fn detail(&self, kind: usize, geo: GeoId, random: &mut Random) -> Fault {
        match kind {
            0 => Fault::Loss,
            1 => Fault::Duplicate,
            2 => Fault::Reorder,
            3 => Fault::Truncation(1 + random.below(FRAME_LEN as u64 - 1) as usize),
            4 => Fault::BitFlip(random.below(8 * FRAME_LEN as u64) as usize),
            5 => Fault::WrongId(self.wrong_id(geo, random)),
            6 => Fault::SequenceJump,
            _ => Fault::TimestampJump,
        }
    }

    /// An identifier near `geo` that no configured stream has.
    fn wrong_id(&self, geo: GeoId, random: &mut Random) -> GeoId {
        loop {
            let mut wrong = geo;
            match random.below(4) {
                0 => wrong.detector = random.below(64) as u16,
                1 => wrong.crate_id = random.below(1024) as u16,
                2 => wrong.slot = random.below(16) as u16,
                _ => wrong.stream = random.below(256) as u16,
            }
            // At most 4096 of the 4 million identifiers are configured, so this ends soon: all
            // streams have one detector, so each draw of another detector succeeds.
            if self.geo_ids.binary_search(&wrong).is_err() {
                return wrong;
            }
        }
    }
}

/// Numbers of the frames that begin between two times since the first frame.
fn frames_of(from: Span, until: Option<Span>, format: TpcFormat) -> std::ops::Range<u64> {
    let frame = |span: Span| (span.ns() as f64 / 1e9 * format.frames_per_s()).ceil() as u64;
    frame(from)..until.map_or(u64::MAX, frame)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Faults, Outage, WrongClock};

    fn injector(faults: Faults) -> Injector {
        let mut config = Config { faults, ..Config::default() };
        config.streams.count = 16;
        config.check().unwrap();
        Injector::new(&config, &config.streams.geo_ids())
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
        let geo = injector.geo_ids[3];
        let mut counts = [0u32; KINDS];
        for index in 0..100_000 {
            let Some(fault) = injector.draw(3, geo, index) else { continue };
            counts[match fault {
                Fault::Loss => 0,
                Fault::Duplicate => 1,
                Fault::Reorder => 2,
                Fault::Truncation(len) => {
                    assert!((1..FRAME_LEN).contains(&len));
                    3
                }
                Fault::BitFlip(bit) => {
                    assert!(bit < 8 * FRAME_LEN);
                    4
                }
                Fault::WrongId(wrong) => {
                    assert!(!injector.geo_ids.contains(&wrong));
                    5
                }
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
        assert!((0..1000).all(|index| injector.draw(0, injector.geo_ids[0], index).is_none()));
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
