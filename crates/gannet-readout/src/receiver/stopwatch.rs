//! How long the search of frames takes, from a few of them.

use std::sync::Arc;

use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;

/// One search in so many is timed. It is a prime, so that all streams and all places in a batch of
/// frames have their turn.
const FRAMES: u32 = 61;

/// Time spent in the search of frames, which any thread may read.
#[derive(Debug, Default)]
pub struct SearchTime {
    /// Frames for which the time stands.
    pub frames: Counter,
    /// Time that their search took, in nanoseconds, estimated from one in 61 of them. When the
    /// thread is interrupted in a timed search, that counts too.
    pub busy_ns: Counter,
}

impl SearchTime {
    /// Mean time of a frame, in nanoseconds; `None` before the first.
    pub fn ns_per_frame(&self) -> Option<f64> {
        let frames = self.frames.get();
        (frames > 0).then(|| self.busy_ns.get() as f64 / frames as f64)
    }
}

/// Times one search in so many.
pub(super) struct Stopwatch {
    clock: Arc<dyn Clock>,
    /// Searches to let pass before the next one is timed.
    wait: u32,
    time: Arc<SearchTime>,
}

impl Stopwatch {
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, wait: FRAMES / 2, time: Arc::default() }
    }

    /// Where the time is told.
    pub(super) fn time(&self) -> Arc<SearchTime> {
        Arc::clone(&self.time)
    }

    /// Searches one frame.
    #[inline]
    pub(super) fn run<T>(&mut self, search: impl FnOnce() -> T) -> T {
        if self.wait > 0 {
            self.wait -= 1;
            return search();
        }
        self.wait = FRAMES - 1;
        // What a reading of the clock takes is a tenth of a search.
        let before = self.clock.now_ns();
        let begin = self.clock.now_ns();
        let found = search();
        let end = self.clock.now_ns();
        let search_ns = end.saturating_sub(begin).saturating_sub(begin - before);
        self.time.frames.add(u64::from(FRAMES));
        self.time.busy_ns.add(u64::from(FRAMES) * search_ns);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_measure::clock::VirtualClock;

    /// A clock that takes 20 ns to be read.
    #[derive(Default)]
    struct SlowClock(VirtualClock);

    impl Clock for SlowClock {
        fn now_ns(&self) -> u64 {
            self.0.advance_ns(20);
            self.0.now_ns()
        }
    }

    #[test]
    fn the_estimate_is_the_time_of_all_searches() {
        let clock = Arc::new(SlowClock::default());
        let mut stopwatch = Stopwatch::new(clock.clone());
        assert_eq!(stopwatch.time().ns_per_frame(), None);
        // Two streams in turns, one of which takes three times as long.
        for frame in 0..61 * 100 {
            let found = stopwatch.run(|| {
                clock.0.advance_ns(if frame % 2 == 0 { 100 } else { 300 });
                frame
            });
            assert_eq!(found, frame);
        }
        let time = stopwatch.time();
        assert_eq!(time.frames.get(), 6100);
        assert_eq!((time.busy_ns.get(), time.ns_per_frame()), (200 * 6100, Some(200.0)));
    }
}
