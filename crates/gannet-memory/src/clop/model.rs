//! Every interleaving of a producer, who writes on its behalf, and readers, as far as the memory model allows it:
//! `cargo xtask test` runs it with `--cfg loom`.

use std::sync::atomic::AtomicU64 as Count;

use loom::thread;

use super::*;
use crate::sync::atomic::{AtomicU64, Ordering};

/// The end of one cell and the begin of the next lie in one word.
const CELL_BYTES: usize = 12;

type Frame = [u8; CELL_BYTES];

/// What lands in a cell.
fn frame(cell: u64) -> Frame {
    [cell as u8 + 1; CELL_BYTES]
}

/// How many copies were believed, and how many were not: a model that does not come to both proves nothing.
#[derive(Default)]
struct Counts {
    believed: Count,
    refused: Count,
}

impl Counts {
    /// Copies a cell, and asserts that a copy that is believed is of its frame.
    fn copy(&self, reader: &Reader, cell: u64) {
        let mut bytes = Frame::default();
        let copied = reader.copy(Cell(cell), &mut bytes);
        let count = if copied.is_ok() { &self.believed } else { &self.refused };
        count.fetch_add(1, Ordering::Relaxed);
        assert!(copied.is_err() || bytes == frame(cell), "cell {cell} was {bytes:?}");
    }
}

/// Runs a model of a clop over shared memory, which somebody else can write, too.
fn model(
    cells: usize,
    run: impl Fn(&std::sync::Arc<Counts>, Producer, Reader, SharedRegion) + Sync + Send + 'static,
) {
    let counts = std::sync::Arc::new(Counts::default());
    let counted = std::sync::Arc::clone(&counts);
    loom::model(move || {
        let geometry = Geometry { cell_bytes: CELL_BYTES, cells };
        let (here, there) = SharedRegion::two(geometry.bytes());
        let (producer, reader) = clop_over(here, geometry);
        run(&counts, producer, reader, there);
    });
    let Counts { believed, refused } = &*counted;
    println!("{believed:?} believed, {refused:?} refused");
    assert!(believed.load(Ordering::Relaxed) > 100 && refused.load(Ordering::Relaxed) > 100);
}

#[test]
fn no_reader_believes_a_torn_or_foreign_frame() {
    const FRAMES: u64 = 3;
    model(2, |counts, mut producer, reader, _| {
        let lands = thread::spawn(move || {
            (0..FRAMES).for_each(|cell| _ = producer.land(&frame(cell)));
        });
        let (oldest, head) = reader.extent();
        assert!(oldest <= head && head <= Cell(FRAMES));
        (0..2).for_each(|cell| counts.copy(&reader, cell));
        lands.join().unwrap();
        assert_eq!(reader.extent(), (Cell(1), Cell(3)));
        let mut bytes = Frame::default();
        assert_eq!(reader.copy(Cell(2), &mut bytes), Ok(()));
        assert_eq!(bytes, frame(2));
        assert_eq!(reader.copy(Cell(0), &mut bytes), Err(Overwritten));
    });
}

/// Leave and word of what was written go by a flag each, as they go by rings of events.
#[test]
fn no_reader_believes_what_a_sender_is_writing() {
    model(1, |counts, mut producer, reader, region| {
        let geometry = producer.geometry();
        producer.land(&frame(0));
        let leave = Arc::new(AtomicU64::new(0));
        let sent = Arc::new(AtomicU64::new(0));
        let wait = |flag: &AtomicU64| {
            while flag.load(Ordering::Acquire) == 0 {
                thread::yield_now();
            }
        };
        let sender = thread::spawn({
            let (leave, sent) = (Arc::clone(&leave), Arc::clone(&sent));
            move || {
                wait(&leave);
                region.write(geometry.offset(Cell(1)), &frame(1));
                sent.store(1, Ordering::Release);
            }
        });
        let looks = thread::spawn({
            let counts = std::sync::Arc::clone(counts);
            move || (0..2).for_each(|cell| counts.copy(&reader, cell))
        });
        producer.reserve_to(Cell(2));
        leave.store(1, Ordering::Release);
        wait(&sent);
        producer.commit_to(Cell(2));
        (sender.join().unwrap(), looks.join().unwrap());
    });
}
