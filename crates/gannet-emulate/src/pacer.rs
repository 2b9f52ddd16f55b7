//! When frames are due: a schedule without a clock of its own.

use std::sync::Arc;

use gannet_measure::histogram::{Histogram, Summary};
use serde::Serialize;

use crate::config::Pace;

/// Fixed point of the frame period: 2^-24 ns, an error of 2 us a day.
const FRACTION_BITS: u32 = 24;

/// Frames of one stream that are due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// Stream, by its number in the emulator.
    pub stream: usize,
    /// Number of frames, at least 1.
    pub count: usize,
}

/// What a [`Pacer`] did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PaceReport {
    /// Frames handed out, of all streams.
    pub frames: u64,
    /// Time since the start, in nanoseconds.
    pub elapsed_ns: u64,
    /// Frames per second and stream that were aimed at; none when unpaced.
    pub target_hz: Option<f64>,
    /// Frames per second and stream that were reached.
    pub reached_hz: f64,
    /// How late frames were handed out, in nanoseconds after their last sample. A burst leaves
    /// with its last frame, so all but the last are late by design.
    pub lateness_ns: Summary,
    /// Times that the pacer fell behind by more than the debt allowed and moved its schedule.
    pub slips: u64,
    /// Sum of the time by which it moved, in nanoseconds.
    pub slipped_ns: u64,
}

/// Says when how many frames of which stream are due.
///
/// Frame `n` of each stream is due when its last sample has been taken, `(n + 1)` periods after
/// the start. Frames leave in bursts of one stream; the streams take turns, spread evenly over the
/// time of a burst. When the caller cannot keep up, frames stay due, up to a debt; beyond it the
/// whole schedule is moved and the slip counted.
#[derive(Debug)]
pub struct Pacer {
    /// Period of a frame in 2^-24 ns; none when unpaced.
    period: Option<u64>,
    burst: u64,
    debt_max_ns: u64,
    created_ns: u64,
    start_ns: u64,
    /// Frames handed out, by stream.
    done: Vec<u64>,
    /// Stream whose burst ends next.
    turn: usize,
    limit: u64,
    lateness: Arc<Histogram>,
    slips: u64,
    slipped_ns: u64,
}

impl Pacer {
    /// Pacer for `streams` streams of `frames_per_s` frames at their true rate, that begins at
    /// `now_ns`.
    pub fn new(pace: &Pace, frames_per_s: f64, streams: usize, now_ns: u64) -> Self {
        let period_ns = 1e9 / (frames_per_s * pace.rate_scale);
        let period = (period_ns * f64::from(1u32 << FRACTION_BITS)).round() as u64;
        Self {
            period: (!pace.unpaced).then_some(period.max(1)),
            burst: pace.burst.max(1) as u64,
            debt_max_ns: pace.debt_max.ns(),
            created_ns: now_ns,
            start_ns: now_ns,
            done: vec![0; streams],
            turn: 0,
            limit: u64::MAX,
            lateness: Arc::default(),
            slips: 0,
            slipped_ns: 0,
        }
    }

    /// Ends every stream after `frames` frames.
    pub fn set_limit(&mut self, frames: u64) {
        self.limit = frames;
    }

    /// Ends all streams at the same frame, as soon as none is ahead of the others.
    pub fn stop(&mut self) {
        self.limit = self.limit.min(self.done.iter().copied().max().unwrap_or(0));
    }

    /// True once every stream has reached its end.
    pub fn is_done(&self) -> bool {
        self.done.iter().all(|&done| done >= self.limit)
    }

    /// The next frames to send, if any are due at `now_ns`.
    pub fn next(&mut self, now_ns: u64) -> Option<Due> {
        let (stream, end) = self.upcoming()?;
        if let Some(period) = self.period {
            let due_ns = self.due_ns(end, period);
            if now_ns < due_ns {
                return None;
            }
            self.slip(now_ns - due_ns);
            for number in self.done[stream] + 1..=end {
                self.lateness.record(now_ns.saturating_sub(self.due_ns(number, period)));
            }
        }
        let count = (end - self.done[stream]) as usize;
        self.done[stream] = end;
        self.turn = (self.turn + 1) % self.done.len();
        Some(Due { stream, count })
    }

    /// When [`Pacer::next`] will next have frames, in nanoseconds; none at the end.
    pub fn wake_ns(&mut self) -> Option<u64> {
        let (_, end) = self.upcoming()?;
        Some(self.period.map_or(0, |period| self.due_ns(end, period)))
    }

    /// What was done until `now_ns`.
    pub fn report(&self, now_ns: u64) -> PaceReport {
        let frames: u64 = self.done.iter().sum();
        let elapsed_ns = now_ns.saturating_sub(self.created_ns);
        let stream_seconds = elapsed_ns as f64 / 1e9 * self.done.len() as f64;
        let unit = f64::from(1u32 << FRACTION_BITS);
        PaceReport {
            frames,
            elapsed_ns,
            target_hz: self.period.map(|period| 1e9 * unit / period as f64),
            reached_hz: if elapsed_ns == 0 { 0.0 } else { frames as f64 / stream_seconds },
            lateness_ns: self.lateness.summary(),
            slips: self.slips,
            slipped_ns: self.slipped_ns,
        }
    }

    /// Lateness of all frames handed out, in nanoseconds.
    pub fn lateness(&self) -> Arc<Histogram> {
        Arc::clone(&self.lateness)
    }

    /// The stream whose turn it is and the frame count at which its next burst ends.
    ///
    /// Bursts of stream `s` end at counts that differ by `s * burst / streams` from those of
    /// stream 0, so the turns are in order of time. Streams that have ended are passed over.
    fn upcoming(&mut self) -> Option<(usize, u64)> {
        let streams = self.done.len();
        for _ in 0..streams {
            let stream = self.turn;
            let offset = 1 + (stream as u64 * self.burst / streams as u64);
            let done = self.done[stream];
            let end = match done.checked_sub(offset) {
                None => offset,
                Some(since) => done + self.burst - since % self.burst,
            };
            let end = end.min(self.limit);
            if end > done {
                return Some((stream, end));
            }
            self.turn = (self.turn + 1) % streams;
        }
        None
    }

    /// When a stream has `count` frames to send, in nanoseconds.
    fn due_ns(&self, count: u64, period: u64) -> u64 {
        let after = (u128::from(count) * u128::from(period)) >> FRACTION_BITS;
        self.start_ns.saturating_add(after as u64)
    }

    /// Moves the schedule if the frames that are due now are later than the debt allows.
    fn slip(&mut self, late_ns: u64) {
        if late_ns > self.debt_max_ns {
            let excess = late_ns - self.debt_max_ns;
            self.start_ns += excess;
            self.slips += 1;
            self.slipped_ns += excess;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::clock::{Clock, VirtualClock};
    use gannet_measure::quantity::Span;
    use proptest::prelude::*;

    fn pacer(pace: Pace, streams: usize) -> Pacer {
        Pacer::new(&pace, 30_517.578_125, streams, 0)
    }

    /// Hands out everything that is due, and checks that the streams stay within a burst.
    fn drain(pacer: &mut Pacer, now_ns: u64) -> u64 {
        let mut frames = 0;
        while let Some(due) = pacer.next(now_ns) {
            assert!((1..=9).contains(&due.count));
            frames += due.count as u64;
        }
        frames
    }

    #[test]
    fn the_true_rate_is_reached_on_a_virtual_clock() {
        let clock = VirtualClock::default();
        let mut pacer = pacer(Pace::default(), 16);
        while clock.now_ns() < 1_000_000_000 {
            let wake = pacer.wake_ns().unwrap();
            clock.advance_ns(wake.saturating_sub(clock.now_ns()));
            assert!(drain(&mut pacer, clock.now_ns()) > 0);
        }
        let report = pacer.report(clock.now_ns());
        assert!((report.target_hz.unwrap() - 30_517.578_125).abs() < 0.001);
        // A burst may be missing at the end: 9 of 30518 frames.
        assert!((report.reached_hz - 30_517.578).abs() < 10.0, "{}", report.reached_hz);
        // The first frame of a burst waits for the other eight.
        assert_eq!(report.lateness_ns.max, 8 * 32_768);
        assert_eq!((report.slips, report.lateness_ns.count), (0, report.frames));
    }

    #[test]
    fn bursts_of_the_streams_are_spread_over_time() {
        let mut pacer = pacer(Pace::default(), 16);
        let mut at_once = Vec::new();
        for frame in 1..=900u64 {
            at_once.push(drain(&mut pacer, frame * 32_768) / 9);
        }
        assert!(at_once[9..].iter().all(|&bursts| bursts <= 2), "{at_once:?}");
    }

    #[test]
    fn a_late_caller_catches_up_within_the_debt() {
        let mut pacer = pacer(Pace { debt_max: Span::ms(20), ..Pace::default() }, 2);
        let frames = drain(&mut pacer, 10_000_000);
        // 305.17 frames a stream are due after 10 ms, of which an unfinished burst stays.
        assert!((2 * (305 - 8)..=2 * 305).contains(&frames), "{frames}");
        assert_eq!(pacer.report(10_000_000).slips, 0);
    }

    #[test]
    fn beyond_the_debt_the_schedule_moves_and_the_slip_is_counted() {
        let mut pacer = pacer(Pace { debt_max: Span::ms(20), ..Pace::default() }, 2);
        let frames = drain(&mut pacer, 1_000_000_000);
        assert!((2 * (610 - 8)..=2 * 612).contains(&frames), "20 ms of frames: {frames}");
        let report = pacer.report(1_000_000_000);
        assert_eq!(report.slips, 1);
        assert!((report.slipped_ns as i64 - 980_000_000).abs() < 40_000, "{}", report.slipped_ns);
        let wake = pacer.wake_ns().unwrap();
        assert!((1_000_000_000..1_000_300_000).contains(&wake), "{wake}");
    }

    #[test]
    fn unpaced_frames_are_always_due() {
        let mut pacer = pacer(Pace { unpaced: true, ..Pace::default() }, 4);
        pacer.set_limit(100);
        assert_eq!(pacer.wake_ns(), Some(0));
        assert_eq!(drain(&mut pacer, 0), 400);
        assert!(pacer.is_done() && pacer.wake_ns().is_none());
        assert_eq!(pacer.report(1_000_000).lateness_ns.count, 0);
    }

    #[test]
    fn a_stop_ends_all_streams_at_the_same_frame() {
        let mut pacer = pacer(Pace::default(), 5);
        drain(&mut pacer, 5_000_000);
        pacer.stop();
        drain(&mut pacer, u64::MAX / 2);
        assert!(pacer.is_done());
        assert!(pacer.done.iter().all(|&done| done == pacer.done[0] && done > 100));
    }

    #[test]
    fn rates_are_scaled() {
        let pace = Pace { rate_scale: 0.5, ..Pace::default() };
        let mut pacer = Pacer::new(&pace, 31_250.0, 1, 0);
        assert!((pacer.report(0).target_hz.unwrap() - 15_625.0).abs() < 0.001);
        pacer.set_limit(1);
        assert_eq!(pacer.wake_ns(), Some(64_000));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn turns_are_in_order_of_time_and_no_frame_is_early_or_forgotten(
            streams in 1usize..20, burst in 1usize..=9, steps in prop::collection::vec(0u64..400_000, 1..60)
        ) {
            let mut pacer = pacer(Pace { burst, debt_max: Span::s(60), ..Pace::default() }, streams);
            let mut now = 0;
            let mut last_end = 0;
            for step in steps {
                now += step;
                while let Some(due) = pacer.next(now) {
                    let end = pacer.done[due.stream];
                    prop_assert!(end * 32_768 <= now, "early");
                    prop_assert!(end >= last_end, "out of order");
                    last_end = end;
                }
                for &done in &pacer.done {
                    prop_assert!((done + burst as u64) * 32_768 > now, "forgotten");
                }
            }
        }
    }
}
