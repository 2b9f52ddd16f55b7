//! Streams recorded as they come: the frames of a stream, in order, as chunks of the log.
//!
//! Recorded is what was searched for primitives, in the order of the search, so that the same
//! search of the chunks gives the same primitives. A frame that came twice or too late is left out.

use std::sync::Arc;

use gannet_log::frames::SIZE_BYTES;
use gannet_log::{Chunk, Kind, Label};
use gannet_measure::ledger::Account;
use gannet_wire::{FrameFormat, Step};

use crate::latency::{IntakeReader, Next};

/// Frames that a chunk holds at most: 0.9 MB, 4.2 ms of a stream at the true rate.
pub const CHUNK_FRAMES: usize = 128;
/// Bytes that a chunk of several frames has at most: it fits the smallest queue that a recorder
/// may have.
const CHUNK_BYTES_MAX: usize = 1 << 20;
/// Longest time that a frame waits for others of its chunk, in nanoseconds.
pub const CHUNK_WAIT_NS: u64 = 100_000_000;

gannet_measure::drop_reasons! {
    /// Why a frame of a stream that is recorded as it comes was not handed to the recorder.
    pub enum RawDrop {
        /// It was overwritten in the latency buffer before it could be copied.
        Overwritten => "overwritten",
        /// The same, while the recorder took no more: the disk is too slow.
        RecorderBusy => "recorder_busy",
    }
}

/// Cuts the frames of one stream into chunks; a state machine without clock or thread.
///
/// A chunk holds whole frames of one stream, one after the other, with time stamps that never go
/// back. Its label has the time stamps of the first and of the last frame, their number, and how
/// many frames were lost since the chunk before. Where the frames of a format may differ in length
/// each has its length before it ([`Kind::SIZED_FRAMES`]).
#[derive(Debug)]
pub struct RawStream<T> {
    intake: IntakeReader,
    account: Arc<Account<RawDrop>>,
    open: OpenChunk<T>,
}

/// Frames that are not handed over yet.
#[derive(Debug)]
struct OpenChunk<T> {
    format: T,
    kind: Kind,
    frame_len_max: usize,
    payload: Vec<u8>,
    frames: u32,
    /// Time stamps of the first and of the last frame, in ticks.
    times: (u64, u64),
    opened_ns: u64,
    missing: u64,
}

impl<T: FrameFormat> RawStream<T> {
    /// The stream whose frames are in `intake`; frames that come or are lost are counted in
    /// `account`. Whoever hands over the chunks counts what becomes of them.
    pub fn new(format: T, intake: IntakeReader, account: Arc<Account<RawDrop>>) -> Self {
        let lengths = format.lengths();
        let open = OpenChunk {
            kind: if lengths.start() == lengths.end() {
                Kind::RAW_FRAMES
            } else {
                Kind::SIZED_FRAMES
            },
            frame_len_max: *lengths.end(),
            format,
            payload: Vec::new(),
            frames: 0,
            times: (0, 0),
            opened_ns: 0,
            missing: 0,
        };
        Self { intake, account, open }
    }

    /// Copies the frames that have come; gives a chunk when one is full or has waited long enough.
    ///
    /// Frames that were overwritten meanwhile are counted as dropped for `reason`. To be called
    /// again at once after it has given a chunk.
    pub fn gather(&mut self, now_ns: u64, reason: RawDrop) -> Option<Chunk> {
        while !self.open.is_full() {
            let at = self.open.payload.len();
            let frame_at = self.open.make_room();
            match self.intake.copy_next(&mut self.open.payload) {
                Next::Frame => {
                    self.account.offer(1);
                    let begin = self.open.finish_frame(at, frame_at);
                    let is_anew = self.open.frames > 0 && self.open.goes_back(begin);
                    let before = is_anew.then(|| self.open.cut_before(at));
                    self.open.count(begin, now_ns);
                    if before.is_some() {
                        return before;
                    }
                }
                Next::Lost(frames) => {
                    self.open.payload.truncate(at);
                    self.open.missing += frames;
                    self.account.offer(frames);
                    self.account.discard(reason, frames);
                }
                Next::Nothing => {
                    self.open.payload.truncate(at);
                    let waited_ns = now_ns.saturating_sub(self.open.opened_ns);
                    return if waited_ns >= CHUNK_WAIT_NS { self.close() } else { None };
                }
            }
        }
        self.close()
    }

    /// The frames that were copied and not given yet.
    pub fn close(&mut self) -> Option<Chunk> {
        (self.open.frames > 0).then(|| self.open.cut())
    }
}
impl<T: FrameFormat> OpenChunk<T> {
    /// Whether no further frame is to come.
    fn is_full(&self) -> bool {
        let longer = self.payload.len() + SIZE_BYTES + self.frame_len_max;
        self.frames as usize == CHUNK_FRAMES || (self.frames > 0 && longer > CHUNK_BYTES_MAX)
    }

    /// Makes room for one more frame and its length; where it begins.
    fn make_room(&mut self) -> usize {
        if self.payload.is_empty() {
            let frames = CHUNK_FRAMES * (SIZE_BYTES + self.frame_len_max);
            self.payload.reserve_exact(frames.min(CHUNK_BYTES_MAX));
        }
        if self.kind == Kind::SIZED_FRAMES {
            self.payload.extend([0; SIZE_BYTES]);
        }
        self.payload.len()
    }

    /// Writes the length of the last frame at byte `at`, if there is room before it; its time stamp,
    /// 0 if it is no frame, which was found out when it came.
    fn finish_frame(&mut self, at: usize, frame_at: usize) -> u64 {
        let (before, frame) = self.payload.split_at_mut(frame_at);
        if frame_at > at {
            before[at..].copy_from_slice(&(frame.len() as u32).to_le_bytes());
        }
        self.format.heading(frame).map_or(0, |heading| heading.begin)
    }

    /// Whether time began anew with the frame of this time stamp.
    fn goes_back(&self, begin: u64) -> bool {
        match self.format.rhythm().step {
            Step::Fixed(_) => begin <= self.times.1,
            Step::Varying { .. } | Step::Slices { .. } => begin < self.times.1,
        }
    }

    /// Counts the last frame.
    fn count(&mut self, begin: u64, now_ns: u64) {
        if self.frames == 0 {
            (self.times.0, self.opened_ns) = (begin, now_ns);
        }
        (self.times.1, self.frames) = (begin, self.frames + 1);
    }

    /// Everything as a chunk, of which there must be something.
    fn cut(&mut self) -> Chunk {
        let missing = u32::try_from(self.missing).unwrap_or(u32::MAX);
        let label = Label::new(self.kind).times(self.times.0, self.times.1);
        let label = label.counts(self.frames, missing);
        (self.missing, self.frames) = (0, 0);
        let mut payload = std::mem::take(&mut self.payload);
        // A queue of small chunks must not hold the memory of large ones.
        if payload.len() < payload.capacity() / 2 {
            payload.shrink_to_fit();
        }
        Chunk::new(label, payload)
    }

    /// The same of what is before byte `at`; the frame behind it stays, not counted yet.
    fn cut_before(&mut self, at: usize) -> Chunk {
        let last = self.payload.split_off(at);
        let chunk = self.cut();
        self.payload = last;
        chunk
    }
}

#[cfg(test)]
mod tests {
    use std::ops::RangeInclusive;

    use gannet_memory::{Geometry, Producer, clop};

    use super::*;
    use crate::latency::{IntakeWriter, intake};
    use gannet_measure::ticks::TickRate;
    use gannet_wire::{Heading, Result, Rhythm, Step, StreamKey};

    const STEP: u64 = 2048;
    const FRAME_LEN: usize = 64;

    /// Frames that begin with their time.
    #[derive(Clone, Debug)]
    struct Timed;

    impl FrameFormat for Timed {
        fn lengths(&self) -> RangeInclusive<usize> {
            FRAME_LEN..=FRAME_LEN
        }

        fn rhythm(&self) -> Rhythm {
            Rhythm { clock: TickRate::hz(62_500_000), step: Step::Fixed(STEP), sequence_modulus: 1 }
        }

        fn heading(&self, frame: &[u8]) -> Result<Heading> {
            let begin = u64::from_le_bytes(frame[..8].try_into().unwrap());
            Ok(Heading { stream: StreamKey(0), begin, sequence: 0 })
        }

        fn set_heading(&self, frame: &mut [u8], heading: &Heading) {
            frame[..8].copy_from_slice(&heading.begin.to_le_bytes());
        }

        fn stream_name(&self, _: StreamKey) -> String {
            String::new()
        }
    }

    /// A stream, and the ring in which its frames land.
    struct Bench {
        producer: Producer,
        intake: IntakeWriter,
        stream: RawStream<Timed>,
        account: Arc<Account<RawDrop>>,
    }

    /// A ring with room for `cells` frames.
    fn bench(cells: usize) -> Bench {
        let (producer, reader) = clop(Geometry { cell_bytes: FRAME_LEN, cells }).unwrap();
        let (mut intake, frames) = intake(cells);
        intake.attach(reader);
        let account = Arc::<Account<RawDrop>>::default();
        let stream = RawStream::new(Timed, frames, Arc::clone(&account));
        Bench { producer, intake, stream, account }
    }

    impl Bench {
        /// Lands the frame of this time, in frames.
        fn land(&mut self, time: u64) {
            let mut frame = vec![time as u8; FRAME_LEN];
            let heading = Heading { stream: StreamKey(0), begin: time * STEP, sequence: 0 };
            Timed.set_heading(&mut frame, &heading);
            self.intake.push(self.producer.land(&frame), FRAME_LEN);
        }

        fn gather(&mut self, now_ns: u64) -> Option<Chunk> {
            self.stream.gather(now_ns, RawDrop::Overwritten)
        }
    }

    /// Times of the frames in a chunk, in frames; the label and the bytes must agree.
    fn times(chunk: &Chunk) -> Vec<u64> {
        let frames = chunk.parts[0].chunks_exact(FRAME_LEN);
        let time = |frame: &[u8]| {
            let time = Timed.heading(frame).unwrap().begin / STEP;
            assert!(frame[8..].iter().all(|byte| *byte == time as u8));
            time
        };
        let times: Vec<u64> = frames.map(time).collect();
        assert_eq!(chunk.label.kind, Kind::RAW_FRAMES);
        assert_eq!(chunk.label.items as usize, times.len());
        assert_eq!(chunk.label.first_ticks, times[0] * STEP);
        assert_eq!(chunk.label.last_ticks, times[times.len() - 1] * STEP);
        times
    }

    #[test]
    fn a_chunk_is_given_when_it_is_full() {
        let mut bench = bench(2 * CHUNK_FRAMES);
        let full = CHUNK_FRAMES as u64;
        (0..full + 1).for_each(|time| bench.land(time));
        assert_eq!(times(&bench.gather(0).unwrap()), (0..full).collect::<Vec<_>>());
        assert_eq!(bench.gather(0), None);
        bench.land(full + 1);
        assert_eq!(bench.gather(0), None);
        assert_eq!(times(&bench.stream.close().unwrap()), [full, full + 1]);
        assert_eq!(bench.stream.close(), None);
        assert_eq!(bench.account.statement("raw_frames").offered, full + 2);
    }

    #[test]
    fn a_frame_waits_for_others_for_a_bounded_time() {
        let mut bench = bench(8);
        bench.land(0);
        assert_eq!(bench.gather(1000), None);
        bench.land(1);
        assert_eq!(bench.gather(1000 + CHUNK_WAIT_NS - 1), None);
        assert_eq!(times(&bench.gather(1000 + CHUNK_WAIT_NS).unwrap()), [0, 1]);
        assert_eq!(bench.gather(u64::MAX), None);
    }

    #[test]
    fn times_grow_in_a_chunk_when_the_time_of_the_stream_begins_anew() {
        let mut bench = bench(8);
        [5, 6, 3, 4, 9].into_iter().for_each(|time| bench.land(time));
        assert_eq!(times(&bench.gather(0).unwrap()), [5, 6]);
        assert_eq!(bench.gather(0), None);
        assert_eq!(times(&bench.stream.close().unwrap()), [3, 4, 9]);
        assert_eq!(bench.account.statement("raw_frames").offered, 5);
    }

    #[test]
    fn frames_that_were_overtaken_are_counted_and_missing_in_the_next_chunk() {
        let mut bench = bench(8);
        bench.land(0);
        assert_eq!(bench.gather(0), None);
        // Twenty frames in a ring of eight: the last eight of them are there.
        (1..21).for_each(|time| bench.land(time));
        assert_eq!(bench.stream.gather(0, RawDrop::RecorderBusy), None);
        let chunk = bench.stream.close().unwrap();
        assert_eq!(times(&chunk), [vec![0], (13..21).collect()].concat());
        assert_eq!(chunk.label.items_missing, 12);
        bench.land(21);
        assert_eq!(bench.gather(0), None);
        assert_eq!(bench.stream.close().unwrap().label.items_missing, 0);
        let statement = bench.account.statement("raw_frames");
        assert_eq!((statement.offered, bench.account.dropped(RawDrop::RecorderBusy)), (22, 12));
    }
}
