//! How far those who read the rings are behind the threads that fill them.

use std::ops::Range;
use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_readout::latency::IntakeLag;

use super::observe::ObservedStream;

/// The ring of a source, and its streams.
pub(super) struct ObservedRing {
    /// Place of its streams among those of the run.
    pub streams: Range<usize>,
    /// Time of the detector that it holds, in ticks.
    pub depth_ticks: f64,
}

/// Who reads the rings of a run.
pub(super) struct RingReaders {
    /// First tick of the oldest window that waits for data; 0 while none waits.
    pub oldest_window: Arc<Counter>,
    /// The intakes of streams that are recorded as they come, by the place of the stream.
    pub raw: Vec<(usize, IntakeLag)>,
}

impl RingReaders {
    /// How far the slowest of them is behind the newest frame of `ring`, as a part of what that holds: at 1 it loses data.
    /// The trigger has decided up to the tick `decided`, and what it decides will be asked for from there on; 0 where it
    /// has not begun. Streams whose time is wrong are not waited for.
    pub(super) fn behind<'a>(
        &self,
        ring: &ObservedRing,
        streams: impl Iterator<Item = (&'a ObservedStream, bool)>,
        decided: u64,
    ) -> f64 {
        let wanted = [decided, self.oldest_window.get()].into_iter().filter(|tick| *tick > 0).min();
        let own = streams.skip(ring.streams.start).take(ring.streams.len());
        let newest = own.filter(|(_, is_set_apart)| !is_set_apart).map(|(stream, _)| {
            let status = &stream.status;
            if status.frames.get() > 0 { status.newest_timestamp.get() } else { 0 }
        });
        let ticks =
            newest.max().zip(wanted).map_or(0, |(newest, from)| newest.saturating_sub(from));
        let raw = self.raw.iter().filter(|(place, _)| ring.streams.contains(place));
        raw.map(|(_, lag)| lag.share())
            .fold(ticks as f64 / ring.depth_ticks.max(1.0), f64::max)
            .min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use gannet_measure::ticks::TickRate;
    use gannet_memory::{Geometry, clop};
    use gannet_readout::latency::intake;
    use gannet_readout::receiver::StreamStatus;
    use gannet_wire::{Rhythm, Step};

    use super::*;

    fn stream(newest: u64) -> ObservedStream {
        let status = Arc::new(StreamStatus::default());
        status.frames.set(u64::from(newest > 0));
        status.newest_timestamp.set(newest);
        let step = Step::Fixed(10);
        let rhythm = Rhythm { clock: TickRate::hz(1000), step, sequence_modulus: 4096 };
        ObservedStream { number: 0, name: String::new(), status, rhythm, is_live: true }
    }

    #[test]
    fn the_slowest_reader_counts_and_only_for_its_own_ring() {
        let (mut producer, cells) = clop(Geometry { cell_bytes: 8, cells: 16 }).unwrap();
        let (mut writer, reader) = intake(7);
        writer.attach(cells);
        let oldest_window = Arc::new(Counter::default());
        let raw = vec![(2, reader.lag())];
        let readers = RingReaders { oldest_window: Arc::clone(&oldest_window), raw };
        // The last stream is a thousand seconds ahead of all others.
        let streams = [stream(5000), stream(5100), stream(0), stream(1_000_000)];
        let ring = |streams| ObservedRing { streams, depth_ticks: 1000.0 };
        let behind = |of, decided| {
            let streams = streams.iter().zip([false, false, false, true]);
            readers.behind(&ring(of), streams, decided)
        };
        assert_eq!(behind(0..2, 0), 0.0, "the trigger has not begun");
        assert_eq!(behind(0..2, 5000), 0.1);
        assert_eq!(behind(0..2, 6000), 0.0);
        assert_eq!(behind(0..2, 17), 1.0);
        oldest_window.set(4600);
        assert_eq!((behind(0..2, 5000), behind(0..2, 4500)), (0.5, 0.6));
        assert_eq!((behind(2..3, 5000), behind(3..4, 5000)), (0.0, 0.0));
        (0..4).for_each(|_| writer.push(producer.land(&[0; 8]), 8));
        assert_eq!((behind(2..4, 5000), behind(3..4, 5000)), (4.0 / 7.0, 0.0));
    }
}
