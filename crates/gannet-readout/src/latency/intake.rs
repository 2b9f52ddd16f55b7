//! The frames of one stream in the order in which they were taken.
//!
//! The [index](super::IndexWriter) finds a frame by its time; this tells which frame came after
//! which. It is a ring of cell numbers, as long as the stream's part of the latency buffer. The
//! writer never waits: a reader that is further behind than the ring is long has lost frames, and
//! is told how many.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use gannet_memory::{Cell, Overwritten, Reader};

/// What writer and reader share.
#[derive(Debug)]
struct Shared {
    /// Cells of the newest frames; frame `n` has its place at `n` modulo the length.
    ring: Box<[AtomicU64]>,
    /// Frames entered so far.
    entered: AtomicU64,
    /// The clop in which the frames lie, known before the first is entered.
    cells: OnceLock<Reader>,
}

impl Shared {
    fn place(&self, number: u64) -> &AtomicU64 {
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
        // The place that is written next is never read.
        ring: (0..(frames + 1).next_power_of_two()).map(|_| AtomicU64::new(0)).collect(),
        entered: AtomicU64::new(0),
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

    /// Enters the frame that lies in `cell`, as the newest.
    #[inline]
    pub fn push(&mut self, cell: Cell) {
        let number = self.shared.entered.load(Ordering::Relaxed);
        // A reader that sees this cell also sees every frame before it as entered.
        self.shared.place(number).store(cell.0, Ordering::Release);
        self.shared.entered.store(number + 1, Ordering::Release);
    }
}

/// What an intake had for its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The next frame; it was copied.
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

impl IntakeReader {
    /// Goes to the next frame and copies it to `out`, which holds nothing of value unless this
    /// gives [`Next::Frame`].
    ///
    /// # Panics
    /// When `out` is longer than a frame.
    pub fn copy_next(&mut self, out: &mut [u8]) -> Next {
        let shared = &*self.shared;
        let Some(cells) = shared.cells.get() else { return Next::Nothing };
        let entered = shared.entered.load(Ordering::Acquire);
        if self.next == entered {
            return Next::Nothing;
        }
        let cell = Cell(shared.place(self.next).load(Ordering::Acquire));
        // Looked at after the cell: a cell that was replaced before it was read is noticed here.
        let behind = shared.entered.load(Ordering::Relaxed) - self.next;
        let held = shared.ring.len() as u64 - 1;
        if behind > held {
            self.next += behind - held;
            return Next::Lost(behind - held);
        }
        self.next += 1;
        match cells.copy(cell, out) {
            Ok(()) => Next::Frame,
            Err(Overwritten) => Next::Lost(1),
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
        writer.push(producer.land(&value.to_le_bytes().repeat(BYTES / 8)));
    }

    /// A clop of `cells` cells and an intake that remembers `frames` frames.
    fn bench(cells: usize, frames: usize) -> (Producer, IntakeWriter, IntakeReader) {
        let (producer, cells) = clop(Geometry { cell_bytes: BYTES, cells }).unwrap();
        let (mut writer, reader) = intake(frames);
        writer.attach(cells);
        (producer, writer, reader)
    }

    /// What the frame holds, if it is whole.
    fn value(frame: &[u8]) -> u64 {
        assert!(frame.chunks_exact(8).all(|word| word == &frame[..8]), "torn frame believed");
        u64::from_le_bytes(frame[..8].try_into().unwrap())
    }

    #[test]
    fn frames_come_in_the_order_in_which_they_were_entered() {
        let (mut producer, mut writer, mut reader) = bench(8, 8);
        let mut frame = [0; BYTES];
        assert_eq!(reader.copy_next(&mut frame), Next::Nothing);
        for number in 0..100 {
            land(&mut producer, &mut writer, number);
            assert_eq!((reader.copy_next(&mut frame), value(&frame)), (Next::Frame, number));
            assert_eq!(reader.copy_next(&mut frame), Next::Nothing);
        }
    }

    #[test]
    fn a_reader_before_the_first_frame_finds_nothing() {
        let (_writer, mut reader) = intake(4);
        assert_eq!(reader.copy_next(&mut [0; BYTES]), Next::Nothing);
    }

    #[test]
    fn frames_that_were_overwritten_are_lost_one_by_one() {
        // Frames of others take half of the cells, so the intake remembers more than there are.
        let (mut producer, mut writer, mut reader) = bench(8, 15);
        for number in 0..15 {
            land(&mut producer, &mut writer, number);
        }
        let mut frame = [0; BYTES];
        let found: Vec<_> = (0..16).map(|_| reader.copy_next(&mut frame)).collect();
        assert_eq!(found[..7], [Next::Lost(1); 7]);
        assert_eq!(found[7..15], [Next::Frame; 8]);
        assert_eq!((found[15], value(&frame)), (Next::Nothing, 14));
    }

    #[test]
    fn frames_that_were_forgotten_are_lost_at_once() {
        let (mut producer, mut writer, mut reader) = bench(64, 7);
        for number in 0..20 {
            land(&mut producer, &mut writer, number);
        }
        let mut frame = [0; BYTES];
        assert_eq!(reader.copy_next(&mut frame), Next::Lost(13));
        assert_eq!((reader.copy_next(&mut frame), value(&frame)), (Next::Frame, 13));
    }

    #[test]
    fn every_frame_is_copied_in_its_order_or_lost_while_the_writer_runs_ahead() {
        const FRAMES: u64 = 200_000;
        // The intake is shorter than the ring of cells: cells that are replaced are intact ones.
        let (mut producer, mut writer, mut reader) = bench(64, 7);
        let watcher = thread::spawn(move || {
            let (mut next, mut seen, mut frame) = (0, 0, [0; BYTES]);
            while next < FRAMES {
                match reader.copy_next(&mut frame) {
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
