//! The frames of one stream in the order in which they were taken.
//!
//! The [index](super::IndexWriter) finds a frame by its time; this tells which frame came after
//! which. It is a ring of cell numbers and lengths, as long as the stream's part of the latency buffer. The
//! writer never waits: a reader that is further behind than the ring is long has lost frames, and
//! is told how many.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gannet_memory::{Cell, Overwritten, Reader};

/// What writer and reader share.
#[derive(Debug)]
struct Shared {
    /// The newest frames; frame `n` has its place at `n` modulo the length.
    ring: Box<[Place]>,
    /// So many of the newest frames are held in any case.
    held: u64,
    /// Frames entered so far.
    entered: AtomicU64,
    /// Number of the frame that the reader takes next.
    next: AtomicU64,
    /// The clop in which the frames lie, known before the first is entered.
    cells: OnceLock<Reader>,
}

/// Where a frame lies.
#[derive(Debug, Default)]
struct Place {
    cell: AtomicU64,
    len: AtomicU32,
}

impl Shared {
    fn place(&self, number: u64) -> &Place {
        &self.ring[(number & (self.ring.len() as u64 - 1)) as usize]
    }
}

/// Makes an intake that remembers at least the last `frames` frames.
///
/// # Panics
/// When `frames` is zero.
pub fn intake(frames: usize) -> (IntakeWriter, IntakeReader) {
    assert!(frames > 0, "an intake needs room");
    let shared = Arc::new(Shared {
        held: frames as u64,
        // The place that is written next is never read.
        ring: (0..(frames + 1).next_power_of_two()).map(|_| Place::default()).collect(),
        entered: AtomicU64::new(0),
        next: AtomicU64::new(0),
        cells: OnceLock::new(),
    });
    (IntakeWriter { shared: Arc::clone(&shared) }, IntakeReader { shared, next: 0 })
}

/// The one writer of an intake.
#[derive(Debug)]
pub struct IntakeWriter {
    shared: Arc<Shared>,
}

impl IntakeWriter {
    /// Says in which clop the frames lie; to be called before the first is entered. A second call
    /// changes nothing.
    pub fn attach(&mut self, cells: Reader) {
        self.shared.cells.get_or_init(|| cells);
    }

    /// Enters the frame that lies in `cell`, `len` bytes long, as the newest.
    #[inline]
    pub fn push(&mut self, cell: Cell, len: usize) {
        let number = self.shared.entered.load(Ordering::Relaxed);
        let place = self.shared.place(number);
        // A reader that sees any of this also sees every frame before it as entered.
        place.cell.store(cell.0, Ordering::Release);
        place.len.store(len as u32, Ordering::Release);
        self.shared.entered.store(number + 1, Ordering::Release);
    }
}

/// What an intake had for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next frame; it was appended.
    Frame,
    /// The next frames, so many, were overwritten before they could be copied.
    Lost(u64),
    /// No frame has come since.
    Nothing,
}

/// The one reader of an intake.
#[derive(Debug)]
pub struct IntakeReader {
    shared: Arc<Shared>,
    /// Number of the next frame.
    next: u64,
}

/// How far the reader of an intake is behind its writer, for others to read.
#[derive(Clone, Debug)]
pub struct IntakeLag {
    shared: Arc<Shared>,
}

impl IntakeLag {
    /// Frames that have come and were not read, as a part of those that are held: 1 where some are lost.
    pub fn share(&self) -> f64 {
        let next = self.shared.next.load(Ordering::Relaxed);
        let behind = self.shared.entered.load(Ordering::Relaxed).saturating_sub(next);
        (behind as f64 / self.shared.held as f64).min(1.0)
    }
}

impl IntakeReader {
    /// How far this reader is behind.
    pub fn lag(&self) -> IntakeLag {
        IntakeLag { shared: Arc::clone(&self.shared) }
    }

    /// Goes to the next frame and appends it to `out`, which is as before unless this gives
    /// [`Next::Frame`].
    pub fn copy_next(&mut self, out: &mut Vec<u8>) -> Next {
        let next = self.take_next(out);
        self.shared.next.store(self.next, Ordering::Relaxed);
        next
    }

    fn take_next(&mut self, out: &mut Vec<u8>) -> Next {
        let shared = &*self.shared;
        let Some(cells) = shared.cells.get() else { return Next::Nothing };
        let entered = shared.entered.load(Ordering::Acquire);
        if self.next == entered {
            return Next::Nothing;
        }
        let place = shared.place(self.next);
        let cell = Cell(place.cell.load(Ordering::Acquire));
        let len = place.len.load(Ordering::Acquire) as usize;
        // Looked at after the place: one that was replaced before it was read is noticed here.
        let behind = shared.entered.load(Ordering::Relaxed) - self.next;
        let held = shared.ring.len() as u64 - 1;
        if behind > held {
            self.next += behind - held;
            return Next::Lost(behind - held);
        }
        self.next += 1;
        let used = out.len();
        out.resize(used + len, 0);
        match cells.copy(cell, &mut out[used..]) {
            Ok(()) => Next::Frame,
            Err(Overwritten) => {
                out.truncate(used);
                Next::Lost(1)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use gannet_memory::{Geometry, Producer, clop};

    use super::*;

    const BYTES: usize = 64;

    /// Lands a frame that holds `value` in every word, and enters it.
    fn land(producer: &mut Producer, writer: &mut IntakeWriter, value: u64) {
        // Of one of the lengths that leave a multiple of eight bytes.
        let frame = value.to_le_bytes().repeat(1 + value as usize % (BYTES / 8));
        writer.push(producer.land(&frame), frame.len());
    }

    /// A clop of `cells` cells and an intake that remembers `frames` frames.
    fn bench(cells: usize, frames: usize) -> (Producer, IntakeWriter, IntakeReader) {
        let (producer, cells) = clop(Geometry { cell_bytes: BYTES, cells }).unwrap();
        let (mut writer, reader) = intake(frames);
        writer.attach(cells);
        (producer, writer, reader)
    }

    /// Goes to the next frame, which alone is in `frame` then.
    fn take(reader: &mut IntakeReader, frame: &mut Vec<u8>) -> Next {
        frame.clear();
        reader.copy_next(frame)
    }

    /// What the frame holds, if it is whole.
    fn value(frame: &[u8]) -> u64 {
        assert!(frame.chunks_exact(8).all(|word| word == &frame[..8]), "torn frame believed");
        let value = u64::from_le_bytes(frame[..8].try_into().unwrap());
        assert_eq!(frame.len(), 8 * (1 + value as usize % (BYTES / 8)), "the length of another");
        value
    }

    #[test]
    fn frames_come_in_the_order_in_which_they_were_entered() {
        let (mut producer, mut writer, mut reader) = bench(8, 8);
        let mut frame = Vec::new();
        assert_eq!(take(&mut reader, &mut frame), Next::Nothing);
        for number in 0..100 {
            land(&mut producer, &mut writer, number);
            assert_eq!((take(&mut reader, &mut frame), value(&frame)), (Next::Frame, number));
            assert_eq!(take(&mut reader, &mut frame), Next::Nothing);
        }
    }

    #[test]
    fn a_reader_before_the_first_frame_finds_nothing() {
        let (_writer, mut reader) = intake(4);
        assert_eq!(reader.copy_next(&mut Vec::new()), Next::Nothing);
    }

    #[test]
    fn frames_that_were_overwritten_are_lost_one_by_one() {
        // Frames of others take half of the cells, so the intake remembers more than there are.
        let (mut producer, mut writer, mut reader) = bench(8, 15);
        for number in 0..15 {
            land(&mut producer, &mut writer, number);
        }
        let mut frames = Vec::new();
        let found: Vec<_> = (0..16).map(|_| reader.copy_next(&mut frames)).collect();
        assert_eq!(found[..7], [Next::Lost(1); 7]);
        assert_eq!(found[7..15], [Next::Frame; 8]);
        assert_eq!((found[15], value(&frames[frames.len() - 8 * 7..])), (Next::Nothing, 14));
    }

    #[test]
    fn frames_that_were_forgotten_are_lost_at_once() {
        let (mut producer, mut writer, mut reader) = bench(64, 7);
        let lag = reader.lag();
        assert_eq!(lag.share(), 0.0);
        for number in 0..20 {
            land(&mut producer, &mut writer, number);
        }
        assert_eq!(lag.share(), 1.0);
        let mut frame = Vec::new();
        assert_eq!(take(&mut reader, &mut frame), Next::Lost(13));
        assert_eq!((take(&mut reader, &mut frame), value(&frame)), (Next::Frame, 13));
        assert_eq!(lag.share(), 6.0 / 7.0, "of the seven that are held, one was read");
    }

    #[test]
    fn every_frame_is_copied_in_its_order_or_lost_while_the_writer_runs_ahead() {
        const FRAMES: u64 = 200_000;
        // The intake is shorter than the ring of cells: cells that are replaced are intact ones.
        let (mut producer, mut writer, mut reader) = bench(64, 7);
        let watcher = thread::spawn(move || {
            let (mut next, mut seen, mut frame) = (0, 0, Vec::new());
            while next < FRAMES {
                match take(&mut reader, &mut frame) {
                    Next::Frame => {
                        assert_eq!(value(&frame), next, "out of order");
                        (next, seen) = (next + 1, seen + 1);
                    }
                    Next::Lost(lost) => next += lost,
                    Next::Nothing => thread::yield_now(),
                }
            }
            (next, seen)
        });
        (0..FRAMES).for_each(|number| land(&mut producer, &mut writer, number));
        let (next, seen) = watcher.join().unwrap();
        assert!(next == FRAMES && seen > 0, "{next} {seen}");
    }
}
