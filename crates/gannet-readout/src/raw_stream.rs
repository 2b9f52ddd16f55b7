//! Streams recorded as they come: the frames of a stream, in order, as chunks of the log.
//!
//! Recorded is what was searched for primitives, in the order of the search, so that the same
//! search of the chunks gives the same primitives. A frame that came twice or too late is left out.

use std::sync::Arc;

use gannet_measure::ledger::Account;
use gannet_wire::FrameFormat;

use crate::latency::{IntakeReader, Next};
use gannet_log::{Chunk, Kind, Label};

/// Frames that a chunk holds at most: 0.9 MB, 4.2 ms of a stream at the true rate. A chunk fits
/// the smallest queue that a recorder may have.
pub const CHUNK_FRAMES: usize = 128;
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
/// A chunk holds whole frames of one stream, one after the other, with growing time stamps. Its
/// label has the time stamps of the first and of the last frame, their number, and how many frames
/// were lost since the chunk before.
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
    frame_len: usize,
    frames: Vec<u8>,
    opened_ns: u64,
    missing: u64,
}

impl<T: FrameFormat> RawStream<T> {
    /// The stream whose frames, of one length, are in `intake`; frames that come or are lost are counted in
    /// `account`. Whoever hands over the chunks counts what becomes of them.
    pub fn new(format: T, intake: IntakeReader, account: Arc<Account<RawDrop>>) -> Self {
        let frame_len = *format.lengths().end();
        let open = OpenChunk { format, frame_len, frames: Vec::new(), opened_ns: 0, missing: 0 };
        Self { intake, account, open }
    }

    /// Copies the frames that have come; gives a chunk when one is full or has waited long enough.
    ///
    /// Frames that were overwritten meanwhile are counted as dropped for `reason`. To be called
    /// again at once after it has given a chunk.
    pub fn gather(&mut self, now_ns: u64, reason: RawDrop) -> Option<Chunk> {
        while self.open.len() < CHUNK_FRAMES {
            let used = self.open.frames.len();
            match self.intake.copy_next(self.open.room_for_one()) {
                Next::Frame => {
                    self.account.offer(1);
                    if self.open.goes_back() {
                        return Some(self.open.cut_before_last(now_ns));
                    }
                    if used == 0 {
                        self.open.opened_ns = now_ns;
                    }
                }
                Next::Lost(frames) => {
                    self.open.frames.truncate(used);
                    self.open.missing += frames;
                    self.account.offer(frames);
                    self.account.discard(reason, frames);
                }
                Next::Nothing => {
                    self.open.frames.truncate(used);
                    let waited_ns = now_ns.saturating_sub(self.open.opened_ns);
                    return if waited_ns >= CHUNK_WAIT_NS { self.close() } else { None };
                }
            }
        }
        self.close()
    }

    /// The frames that were copied and not given yet.
    pub fn close(&mut self) -> Option<Chunk> {
        (self.open.len() > 0).then(|| self.open.cut())
    }
}

impl<T: FrameFormat> OpenChunk<T> {
    /// Number of frames.
    fn len(&self) -> usize {
        self.frames.len() / self.frame_len
    }

    /// Bytes for one more frame, behind the others.
    fn room_for_one(&mut self) -> &mut [u8] {
        let used = self.frames.len();
        if used == 0 {
            self.frames.reserve_exact(CHUNK_FRAMES * self.frame_len);
        }
        self.frames.resize(used + self.frame_len, 0);
        &mut self.frames[used..]
    }

    /// Time stamp of the frame that begins at byte `at`; 0 if it is none, which was found out when it
    /// came.
    fn timestamp(&self, at: usize) -> u64 {
        let frame = &self.frames[at..at + self.frame_len];
        self.format.heading(frame).map_or(0, |heading| heading.begin)
    }

    /// Whether time began anew with the last frame.
    fn goes_back(&self) -> bool {
        self.len() > 1 && {
            let last = self.frames.len() - self.frame_len;
            self.timestamp(last) <= self.timestamp(last - self.frame_len)
        }
    }

    /// Everything as a chunk, of which there must be something.
    fn cut(&mut self) -> Chunk {
        let times = (self.timestamp(0), self.timestamp(self.frames.len() - self.frame_len));
        let missing = u32::try_from(self.missing).unwrap_or(u32::MAX);
        let label = Label::new(Kind::RAW_FRAMES).times(times.0, times.1);
        let label = label.counts(self.len() as u32, missing);
        self.missing = 0;
        let mut frames = std::mem::take(&mut self.frames);
        // A queue of small chunks must not hold the memory of large ones.
        if frames.len() < frames.capacity() / 2 {
            frames.shrink_to_fit();
        }
        Chunk::new(label, frames)
    }

    /// The same without the last frame, which stays as the first of the next chunk.
    fn cut_before_last(&mut self, now_ns: u64) -> Chunk {
        let last = self.frames.split_off(self.frames.len() - self.frame_len);
        let chunk = self.cut();
        (self.frames, self.opened_ns) = (last, now_ns);
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
            self.intake.push(self.producer.land(&frame));
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
