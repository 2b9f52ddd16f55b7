//! A front end in the process of the readout: its datagrams land without a network.

use std::sync::{Arc, OnceLock};

use gannet_emulate::{
    BURST_DATAGRAMS_MAX, ConfigError, Emulator, FaultSwitch, FrontEnd, Pacer, Settings, Truth,
};
use gannet_ingest::{DATAGRAMS_AT_ONCE, Datagram, Datagrams, Next};

use super::emulator::BURSTS_PER_REPORT;

/// What a front end of this process made, told when it has ended.
pub type FrontEndTruth = Arc<OnceLock<Truth>>;

const _: () = assert!(BURST_DATAGRAMS_MAX <= DATAGRAMS_AT_ONCE);

/// A front end that lands its frames as they are due.
pub(super) struct InProcess<F> {
    emulator: Emulator<F>,
    settings: Settings,
    frames_per_s: f64,
    /// Frames of each stream to make, if not until stopped.
    frames: Option<u64>,
    pacer: Option<Pacer>,
    bursts: u64,
    /// Streams whose frames that are held back were given, at the end.
    flushed: usize,
    truth: FrontEndTruth,
}

impl<F: FrontEnd> InProcess<F> {
    /// One whose truth goes to `truth`, and that suffers what `faults` puts in.
    pub fn new(
        front_end: F,
        settings: &Settings,
        truth: FrontEndTruth,
        faults: Arc<FaultSwitch>,
    ) -> Result<Self, ConfigError> {
        let frames_per_s = front_end.frames_per_s();
        let mut emulator = Emulator::new(front_end, settings)?;
        emulator.obey(faults);
        let (settings, frames) = (settings.clone(), None);
        Ok(Self {
            emulator,
            settings,
            frames_per_s,
            frames,
            pacer: None,
            bursts: 0,
            flushed: 0,
            truth,
        })
    }
}

impl<F: FrontEnd> Datagrams for InProcess<F> {
    fn next(&mut self, now_ns: u64, land: &mut dyn FnMut(Datagram<'_>)) -> Next {
        let Self { emulator, settings, frames_per_s, pacer, .. } = self;
        let streams = emulator.streams();
        let pacer = pacer.get_or_insert_with(|| {
            let mut pacer = Pacer::new(&settings.pace, *frames_per_s, streams, now_ns);
            self.frames.into_iter().for_each(|frames| pacer.set_limit(frames));
            pacer
        });
        let burst = if pacer.is_done() {
            if self.flushed == streams {
                emulator.count();
                let _told_before = self.truth.set(emulator.truth());
                return Next::Never;
            }
            self.flushed += 1;
            emulator.flush(self.flushed - 1)
        } else {
            let Some(due) = pacer.next(now_ns) else {
                return Next::At(pacer.wake_ns().unwrap_or(now_ns));
            };
            self.bursts += 1;
            if self.bursts.is_multiple_of(BURSTS_PER_REPORT) {
                emulator.count();
            }
            emulator.next_burst(due.stream, due.count)
        };
        for datagram in burst.datagrams() {
            land(Datagram { header: datagram.head, body: datagram.body });
        }
        Next::Now
    }

    fn stop(&mut self) {
        match &mut self.pacer {
            Some(pacer) => pacer.stop(),
            None => self.frames = Some(0),
        }
    }
}
