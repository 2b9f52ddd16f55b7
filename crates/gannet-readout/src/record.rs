//! Records: the answers of all streams to one decision, put together.
//!
//! What a part of a record is, beside its bytes, is known to the detector alone: its `O`.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use gannet_log::Chunk;
use gannet_measure::histogram::Histogram;
use gannet_measure::ledger::Account;
use gannet_measure::quantity::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::latency::Window;
use crate::request::DataRequest;
use crate::windows::{StreamAnswer, Windows};

/// How records are built.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BuildConfig {
    /// How long a request waits for data that have not come yet.
    pub request_timeout: Span,
    /// Longest window that may be asked for, in ticks.
    pub window_ticks_max: u64,
}

impl Default for BuildConfig {
    fn default() -> Self {
        Self { request_timeout: Span::s(1), window_ticks_max: 62_500_000 }
    }
}

gannet_measure::drop_reasons! {
    /// Why a decision did not become a record.
    pub enum RecordDrop {
        /// Too many records were waiting for data.
        Busy => "builder_busy",
    }
}

/// What a part of a record is, beside its bytes; it knows how records of such parts are stored.
pub trait Origin: Clone + fmt::Debug + Send + 'static {
    /// The record as a chunk of the log. Payloads are moved, not copied.
    fn into_chunk(record: Record<Self>) -> Chunk;
}

/// A part of a record: the answer of a stream, or what the trigger adds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part<O> {
    /// What it is.
    pub origin: O,
    /// What is wrong with it: [`error_bits`](crate::request::error_bits).
    pub error_bits: u32,
    /// Whole frames, or what the trigger wrote.
    pub payload: Vec<u8>,
}

/// Everything that came in answer to a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record<O> {
    /// The decision.
    pub request: RecordRequest,
    /// The answers of the streams, in their order.
    pub streams: Vec<Part<O>>,
    /// What the trigger adds; `None` when it had not come by the end.
    pub added: Option<Vec<Part<O>>>,
    /// Whether there was nobody to ask for the data of a stream that may have had some.
    pub unreachable: bool,
}

impl<O> Record<O> {
    /// All parts: those of the streams, then those of the trigger.
    pub fn into_parts(self) -> impl Iterator<Item = Part<O>> {
        self.streams.into_iter().chain(self.added.unwrap_or_default())
    }

    /// Whether anything is missing.
    pub fn is_incomplete(&self) -> bool {
        let mut parts = self.streams.iter().chain(self.added.iter().flatten());
        self.added.is_none() || parts.any(|part| part.error_bits != 0)
    }
}

/// A decision to be answered with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordRequest {
    /// Number of the decision.
    pub trigger_number: u64,
    /// Number of the run.
    pub run_number: u32,
    /// Time of the decision, in ticks.
    pub trigger_timestamp: u64,
    /// Bit mask of the candidate types that led to it.
    pub trigger_type: u64,
    /// Span of time to read out of every stream.
    pub window: Window,
    /// When the decision was taken, on the builder's clock.
    pub decided_ns: u64,
}

/// A record on its way: answers as they come in, in the order of the streams, and that of the
/// trigger.
#[derive(Debug)]
struct Pending<O> {
    request: RecordRequest,
    answers: Vec<Option<StreamAnswer>>,
    added: Option<Vec<Part<O>>>,
}

impl<O> Pending<O> {
    fn is_ready(&self, closed: bool) -> bool {
        (closed || self.added.is_some()) && self.answers.iter().all(Option::is_some)
    }
}

/// Asks every stream for the window of each decision and builds records of the answers.
///
/// A state machine without clock or thread: [`submit`](Self::submit) decisions,
/// [`attach`](Self::attach) what the trigger adds to each, and [`poll`](Self::poll) for records.
pub struct RecordBuilder<O> {
    config: BuildConfig,
    in_flight_max: usize,
    /// What the parts are that come from each stream.
    origins: Vec<O>,
    windows: Box<dyn Windows>,
    pending: VecDeque<Pending<O>>,
    closed: bool,
    account: Arc<Account<RecordDrop>>,
    response_ns: Arc<Histogram>,
}

impl<O: Clone> RecordBuilder<O> {
    /// A builder of records from the streams with these `origins`, whose data `windows` gives.
    /// `in_flight_max` records may wait for data at once: as many as the trigger lets be under way.
    pub fn new(
        config: BuildConfig,
        in_flight_max: usize,
        origins: Vec<O>,
        windows: Box<dyn Windows>,
    ) -> Self {
        Self {
            config,
            in_flight_max,
            origins,
            windows,
            pending: VecDeque::with_capacity(in_flight_max),
            closed: false,
            account: Arc::default(),
            response_ns: Arc::default(),
        }
    }

    /// Ledger of decisions: offered, delivered as records, refused.
    pub fn account(&self) -> Arc<Account<RecordDrop>> {
        Arc::clone(&self.account)
    }

    /// Time from decision to finished record, in nanoseconds.
    pub fn response_ns(&self) -> Arc<Histogram> {
        Arc::clone(&self.response_ns)
    }

    /// Number of records waiting for data.
    pub fn in_flight(&self) -> usize {
        self.pending.len()
    }

    /// Takes a decision; false when too many records are waiting, which is counted.
    pub fn submit(&mut self, request: RecordRequest) -> bool {
        self.account.offer(1);
        if self.pending.len() >= self.in_flight_max {
            self.account.discard(RecordDrop::Busy, 1);
            return false;
        }
        let deadline_ns = request.decided_ns.saturating_add(self.config.request_timeout.ns());
        self.windows.ask(request.trigger_number, DataRequest::new(request.window, deadline_ns));
        let answers = vec![None; self.origins.len()];
        self.pending.push_back(Pending { request, answers, added: None });
        true
    }

    /// Takes what the trigger adds to the record of a decision, which waits for it; nothing happens
    /// if the decision was refused.
    pub fn attach(&mut self, trigger_number: u64, added: Vec<Part<O>>) {
        let of_it = |pending: &&mut Pending<O>| pending.request.trigger_number == trigger_number;
        if let Some(pending) = self.pending.iter_mut().find(of_it) {
            pending.added = Some(added);
        }
    }

    /// Declares whether to wait for data of the stream with this index, as
    /// [`Windows::set_awaited`] has it.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn set_awaited(&mut self, stream: usize, awaited: bool) {
        self.windows.set_awaited(stream, awaited);
    }

    /// Declares that no more data will come: every request is answered with what is there.
    pub fn close(&mut self) {
        self.closed = true;
        self.windows.close();
    }

    /// The next record that is complete or out of time, in the order of decisions.
    pub fn poll(&mut self, now_ns: u64) -> Option<Record<O>> {
        let pending = &mut self.pending;
        self.windows.poll(now_ns, &mut |answer| {
            let of_it = |pending: &&mut Pending<O>| pending.request.trigger_number == answer.number;
            if let Some(pending) = pending.iter_mut().find(of_it) {
                let stream = answer.stream;
                pending.answers[stream] = Some(answer);
            }
        });
        let first = self.pending.pop_front_if(|pending| pending.is_ready(self.closed))?;
        self.response_ns.record(now_ns.saturating_sub(first.request.decided_ns));
        self.account.deliver(1);
        let answers: Vec<_> = first.answers.into_iter().flatten().collect();
        let unreachable = answers.iter().any(|answer| answer.unreachable);
        let streams = self.origins.iter().zip(answers);
        let part = |(origin, answer): (&O, StreamAnswer)| Part {
            origin: origin.clone(),
            error_bits: answer.error_bits,
            payload: answer.frames,
        };
        let streams = streams.map(part).collect();
        Some(Record { request: first.request, streams, added: first.added, unreachable })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{IndexWriter, index};
    use crate::request::error_bits;
    use crate::windows::BufferWindows;
    use gannet_memory::{Geometry, Producer, clop};
    use gannet_wire::Step;

    const FRAME_BYTES: usize = 64;
    const STEP: u64 = 2048;

    /// Two streams whose frames share one ring.
    struct Bench {
        producer: Producer,
        writers: Vec<IndexWriter>,
        builder: RecordBuilder<u32>,
    }

    fn bench(in_flight_max: usize) -> Bench {
        let (producer, cells) = clop(Geometry { cell_bytes: FRAME_BYTES, cells: 64 }).unwrap();
        let (writers, buffers) = (0..2)
            .map(|_| {
                let (mut writer, [buffer]) = index(32, Step::Fixed(STEP));
                writer.attach(cells.clone());
                (writer, buffer)
            })
            .unzip();
        let config = BuildConfig { request_timeout: Span(1000), ..Default::default() };
        let windows = Box::new(BufferWindows::new(config.window_ticks_max, buffers));
        let builder = RecordBuilder::new(config, in_flight_max, vec![0, 1], windows);
        Bench { producer, writers, builder }
    }

    impl Bench {
        /// Submits a decision with what the trigger adds to it.
        fn submit(&mut self, request: RecordRequest) -> bool {
            let number = request.trigger_number;
            let is_taken = self.builder.submit(request);
            self.builder.attach(number, vec![candidates()]);
            is_taken
        }

        fn land(&mut self, stream: usize, frame: u64) {
            let cell = self.producer.land(&[frame as u8; FRAME_BYTES]);
            self.writers[stream].insert(frame * STEP, cell, FRAME_BYTES, false);
        }
    }

    fn candidates() -> Part<u32> {
        Part { origin: 99, error_bits: 0, payload: vec![1, 2, 3] }
    }

    fn decision(number: u64, begin: u64, end: u64) -> RecordRequest {
        RecordRequest {
            trigger_number: number,
            run_number: 9,
            trigger_timestamp: begin,
            trigger_type: 1 << 7,
            window: Window { begin, end },
            decided_ns: 0,
        }
    }

    #[test]
    fn a_record_waits_for_every_stream_and_is_complete_when_all_have_come() {
        let mut bench = bench(4);
        (0..4).for_each(|frame| bench.land(0, frame));
        (0..2).for_each(|frame| bench.land(1, frame));
        assert!(bench.submit(decision(1, STEP, 2 * STEP + 1)));
        assert_eq!(bench.builder.poll(10), None);
        (2..4).for_each(|frame| bench.land(1, frame));
        let record = bench.builder.poll(20).unwrap();
        assert!(!record.is_incomplete());
        assert_eq!(record.streams[1].payload[0], 1, "starts with frame 1");
        let parts: Vec<_> = record.into_parts().map(|p| (p.origin, p.payload.len())).collect();
        assert_eq!(parts, [(0, 2 * FRAME_BYTES), (1, 2 * FRAME_BYTES), (99, 3)]);
        assert!(bench.builder.account().statement("records").closes());
        assert_eq!(bench.builder.response_ns().count(), 1);
    }

    #[test]
    fn a_stream_that_never_comes_makes_the_record_incomplete_at_the_time_out() {
        let mut bench = bench(4);
        (0..4).for_each(|frame| bench.land(0, frame));
        bench.submit(decision(1, STEP, 2 * STEP + 1));
        assert_eq!(bench.builder.poll(999), None);
        let record = bench.builder.poll(1000).unwrap();
        assert!(record.is_incomplete());
        assert_eq!(record.streams[0].error_bits, 0);
        assert_eq!(record.streams[1].error_bits, error_bits::DATA_NOT_FOUND);
        assert!(record.streams[1].payload.is_empty());
    }

    #[test]
    fn a_record_waits_for_what_the_trigger_adds_until_nothing_comes_any_more() {
        let mut bench = bench(4);
        (0..2).for_each(|stream| (0..4).for_each(|frame| bench.land(stream, frame)));
        for number in 1..=3 {
            assert!(bench.builder.submit(decision(number, STEP, 2 * STEP)));
        }
        assert_eq!(bench.builder.poll(5000), None, "whatever the time");
        let cut_short = Part { error_bits: error_bits::INCOMPLETE, ..candidates() };
        bench.builder.attach(1, vec![candidates(), cut_short]);
        bench.builder.attach(9, vec![candidates()]);
        let record = bench.builder.poll(5000).unwrap();
        assert!(record.is_incomplete());
        let bits: Vec<_> = record.into_parts().map(|part| part.error_bits).collect();
        assert_eq!(bits, [0, 0, 0, error_bits::INCOMPLETE]);
        bench.builder.attach(3, vec![candidates()]);
        assert_eq!(bench.builder.poll(5000), None, "records keep their order");
        bench.builder.close();
        let records = [bench.builder.poll(5000).unwrap(), bench.builder.poll(5000).unwrap()];
        assert_eq!(records.each_ref().map(Record::is_incomplete), [true, false]);
        assert_eq!(records.map(|record| record.into_parts().count()), [2, 3]);
    }

    #[test]
    fn a_stream_that_is_not_awaited_holds_no_record_up() {
        let mut bench = bench(4);
        (0..4).for_each(|frame| bench.land(0, frame));
        bench.submit(decision(1, STEP, 2 * STEP + 1));
        assert_eq!(bench.builder.poll(999), None);
        bench.builder.set_awaited(1, false);
        let record = bench.builder.poll(999).unwrap();
        assert_eq!(record.streams[0].error_bits, 0);
        assert_eq!(record.streams[1].error_bits, error_bits::DATA_NOT_FOUND);
    }

    #[test]
    fn more_decisions_than_may_be_in_flight_are_refused_and_counted() {
        let mut bench = bench(1);
        assert!(bench.submit(decision(1, 0, 1)));
        assert!(!bench.submit(decision(2, 0, 1)));
        assert_eq!(bench.builder.account().dropped(RecordDrop::Busy), 1);
        assert!(bench.builder.poll(2000).is_some());
        assert!(bench.submit(decision(3, 0, 1)));
    }
}
