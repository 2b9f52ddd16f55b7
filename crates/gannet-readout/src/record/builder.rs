//! Collects the answers to a decision and builds the record.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_measure::histogram::Histogram;
use gannet_measure::ledger::Account;
use gannet_measure::quantity::Span;
use gannet_wire::component_request::ComponentRequest;
use gannet_wire::fragment_type::FragmentType;
use gannet_wire::record::Record;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::{GeoId, fragment, trigger_record};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::encode::{Fragment, TriggerRecord};
use crate::latency::{StreamBuffer, Window};
use crate::request::{Answer, DataRequest};

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

/// One stream that records take data from.
#[derive(Debug)]
pub struct StreamSource {
    /// Source that the stream is in records and files.
    pub source_id: SourceId,
    /// Place of the stream on the detector.
    pub geo_id: GeoId,
    /// Format of its frames.
    pub fragment_type: FragmentType,
    /// Its last seconds.
    pub buffer: StreamBuffer,
}

/// Bytes that the trigger adds to a record, such as its candidates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attachment {
    /// Source of the bytes.
    pub source_id: SourceId,
    /// Format of the bytes.
    pub fragment_type: FragmentType,
    /// Detector they are about.
    pub detector_id: u16,
    /// What went wrong: bits of [`fragment::error_bits`].
    pub error_bits: u32,
    /// The bytes.
    pub payload: Vec<u8>,
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
struct Pending {
    request: RecordRequest,
    data_request: DataRequest,
    answers: Vec<Option<Answer>>,
    attachments: Option<Vec<Attachment>>,
}

impl Pending {
    fn is_ready(&self, closed: bool) -> bool {
        (closed || self.attachments.is_some()) && self.answers.iter().all(Option::is_some)
    }
}

/// Asks every stream for the window of each decision and builds records of the answers.
///
/// A state machine without clock or thread: [`submit`](Self::submit) decisions,
/// [`attach`](Self::attach) what the trigger adds to each, and [`poll`](Self::poll) for records.
#[derive(Debug)]
pub struct RecordBuilder {
    config: BuildConfig,
    in_flight_max: usize,
    streams: Vec<StreamSource>,
    /// Whether it is worth waiting for data of each stream.
    awaited: Vec<bool>,
    pending: VecDeque<Pending>,
    closed: bool,
    account: Arc<Account<RecordDrop>>,
    response_ns: Arc<Histogram>,
}

impl RecordBuilder {
    /// The source that records name as their builder.
    pub const SOURCE: SourceId = SourceId::new(Subsystem::TrBuilder, 0);

    /// A builder of records from `streams`, of which `in_flight_max` may wait for data at once: as
    /// many as the trigger lets be under way.
    pub fn new(config: BuildConfig, in_flight_max: usize, streams: Vec<StreamSource>) -> Self {
        Self {
            config,
            in_flight_max,
            awaited: vec![true; streams.len()],
            streams,
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
        self.pending.push_back(Pending {
            data_request: DataRequest::new(request.window, deadline_ns),
            answers: vec![None; self.streams.len()],
            attachments: None,
            request,
        });
        true
    }

    /// Takes what the trigger adds to the record of a decision, which waits for it; nothing happens
    /// if the decision was refused.
    pub fn attach(&mut self, trigger_number: u64, attachments: Vec<Attachment>) {
        let of_it = |pending: &&mut Pending| pending.request.trigger_number == trigger_number;
        if let Some(pending) = self.pending.iter_mut().find(of_it) {
            pending.attachments = Some(attachments);
        }
    }

    /// Declares whether to wait for data of the stream with this index. One whose time is wrong
    /// answers with what it has, so that it does not hold up the records of the others.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn set_awaited(&mut self, stream: usize, awaited: bool) {
        self.awaited[stream] = awaited;
    }

    /// Declares that no more data will come: every request is answered with what is there.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// The next record that is complete or out of time, in the order of decisions.
    pub fn poll(&mut self, now_ns: u64) -> Option<TriggerRecord> {
        let window_ticks_max = self.config.window_ticks_max;
        for pending in &mut self.pending {
            let streams = self.streams.iter_mut().zip(&self.awaited);
            for ((stream, awaited), answer) in streams.zip(&mut pending.answers) {
                if answer.is_none() {
                    let waits = *awaited && !self.closed;
                    let waited_to_ns = if waits { now_ns } else { u64::MAX };
                    let buffer = &mut stream.buffer;
                    *answer = pending.data_request.attempt(buffer, waited_to_ns, window_ticks_max);
                }
            }
        }
        let first = self.pending.pop_front_if(|pending| pending.is_ready(self.closed))?;
        self.response_ns.record(now_ns.saturating_sub(first.request.decided_ns));
        self.account.deliver(1);
        Some(self.build(first))
    }

    /// Puts the answers of a finished request together.
    fn build(&self, pending: Pending) -> TriggerRecord {
        let Pending { request, answers, attachments, .. } = pending;
        let error_bits = match attachments {
            Some(_) => 0,
            None => trigger_record::error_bits::INCOMPLETE,
        };
        let attachments = attachments.unwrap_or_default();
        let mut record = TriggerRecord {
            header: trigger_record::Repr {
                version: trigger_record::Version::V4,
                trigger_number: request.trigger_number,
                trigger_timestamp: request.trigger_timestamp,
                run_number: request.run_number,
                error_bits,
                trigger_type: request.trigger_type,
                sequence_number: 0,
                max_sequence_number: 0,
                source_id: Self::SOURCE,
            },
            requests: Vec::with_capacity(answers.len() + attachments.len()),
            fragments: Vec::with_capacity(answers.len() + attachments.len()),
        };
        for (stream, answer) in self.streams.iter().zip(answers.into_iter().flatten()) {
            record.add(&request, stream.attachment(answer));
        }
        for attachment in attachments {
            record.add(&request, attachment);
        }
        record
    }

    /// The streams that records take data from.
    pub fn streams(&self) -> &[StreamSource] {
        &self.streams
    }
}

impl StreamSource {
    /// The answer of this stream as something that a record holds.
    fn attachment(&self, answer: Answer) -> Attachment {
        Attachment {
            source_id: self.source_id,
            fragment_type: self.fragment_type,
            detector_id: self.geo_id.detector,
            error_bits: answer.error_bits,
            payload: answer.frames,
        }
    }
}

impl TriggerRecord {
    /// Adds a fragment and the request that it answers.
    fn add(&mut self, request: &RecordRequest, data: Attachment) {
        let Window { begin, end } = request.window;
        self.requests.push(ComponentRequest {
            component: data.source_id,
            window_begin: begin,
            window_end: end,
        });
        if data.error_bits != 0 {
            self.header.error_bits |= trigger_record::error_bits::INCOMPLETE;
        }
        self.fragments.push(Fragment {
            header: fragment::Repr {
                version: fragment::Version::V5,
                size: (fragment::Repr::LEN + data.payload.len()) as u64,
                trigger_number: request.trigger_number,
                trigger_timestamp: request.trigger_timestamp,
                window_begin: begin,
                window_end: end,
                run_number: request.run_number,
                error_bits: data.error_bits,
                fragment_type: data.fragment_type,
                sequence_number: 0,
                detector_id: data.detector_id,
                source_id: data.source_id,
            },
            payload: data.payload,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::latency::{IndexWriter, index};
    use gannet_memory::{Geometry, Producer, clop};

    const FRAME_BYTES: usize = 64;
    const STEP: u64 = 2048;

    /// Two streams whose frames share one ring.
    struct Bench {
        producer: Producer,
        writers: Vec<IndexWriter>,
        builder: RecordBuilder,
    }

    fn bench(in_flight_max: usize) -> Bench {
        let (producer, cells) = clop(Geometry { cell_bytes: FRAME_BYTES, cells: 64 }).unwrap();
        let (writers, streams) = (0..2)
            .map(|stream| {
                let (mut writer, entries) = index(32, STEP);
                writer.attach(cells.clone());
                let source = StreamSource {
                    source_id: SourceId::new(Subsystem::DetectorReadout, 100 + u32::from(stream)),
                    geo_id: GeoId::new(3, 1, 0, stream),
                    fragment_type: FragmentType::WibEth,
                    buffer: StreamBuffer::new(entries, FRAME_BYTES),
                };
                (writer, source)
            })
            .unzip();
        let config = BuildConfig { request_timeout: Span(1000), ..Default::default() };
        Bench { producer, writers, builder: RecordBuilder::new(config, in_flight_max, streams) }
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
            self.writers[stream].insert(frame * STEP, cell, false);
        }
    }

    fn candidates() -> Attachment {
        Attachment {
            source_id: SourceId::new(Subsystem::Trigger, 1),
            fragment_type: FragmentType::TriggerCandidate,
            detector_id: 3,
            error_bits: 0,
            payload: vec![1, 2, 3],
        }
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
        let sizes: Vec<usize> = record.fragments.iter().map(|f| f.payload.len()).collect();
        assert_eq!(sizes, [2 * FRAME_BYTES, 2 * FRAME_BYTES, 3]);
        assert_eq!(record.requests.len(), 3);
        assert_eq!(record.fragments[1].payload[0], 1, "starts with frame 1");
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
        assert_eq!(record.fragments[0].header.error_bits, 0);
        assert_eq!(record.fragments[1].header.error_bits, fragment::error_bits::DATA_NOT_FOUND);
        assert!(record.fragments[1].payload.is_empty());
    }

    #[test]
    fn a_record_waits_for_what_the_trigger_adds_until_nothing_comes_any_more() {
        let mut bench = bench(4);
        (0..2).for_each(|stream| (0..4).for_each(|frame| bench.land(stream, frame)));
        for number in 1..=3 {
            assert!(bench.builder.submit(decision(number, STEP, 2 * STEP)));
        }
        assert_eq!(bench.builder.poll(5000), None, "whatever the time");
        let cut_short = Attachment { error_bits: fragment::error_bits::INCOMPLETE, ..candidates() };
        bench.builder.attach(1, vec![candidates(), cut_short]);
        bench.builder.attach(9, vec![candidates()]);
        let record = bench.builder.poll(5000).unwrap();
        assert_eq!((record.fragments.len(), record.requests.len()), (4, 4));
        assert!(record.is_incomplete());
        assert_eq!(record.fragments[2].header.error_bits, 0);
        assert_eq!(record.fragments[3].header.error_bits, fragment::error_bits::INCOMPLETE);
        bench.builder.attach(3, vec![candidates()]);
        assert_eq!(bench.builder.poll(5000), None, "records keep their order");
        bench.builder.close();
        let records = [bench.builder.poll(5000).unwrap(), bench.builder.poll(5000).unwrap()];
        assert_eq!(records.each_ref().map(TriggerRecord::is_incomplete), [true, false]);
        assert_eq!(records.map(|record| record.fragments.len()), [2, 3]);
    }

    #[test]
    fn a_stream_that_is_not_awaited_holds_no_record_up() {
        let mut bench = bench(4);
        (0..4).for_each(|frame| bench.land(0, frame));
        bench.submit(decision(1, STEP, 2 * STEP + 1));
        assert_eq!(bench.builder.poll(999), None);
        bench.builder.set_awaited(1, false);
        let record = bench.builder.poll(999).unwrap();
        assert_eq!(record.fragments[0].header.error_bits, 0);
        assert_eq!(record.fragments[1].header.error_bits, fragment::error_bits::DATA_NOT_FOUND);
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

    #[test]
    fn the_stored_header_is_what_the_format_reads() {
        let mut bench = bench(4);
        bench.submit(decision(5, STEP, STEP));
        let record = bench.builder.poll(0).unwrap();
        let bytes = record.header_bytes();
        let stored = trigger_record::TriggerRecordHeader::new_checked(&bytes).unwrap();
        assert_eq!(stored.header(), record.header);
        assert_eq!(stored.component_requests().count(), 3);
        assert_eq!(record.fragments[0].header.error_bits, fragment::error_bits::INVALID_WINDOW);
        assert_eq!(record.len_bytes(), bytes.len() + 2 * 72 + 75);
    }
}
