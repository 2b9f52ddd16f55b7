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

use std::ptr::NonNull;

use crate::sync::Arc;
use crate::sys::mapping::Mapping;
use crate::sys::region::{Pages, Region, RegionError};
use crate::sys::shared::{Access, SharedRegion};
use crate::window::{Window, Writer};

/// Number of a cell since the start; never reused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell(pub u64);

/// How a clop is divided into cells, which lie one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes of one cell: the length of the longest frame.
    pub cell_bytes: usize,
    /// Number of cells.
    pub cells: usize,
}

impl Geometry {
    /// Bytes of all cells.
    pub const fn bytes(&self) -> usize {
        self.cells * self.cell_bytes
    }

    /// Number of cells, as cells are counted.
    pub const fn capacity(&self) -> u64 {
        self.cells as u64
    }

    /// Offset in the region at which `cell` begins.
    pub(crate) fn offset(&self, cell: Cell) -> usize {
        (cell.0 % self.capacity()) as usize * self.cell_bytes
    }
}

/// The frame was overwritten before or while it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the frame was overwritten by newer data")]
pub struct Overwritten;

/// What producer and readers share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) mapping: Mapping,
    pages: Pages,
    pub(crate) geometry: Geometry,
    pub(crate) window: Window,
}

/// Makes a clop with the given layout: its one writer and a first reader.
///
/// # Errors
/// When the memory cannot be had.
///
/// # Panics
/// When the layout has no cells or cells of no bytes.
pub fn clop(geometry: Geometry) -> Result<(Producer, Reader), RegionError> {
    assert!(geometry.cells > 0 && geometry.cell_bytes > 0, "a clop needs cells");
    let region = Region::map(geometry.bytes())?;
    let pages = region.pages();
    Ok(Shared::split(region.into_mapping(), pages, geometry))
}

/// Lays a clop over the begin of memory that other processes may map too, and write on behalf of the
/// producer: cells that are reserved and not yet committed, and no others. Who is given the region for
/// writing is trusted with that.
///
/// # Panics
/// When the layout has no cells or cells of no bytes, or the region is shorter or may only be read.
pub fn clop_over(region: SharedRegion, geometry: Geometry) -> (Producer, Reader) {
    assert!(geometry.cells > 0 && geometry.cell_bytes > 0, "a clop needs cells");
    assert!(region.len() >= geometry.bytes(), "the region is shorter than the clop");
    assert!(region.access() == Access::Write, "the region may only be read");
    Shared::split(region.into_mapping(), Pages::Shared, geometry)
}

impl Shared {
    /// The writer and a first reader.
    fn split(mapping: Mapping, pages: Pages, geometry: Geometry) -> (Producer, Reader) {
        let window = Window::new(geometry.capacity());
        let shared = Arc::new(Self { mapping, pages, geometry, window });
        let writer = Writer::default();
        (Producer { shared: Arc::clone(&shared), writer }, Reader { shared })
    }
}

/// The one writer of a clop.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    writer: Writer,
}

impl Producer {
    /// Layout of the clop.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// Kind of pages behind the clop.
    pub fn pages(&self) -> Pages {
        self.shared.pages
    }

    /// A further reader.
    pub fn reader(&self) -> Reader {
        Reader { shared: Arc::clone(&self.shared) }
    }

    /// First cell that does not hold a frame yet: where the next frame belongs.
    pub fn head(&self) -> Cell {
        Cell(self.writer.head())
    }

    /// Takes leave to write all cells before `end`; what they held before is gone for readers.
    ///
    /// # Panics
    /// When more than the whole ring would be open for writing at once.
    pub fn reserve_to(&mut self, end: Cell) {
        self.writer.reserve_to(&self.shared.window, end.0);
    }

    /// Publishes every cell before `end` to the readers.
    ///
    /// # Panics
    /// When cells would be published that were not reserved, or the head would move back.
    pub fn commit_to(&mut self, end: Cell) {
        self.writer.commit_to(&self.shared.window, end.0);
    }

    /// Copies a frame into the cell at the head and publishes it. What of the cell is beyond the
    /// frame keeps the bytes it had.
    ///
    /// # Panics
    /// When the frame is longer than a cell.
    pub fn land(&mut self, frame: &[u8]) -> Cell {
        let head = self.head();
        let Shared { mapping, geometry, window, .. } = &*self.shared;
        assert!(frame.len() <= geometry.cell_bytes, "longer than a cell");
        self.writer.reserve_to(window, head.0 + 1);
        mapping.store(geometry.offset(head), frame);
        self.writer.commit_to(window, head.0 + 1);
        head
    }

    /// Copies the bytes of one open cell into another.
    ///
    /// # Panics
    /// When one of them is not reserved or is published already.
    pub fn move_open(&mut self, from: Cell, to: Cell) {
        let Shared { mapping, geometry, .. } = &*self.shared;
        let is_open = |cell: Cell| self.writer.is_open(cell.0);
        assert!(is_open(from) && is_open(to), "cell is not open");
        mapping.copy_within(geometry.offset(from), geometry.offset(to), geometry.cell_bytes);
    }

    /// Address of `count` consecutive open cells from `cell` on, for the kernel or a device to
    /// write to.
    ///
    /// # Panics
    /// When they are not all open, or go past the end of the ring.
    pub fn place(&mut self, cell: Cell, count: usize) -> NonNull<u8> {
        let Shared { mapping, geometry, .. } = &*self.shared;
        let last = (cell.0 + count as u64).saturating_sub(1);
        let is_open = self.writer.is_open(cell.0) && self.writer.is_open(last);
        assert!(is_open, "cells are not open");
        let offset = geometry.offset(cell);
        let len = count * geometry.cell_bytes;
        assert!(offset + len <= geometry.bytes(), "past the end of the ring");
        mapping.address(offset, len)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// Reads frames out of a clop while its producer goes on.
#[derive(Clone, Debug)]
pub struct Reader {
    shared: Arc<Shared>,
}

impl Reader {
    /// Layout of the clop.
    pub fn geometry(&self) -> Geometry {
        self.shared.geometry
    }

    /// Whether `cell` still holds the frame that was landed in it.
    #[inline]
    pub fn is_intact(&self, cell: Cell) -> bool {
        self.shared.window.is_intact(cell.0)
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
        let Shared { mapping, geometry, window, .. } = &*self.shared;
        assert!(out.len() <= geometry.cell_bytes, "longer than a cell");
        if !window.is_intact(cell.0) {
            return Err(Overwritten);
        }
        mapping.load(geometry.offset(cell), out);
        if window.is_still_intact(cell.0) { Ok(()) } else { Err(Overwritten) }
    }

    /// Oldest cell that is still intact, and the cell after the newest.
    pub fn extent(&self) -> (Cell, Cell) {
        let (oldest, head) = self.shared.window.extent();
        (Cell(oldest), Cell(head))
    }
}

#[cfg(all(test, loom))]
mod model;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::thread;

    fn ring(cell_bytes: usize, cells: usize) -> (Producer, Reader) {
        clop(Geometry { cell_bytes, cells }).unwrap()
    }

    #[test]
    fn a_frame_stays_readable_until_its_cell_is_reserved_again() {
        let (mut producer, reader) = ring(64, 4);
        let first = producer.land(&[1; 64]);
        (2..=4).for_each(|value| _ = producer.land(&[value; 64]));
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
    fn who_has_the_region_writes_open_cells_and_readers_find_them() {
        let geometry = Geometry { cell_bytes: 100, cells: 4 };
        let here = SharedRegion::new(geometry.bytes()).unwrap();
        let bytes = here.len() as u64;
        let attach = || {
            let file = here.descriptor(Access::Write).unwrap();
            SharedRegion::attach(file, bytes, Access::Write).unwrap()
        };
        let (there, (mut producer, reader)) = (attach(), clop_over(attach(), geometry));
        assert_eq!(producer.pages(), Pages::Shared);
        let mut frame = [0; 100];
        for number in 0..9u8 {
            let cell = producer.head();
            producer.reserve_to(Cell(cell.0 + 2));
            there.write(geometry.offset(cell), &[number; 100]);
            assert_eq!(reader.copy(cell, &mut frame), Err(Overwritten), "not yet committed");
            producer.commit_to(Cell(cell.0 + 1));
            assert_eq!(producer.bytes(cell, 100), [number; 100]);
            let looks = std::thread::spawn({
                let reader = reader.clone();
                move || reader.copy(cell, &mut frame).map(|()| frame)
            });
            assert_eq!(looks.join().unwrap(), Ok([number; 100]));
        }
        assert_eq!(reader.extent(), (Cell(6), Cell(9)));
    }

    #[test]
    #[should_panic(expected = "shorter than the clop")]
    fn no_clop_is_laid_over_less_memory_than_it_needs() {
        let geometry = Geometry { cell_bytes: 4096, cells: 3 };
        clop_over(SharedRegion::new(2 * 4096).unwrap(), geometry);
    }

    #[test]
    #[should_panic(expected = "the ring is too small")]
    fn more_than_the_ring_cannot_be_open_for_writing() {
        ring(64, 4).0.reserve_to(Cell(5));
    }

    #[test]
    #[should_panic(expected = "cell holds no frame")]
    fn the_producer_cannot_read_what_it_gave_away() {
        let (mut producer, _reader) = ring(64, 2);
        producer.land(&[1; 64]);
        producer.reserve_to(Cell(3));
        producer.bytes(Cell(0), 64);
    }

    #[test]
    #[should_panic(expected = "cells are not open")]
    fn no_address_is_given_of_a_published_cell() {
        let (mut producer, _reader) = ring(64, 2);
        producer.land(&[1; 64]);
        producer.reserve_to(Cell(2));
        producer.place(Cell(0), 1);
    }

    proptest! {
        /// Cells of any length: words of 8 bytes may hold the end of one and the start of the next.
        #[test]
        fn what_was_landed_or_moved_is_read(
            cell_bytes in 1usize..40, cells in 2usize..7, frames in 1u64..30, seed: u8,
        ) {
            let (mut producer, reader) = ring(cell_bytes, cells);
            let content = |frame: u64| -> Vec<u8> {
                (0..cell_bytes).map(|at| (frame as usize * 31 + at * 7) as u8 ^ seed).collect()
            };
            for frame in 0..frames {
                producer.land(&content(frame));
            }
            let (oldest, head) = reader.extent();
            prop_assert_eq!(head.0 - oldest.0, frames.min(cells as u64));
            for frame in oldest.0..head.0 {
                for len in [cell_bytes, cell_bytes / 2] {
                    let mut out = vec![0; len];
                    reader.copy(Cell(frame), &mut out).unwrap();
                    prop_assert_eq!(&out[..], &content(frame)[..len]);
                    prop_assert_eq!(producer.bytes(Cell(frame), len), &out[..]);
                }
            }
            producer.reserve_to(Cell(head.0 + 2));
            producer.move_open(head, Cell(head.0 + 1));
            producer.commit_to(Cell(head.0 + 2));
            let moved = producer.bytes(Cell(head.0 + 1), cell_bytes);
            prop_assert_eq!(producer.bytes(head, cell_bytes), moved);
            if cells > 2 && frames > 1 {
                let before = content(head.0 - 1);
                prop_assert_eq!(producer.bytes(Cell(head.0 - 1), cell_bytes), &before[..]);
            }
        }
    }

    #[test]
    fn a_reader_never_believes_a_torn_frame() {
        // Miri is slower by five orders of magnitude.
        let looks = if cfg!(miri) { 50 } else { 200_000 };
        let (mut producer, reader) = ring(4096, 8);
        let watcher = thread::spawn(move || {
            let (mut seen, mut lost, mut bytes) = (0u64, 0u64, vec![0; 4096]);
            while seen + lost < looks {
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
        let mut frame = [0; 4096];
        while !watcher.is_finished() {
            frame.fill(producer.head().0 as u8);
            producer.land(&frame);
        }
        watcher.join().unwrap();
    }
}
