//! The building thread: decisions become records, records become chunks of the log.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use gannet_log::{Offer, RecorderHandle};
use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;
use gannet_readout::receiver::StreamStatus;
use gannet_readout::record::{Origin, Part, Record, RecordBuilder, RecordRequest};
use gannet_trigger::merge::MergeCounters;

/// Time between two looks at requests that wait for data.
const RETRY: Duration = Duration::from_millis(1);

/// What the building thread tells.
#[derive(Debug, Default)]
pub(super) struct BuildStatus {
    /// Records that miss data of at least one stream, or of the trigger.
    pub incomplete: Counter,
    /// Records that miss data which had been in the run: a stream that never came, frames
    /// that were overwritten before they were cut out, or a readout that was away.
    pub damaged: Counter,
    /// Records of these for which no readout could be asked, or answered.
    pub unreachable: Counter,
    /// Decisions that are done with, as a record or not: the trigger's in-flight count falls.
    pub done: AtomicU64,
}

/// What the building thread is told.
pub(super) enum Order<O> {
    /// A decision is to become a record.
    Build(RecordRequest),
    /// What the trigger adds to the record of the decision with this number.
    Attach(u64, Vec<Part<O>>),
}

/// Builds records and hands them to the recorder.
pub(super) struct Builder<O> {
    /// Cuts windows out of the latency buffers.
    pub records: RecordBuilder<O>,
    /// Figures of the streams, in the order in which the builder knows them.
    pub streams: Vec<Arc<StreamStatus>>,
    /// Where the time of the streams is told, in the same order.
    pub times: Arc<MergeCounters>,
    /// Where records go.
    pub recorder: RecorderHandle,
    /// Time of the deadlines.
    pub clock: Arc<dyn Clock>,
    /// What is told.
    pub status: Arc<BuildStatus>,
}

impl<O: Origin> Builder<O> {
    /// Builds records until the deciding thread is gone and no decision is left.
    pub(super) fn run(mut self, orders: &Receiver<Order<O>>) {
        loop {
            match orders.recv_timeout(RETRY) {
                Ok(Order::Build(request)) => self.submit(request),
                Ok(Order::Attach(number, attachments)) => self.records.attach(number, attachments),
                Err(RecvTimeoutError::Timeout) => (),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            self.record_ready();
        }
        // No frame comes any more: what has not come by now is missing.
        self.records.close();
        self.record_ready();
        while self.records.in_flight() > 0 {
            // Another process has the data, and answers in time or not at all.
            thread::sleep(RETRY);
            self.record_ready();
        }
    }

    fn submit(&mut self, request: RecordRequest) {
        if !self.records.submit(request) {
            self.status.done.fetch_add(1, Ordering::Release);
        }
    }

    fn record_ready(&mut self) {
        for (stream, time) in self.times.streams.iter().enumerate() {
            self.records.set_awaited(stream, !time.is_set_apart());
        }
        while let Some(record) = self.records.poll(self.clock.now_ns()) {
            self.record(record);
        }
    }

    /// Hands a record to the recorder; while its queue is full the trigger is held off, not the
    /// frames.
    fn record(&self, record: Record<O>) {
        self.status.incomplete.add(u64::from(record.is_incomplete()));
        self.status.damaged.add(u64::from(self.is_damaged(&record)));
        self.status.unreachable.add(u64::from(record.unreachable));
        let mut chunk = O::into_chunk(record);
        while let Offer::Busy(back) = self.recorder.offer(chunk) {
            chunk = back;
            thread::sleep(RETRY);
        }
        self.status.done.fetch_add(1, Ordering::Release);
    }

    /// Whether data are missing that had been in the run. A window that begins before the first
    /// frame of a stream or ends after its last one asks for what never was, as far as can be known: of a stream
    /// whose readout is away, it cannot.
    fn is_damaged(&self, record: &Record<O>) -> bool {
        let window = record.request.window;
        let is_lost = self.streams.iter().zip(&record.streams).any(|(stream, part)| {
            let inside = window.begin >= stream.first_timestamp.get()
                && window.end <= stream.newest_timestamp.get();
            part.error_bits != 0 && (inside || stream.frames.get() == 0)
        });
        record.unreachable || is_lost
    }
}
