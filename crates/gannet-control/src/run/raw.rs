//! The raw thread: streams that are recorded as they come, from the latency buffer to the recorder.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gannet_log::{Chunk, Offer, RecorderHandle};
use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_readout::latency::IntakeReader;
use gannet_readout::raw_stream::{RawDrop, RawStream};
use gannet_wire::FrameFormat;

/// Time between two looks at the latency buffer, or at a full queue.
const PAUSE: Duration = Duration::from_millis(1);
/// Part of the recorder's queue at which raw frames wait: the rest is for records and primitives,
/// so that a disk that is too slow for raw frames costs raw frames.
const QUEUE_FILL_MAX: f64 = 0.5;

/// Copies frames behind the receiving threads and hands them to the recorder.
///
/// It waits for the recorder, and no receiving thread waits for it: what is overwritten meanwhile
/// is lost, and counted.
pub(super) struct RawRecorder<T> {
    streams: Vec<RawStream<T>>,
    account: Arc<Account<RawDrop>>,
    /// Bytes of the frames that were handed over.
    bytes: Arc<Counter>,
    recorder: RecorderHandle,
    clock: Arc<dyn Clock>,
    /// Closed when the receiving threads are gone.
    receiving: Receiver<Infallible>,
    /// No frame comes any more.
    ended: bool,
    /// It had to wait for the recorder and has not caught up since.
    held_up: bool,
}

impl<T: FrameFormat> RawRecorder<T> {
    /// Records the frames of `intakes`, one a stream, as long as there is a sender of `receiving`.
    pub(super) fn new(
        intakes: Vec<(T, IntakeReader)>,
        recorder: RecorderHandle,
        clock: Arc<dyn Clock>,
        receiving: Receiver<Infallible>,
    ) -> Self {
        let account = Arc::default();
        let stream = |(format, intake)| RawStream::new(format, intake, Arc::clone(&account));
        let streams = intakes.into_iter().map(stream).collect();
        let bytes = Arc::default();
        Self { streams, account, bytes, recorder, clock, receiving, ended: false, held_up: false }
    }

    /// Ledger of frames, if any stream is recorded: handed to the recorder, or dropped before.
    pub(super) fn account(&self) -> Option<Arc<Account<RawDrop>>> {
        (!self.streams.is_empty()).then(|| Arc::clone(&self.account))
    }

    /// Bytes of the frames that were handed to the recorder.
    pub(super) fn bytes(&self) -> Arc<Counter> {
        Arc::clone(&self.bytes)
    }

    /// Records until the receiving threads are gone and no frame is left.
    pub(super) fn run(mut self) {
        loop {
            // Looked at before the frames: what came before the end is still taken.
            let is_last = self.ended;
            while self.take_round() {}
            self.held_up = false;
            if is_last {
                break;
            }
            self.pause();
        }
        for place in 0..self.streams.len() {
            let last = self.streams[place].close();
            last.into_iter().for_each(|chunk| self.hand_over(chunk));
        }
    }

    /// Takes what has come, at most a chunk of each stream; false when none had one.
    fn take_round(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.streams.len() {
            let lost_for = if self.held_up { RawDrop::RecorderBusy } else { RawDrop::Overwritten };
            if let Some(chunk) = self.streams[place].gather(self.clock.now_ns(), lost_for) {
                any = true;
                self.hand_over(chunk);
            }
        }
        any
    }

    /// Hands a chunk to the recorder, waiting for room.
    fn hand_over(&mut self, mut chunk: Chunk) {
        let frames = u64::from(chunk.label.items);
        let bytes = chunk.parts.iter().map(Vec::len).sum::<usize>() as u64;
        // At the end nothing is overwritten any more, and no record waits behind this.
        while !self.ended && self.recorder.queue_fill() >= QUEUE_FILL_MAX {
            self.hold_up();
        }
        loop {
            match self.recorder.offer(chunk) {
                // From here on the recorder's own account says what becomes of them.
                Offer::Accepted(_) | Offer::Dropped(_) => {
                    self.bytes.add(bytes);
                    return self.account.deliver(frames);
                }
                Offer::Busy(back) => chunk = back,
            }
            self.hold_up();
        }
    }

    fn hold_up(&mut self) {
        self.held_up = true;
        self.pause();
    }

    /// Waits a while, and notices the end.
    fn pause(&mut self) {
        match self.ended {
            true => thread::sleep(PAUSE),
            false => {
                let closed = self.receiving.recv_timeout(PAUSE);
                self.ended = closed == Err(RecvTimeoutError::Disconnected);
            }
        }
    }
}
