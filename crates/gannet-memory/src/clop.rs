//! The circular list of persistent buffers: where frames land, once, and stay until overwritten.
//!
//! Memory is divided into equal *cells*, one per frame, which are used in turn for ever. Cell
//! numbers ([`Cell`]) only grow: number `n` lives where number `n - capacity` lived before. Two
//! counters describe the whole state:
//!
//! ```text
//!            oldest intact             committed          reserved
//!                  v                       v                  v
//!  .. overwritten  |   frames, readable    |  being written   |  not yet used ..
//!                  '---------------- capacity ---------------'
//! ```
//!
//! A cell is intact while `reserved <= cell + capacity`, that is, while nobody has been given
//! leave to write over it. That one comparison is the generation check: a reader copies first and
//! compares afterwards, so it never blocks the producer and never believes torn bytes.
//!
//! Cells lie in *slots* of consecutive cells. A slot may begin with head-room that an input engine
//! needs before the data (io_uring writes a header there). An engine without such needs uses a
//! single slot that holds the whole ring.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::region::{Pages, Region, RegionError};

/// Number of a cell since the start; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(pub u64);

/// How a ring of cells is laid over memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of one cell: the frame length of the source.
    pub cell_bytes: usize,
    /// Consecutive cells in one slot.
    pub slot_cells: usize,
    /// Bytes before the first cell of each slot.
    pub headroom_bytes: usize,
    /// Bytes after the last cell of each slot, for what arrives longer than it should.
    pub tailroom_bytes: usize,
    /// Number of slots.
    pub slots: usize,
}

impl Geometry {
    /// A single slot of `cells` cells without head-room.
    pub const fn plain(cell_bytes: usize, cells: usize) -> Self {
        Self { cell_bytes, slot_cells: cells, headroom_bytes: 0, tailroom_bytes: 0, slots: 1 }
    }

    /// Bytes from one slot to the next.
    pub const fn slot_bytes(&self) -> usize {
        self.headroom_bytes + self.slot_cells * self.cell_bytes + self.tailroom_bytes
    }

    /// Number of cells in the ring.
    pub const fn capacity(&self) -> u64 {
        (self.slot_cells * self.slots) as u64
    }

    /// Offset in the region at which `cell` begins.
    pub(crate) fn offset(&self, cell: Cell) -> usize {
        let index = (cell.0 % self.capacity()) as usize;
        let (slot, within) = (index / self.slot_cells, index % self.slot_cells);
        slot * self.slot_bytes() + self.headroom_bytes + within * self.cell_bytes
    }
}

/// The frame was overwritten before or while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame was overwritten by newer data")]
pub struct Overwritten;

/// What producer and readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) region: Region,
    pub(crate) geometry: Geometry,
    /// First cell that nobody has leave to write.
    reserved: AtomicU64,
    /// First cell that does not hold a frame yet.
    committed: AtomicU64,
}

/// Makes a ring of cells with the given layout: its one writer and a first reader.
///
/// # Errors
/// When the memory cannot be had.
///
/// # Panics
/// When the layout has no cells or cells of no bytes.
pub fn clop(geometry: Geometry) -> Result<(Producer, Reader), RegionError> {
    assert!(geometry.capacity() > 0 && geometry.cell_bytes > 0, "a clop needs cells");
    let shared = Arc::new(Shared {
        region: Region::map(geometry.slot_bytes() * geometry.slots)?,
        geometry,
        reserved: AtomicU64::new(0),
        committed: AtomicU64::new(0),
    });
    Ok((Producer { shared: Arc::clone(&shared) }, Reader { shared }))
}

/// The one writer of a clop.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
}

impl Producer {
    /// Layout of the ring.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// Kind of pages behind the ring.
    pub fn pages(&self) -> Pages {
        self.shared.region.pages()
    }

    /// A further reader.
    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::clone(&self.shared) }
    }

    /// First cell that does not hold a frame yet: where the next frame belongs.
    pub fn head(&self) -> Cell {
        Cell(self.shared.committed.load(Ordering::Relaxed))
    }

    /// Takes leave to write all cells before `end`; what they held before is gone for readers.
    ///
    /// # Panics
    /// When more than the whole ring would be open for writing at once.
    pub fn reserve_to(&mut self, end: Cell) {
        let head = self.head();
        assert!(end.0 <= head.0 + self.shared.geometry.capacity(), "the ring is too small");
        if end.0 > self.shared.reserved.load(Ordering::Relaxed) {
            self.shared.reserved.store(end.0, Ordering::Relaxed);
            // Readers must see the reservation before any byte changes.
            fence(Ordering::SeqCst);
        }
    }

    /// Publishes every cell before `end` to the readers.
    ///
    /// # Panics
    /// When cells would be published that were not reserved, or the head would move back.
    pub fn commit_to(&mut self, end: Cell) {
        let reserved = self.shared.reserved.load(Ordering::Relaxed);
        assert!(self.head() <= end && end.0 <= reserved, "commit outside the reservation");
        self.shared.committed.store(end.0, Ordering::Release);
    }

    /// Bytes of the cell at the head, for a source that copies frames in.
    ///
    /// # Panics
    /// When that cell is not reserved.
    pub fn head_bytes_mut(&mut self) -> &mut [u8] {
        let head = self.head();
        assert!(head.0 < self.shared.reserved.load(Ordering::Relaxed), "cell is not reserved");
        self.shared.writable(head)
    }

    /// First `len` bytes of a committed cell.
    ///
    /// # Panics
    /// When the cell is not committed, is overwritten, or is shorter than `len`.
    #[inline]
    pub fn bytes(&self, cell: Cell, len: usize) -> &[u8] {
        assert!(cell < self.head() && self.shared.intact(cell), "cell holds no frame");
        assert!(len <= self.shared.geometry.cell_bytes, "longer than a cell");
        self.shared.readable(cell, len)
    }

    /// Region behind the ring and the offset of a cell in it, for input engines that let the
    /// kernel write.
    pub fn place(&self, cell: Cell) -> (&Region, usize) {
        (&self.shared.region, self.shared.geometry.offset(cell))
    }
}

/// Reads frames out of a clop while its producer goes on.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    /// Layout of the ring.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// Whether `cell` still holds the frame that was landed in it.
    #[inline]
    pub fn is_intact(&self, cell: Cell) -> bool {
        cell.0 < self.shared.committed.load(Ordering::Acquire) && self.shared.intact(cell)
    }

    /// Copies the first `out.len()` bytes of `cell`.
    ///
    /// # Errors
    /// [`Overwritten`] when the frame was overwritten before the copy was complete; `out` then
    /// holds nothing of value.
    ///
    /// # Panics
    /// When `out` is longer than a cell.
    pub fn copy(&self, cell: Cell, out: &mut [u8]) -> Result<(), Overwritten> {
        assert!(out.len() <= self.shared.geometry.cell_bytes, "longer than a cell");
        if !self.is_intact(cell) {
            return Err(Overwritten);
        }
        self.shared.region.copy_out(self.shared.geometry.offset(cell), out);
        if self.shared.intact(cell) { Ok(()) } else { Err(Overwritten) }
    }

    /// Oldest cell that is still intact, and the cell after the newest.
    pub fn extent(&self) -> (Cell, Cell) {
        let committed = self.shared.committed.load(Ordering::Acquire);
        let reserved = self.shared.reserved.load(Ordering::Relaxed);
        let oldest = reserved.saturating_sub(self.shared.geometry.capacity());
        (Cell(oldest.min(committed)), Cell(committed))
    }
}

impl Shared {
    #[inline]
    fn intact(&self, cell: Cell) -> bool {
        self.reserved.load(Ordering::Relaxed) <= cell.0 + self.geometry.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    /// Lands one frame whose every byte is `value`.
    fn land(producer: &mut Producer, value: u8) -> Cell {
        let cell = producer.head();
        producer.reserve_to(Cell(cell.0 + 1));
        producer.head_bytes_mut().fill(value);
        producer.commit_to(Cell(cell.0 + 1));
        cell
    }

    #[test]
    fn a_frame_stays_readable_until_its_cell_is_reserved_again() {
        let (mut producer, reader) = clop(Geometry::plain(64, 4)).unwrap();
        let first = land(&mut producer, 1);
        (2..=4).for_each(|value| _ = land(&mut producer, value));
        let mut bytes = [0; 64];
        assert_eq!(reader.copy(first, &mut bytes), Ok(()));
        assert_eq!(bytes, [1; 64]);
        assert_eq!(reader.extent(), (Cell(0), Cell(4)));
        producer.reserve_to(Cell(5));
        assert_eq!(reader.copy(first, &mut bytes), Err(Overwritten));
        assert_eq!(reader.extent(), (Cell(1), Cell(4)));
        assert!(!reader.is_intact(Cell(4)), "reserved is not yet committed");
    }

    #[test]
    #[should_panic(expected = "the ring is too small")]
    fn more_than_the_ring_cannot_be_open_for_writing() {
        let (mut producer, _reader) = clop(Geometry::plain(64, 4)).unwrap();
        producer.reserve_to(Cell(5));
    }

    #[test]
    #[should_panic(expected = "cell holds no frame")]
    fn the_producer_cannot_read_what_it_gave_away() {
        let (mut producer, _reader) = clop(Geometry::plain(64, 2)).unwrap();
        land(&mut producer, 1);
        producer.reserve_to(Cell(3));
        producer.bytes(Cell(0), 64);
    }

    proptest! {
        #[test]
        fn cells_never_overlap_and_stay_inside(
            cell_bytes in 1usize..100, slot_cells in 1usize..9, headroom_bytes in 0usize..200,
            tailroom_bytes in 0usize..50, slots in 1usize..9,
        ) {
            let geometry = Geometry { cell_bytes, slot_cells, headroom_bytes, tailroom_bytes, slots };
            let mut end = 0;
            for cell in 0..geometry.capacity() {
                let offset = geometry.offset(Cell(cell));
                let gap = if cell % slot_cells as u64 == 0 { headroom_bytes } else { 0 };
                prop_assert!(offset >= end + gap);
                end = offset + cell_bytes;
                prop_assert_eq!(offset, geometry.offset(Cell(cell + geometry.capacity())));
            }
            prop_assert!(end + tailroom_bytes <= geometry.slot_bytes() * slots);
        }
    }

    #[test]
    fn a_reader_never_believes_a_torn_frame() {
        let (mut producer, reader) = clop(Geometry::plain(4096, 8)).unwrap();
        let watcher = thread::spawn(move || {
            let (mut seen, mut lost, mut bytes) = (0u64, 0u64, vec![0; 4096]);
            while seen + lost < 200_000 {
                // The oldest cell is the one most likely to be overwritten during the copy.
                let (oldest, head) = reader.extent();
                if oldest == head {
                    continue;
                }
                match reader.copy(oldest, &mut bytes) {
                    Ok(()) => {
                        seen += 1;
                        let expected = oldest.0 as u8;
                        assert!(bytes.iter().all(|byte| *byte == expected), "torn frame believed");
                    }
                    Err(Overwritten) => lost += 1,
                }
            }
        });
        while !watcher.is_finished() {
            let value = producer.head().0 as u8;
            land(&mut producer, value);
        }
        watcher.join().unwrap();
    }
}
