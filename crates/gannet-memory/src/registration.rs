//! Registered buffers: which virtual addresses of which process a network interface may reach.
//!
//! A process registers a buffer before a far node may PUT to it or GET from it; registering pins
//! its pages and tells where they lie. [`RegisteredBuffers`] is the table that the slow path of an
//! address translation walks; [`Tlb`](crate::tlb::Tlb) keeps its answers.
//!
//! Buffers are kept by whole pages, as they are pinned: two buffers of a process may not share a
//! page. Access is still checked to the byte.

use thiserror::Error;

use crate::tlb::{ADDRESS_BITS, Mapping, PageSize, Refusal};

/// A buffer to be registered.
#[derive(Clone, Copy, Debug)]
pub struct Registration<'a> {
    /// Process that owns the buffer.
    pub process: u16,
    /// Virtual address of its first byte; it need not begin a page.
    pub start: u64,
    /// Bytes.
    pub length: u64,
    /// Whether far nodes may write it.
    pub writable: bool,
    /// Physical addresses of its pages, each a multiple of the page size.
    pub pages: &'a [u64],
}

/// Why a buffer cannot be registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The buffer holds no bytes, or ends after the last virtual address.
    #[error("{length} bytes from {start:#x} are no buffer within {ADDRESS_BITS} bits of address")]
    Range {
        /// Virtual address asked for.
        start: u64,
        /// Bytes asked for.
        length: u64,
    },
    /// The list of pages does not fit the buffer.
    #[error("the buffer covers {expected} pages, but {got} were given")]
    Pages {
        /// Pages that the buffer touches.
        expected: u64,
        /// Pages in the list.
        got: usize,
    },
    /// A page does not begin at a multiple of the page size.
    #[error("no page begins at physical address {0:#x}")]
    Unaligned(u64),
    /// Another buffer of the process uses one of the pages.
    #[error("a page of the buffer is already registered; deregister the buffer at {0:#x} first")]
    Overlap(u64),
    /// The table is full.
    #[error("{buffers_max} buffers are registered; deregister one or allow more")]
    TooManyBuffers {
        /// Most buffers of the table.
        buffers_max: usize,
    },
    /// The table has no room for so many pages.
    #[error(
        "{free} of {pages_max} pages are free; deregister buffers, use larger pages or allow more"
    )]
    TooManyPages {
        /// Pages not in use.
        free: usize,
        /// Most pages of the table.
        pages_max: usize,
    },
}

#[derive(Clone, Copy, Debug)]
struct Buffer {
    process: u16,
    start: u64,
    length: u64,
    writable: bool,
    /// Number of its first page.
    first_page: u64,
    /// Where its pages begin in the list of all pages.
    pages_at: usize,
    pages: usize,
}

/// The table of registered buffers. Nothing is allocated after construction.
#[derive(Clone, Debug)]
pub struct RegisteredBuffers {
    page_size: PageSize,
    buffers_max: usize,
    pages_max: usize,
    /// By process, then by address.
    buffers: Vec<Buffer>,
    /// Physical addresses of the pages of all buffers.
    pages: Vec<u64>,
}

impl RegisteredBuffers {
    /// An empty table with room for `buffers_max` buffers of together `pages_max` pages.
    pub fn new(page_size: PageSize, buffers_max: usize, pages_max: usize) -> Self {
        Self {
            page_size,
            buffers_max,
            pages_max,
            buffers: Vec::with_capacity(buffers_max),
            pages: Vec::with_capacity(pages_max),
        }
    }

    /// The page size of all buffers.
    pub fn page_size(&self) -> PageSize {
        self.page_size
    }

    /// Number of buffers registered.
    pub fn len(&self) -> usize {
        self.buffers.len()
    }

    /// Whether no buffer is registered.
    pub fn is_empty(&self) -> bool {
        self.buffers.is_empty()
    }

    /// Adds a buffer.
    ///
    /// # Errors
    /// When the buffer is no valid range, its pages do not fit it or are in use, or the table is
    /// full.
    pub fn register(&mut self, new: &Registration) -> Result<(), RegisterError> {
        let numbers = self.page_numbers(new.start, new.length)?;
        let expected = numbers.end - numbers.start;
        if expected != new.pages.len() as u64 {
            return Err(RegisterError::Pages { expected, got: new.pages.len() });
        }
        if let Some(&page) = new.pages.iter().find(|&&page| self.page_size.offset(page) != 0) {
            return Err(RegisterError::Unaligned(page));
        }
        let at = self
            .buffers
            .partition_point(|old| (old.process, old.first_page) < (new.process, numbers.end));
        if let Some(old) = at.checked_sub(1).map(|before| &self.buffers[before])
            && old.process == new.process
            && old.first_page + old.pages as u64 > numbers.start
        {
            return Err(RegisterError::Overlap(old.start));
        }
        self.check_room(new.pages.len())?;
        let buffer = Buffer {
            process: new.process,
            start: new.start,
            length: new.length,
            writable: new.writable,
            first_page: numbers.start,
            pages_at: self.pages.len(),
            pages: new.pages.len(),
        };
        self.buffers.insert(at, buffer);
        self.pages.extend_from_slice(new.pages);
        Ok(())
    }

    /// Removes the buffer that starts at `start`; gives its page numbers, to be invalidated.
    pub fn deregister(&mut self, process: u16, start: u64) -> Option<std::ops::Range<u64>> {
        let at = self.position(process, self.page_size.page(start))?;
        if self.buffers[at].start != start {
            return None;
        }
        let gone = self.buffers.remove(at);
        self.pages.drain(gone.pages_at..gone.pages_at + gone.pages);
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.pages_at > gone.pages_at) {
            buffer.pages_at -= gone.pages;
        }
        Some(gone.first_page..gone.first_page + gone.pages as u64)
    }

    /// The translation of the page with number `page` (not an address).
    ///
    /// # Errors
    /// [`Refusal::Unknown`] when no buffer of the process has the page.
    pub fn walk(&self, process: u16, page: u64) -> Result<Mapping, Refusal> {
        let buffer = &self.buffers[self.position(process, page).ok_or(Refusal::Unknown)?];
        let page_start = page << self.page_size.bits();
        let first = buffer.start.saturating_sub(page_start);
        let end = (buffer.start + buffer.length - page_start).min(self.page_size.bytes());
        let index = buffer.pages_at + (page - buffer.first_page) as usize;
        Ok(Mapping {
            physical: self.pages[index],
            first: first as u32,
            end: end as u32,
            writable: buffer.writable,
        })
    }

    /// Whether all of `length` bytes from `address` may be accessed.
    ///
    /// # Errors
    /// What forbids it.
    pub fn check(
        &self,
        process: u16,
        address: u64,
        length: u64,
        write: bool,
    ) -> Result<(), Refusal> {
        let at = self.position(process, self.page_size.page(address)).ok_or(Refusal::Unknown)?;
        let buffer = &self.buffers[at];
        let inside = address
            .checked_sub(buffer.start)
            .and_then(|offset| offset.checked_add(length))
            .is_some_and(|end| end <= buffer.length);
        match inside {
            false => Err(Refusal::OutOfRange),
            true if write && !buffer.writable => Err(Refusal::ReadOnly),
            true => Ok(()),
        }
    }

    /// Index of the buffer that has page `page`.
    fn position(&self, process: u16, page: u64) -> Option<usize> {
        let after =
            self.buffers.partition_point(|old| (old.process, old.first_page) <= (process, page));
        let at = after.checked_sub(1)?;
        let buffer = &self.buffers[at];
        let holds = buffer.process == process && page - buffer.first_page < buffer.pages as u64;
        holds.then_some(at)
    }

    fn page_numbers(&self, start: u64, length: u64) -> Result<std::ops::Range<u64>, RegisterError> {
        let refuse = RegisterError::Range { start, length };
        let end = start.checked_add(length).filter(|&end| end <= 1 << ADDRESS_BITS);
        match end {
            Some(end) if length > 0 => {
                Ok(self.page_size.page(start)..self.page_size.page(end - 1) + 1)
            }
            _ => Err(refuse),
        }
    }

    fn check_room(&self, pages: usize) -> Result<(), RegisterError> {
        let free = self.pages_max - self.pages.len();
        if self.buffers.len() == self.buffers_max {
            return Err(RegisterError::TooManyBuffers { buffers_max: self.buffers_max });
        }
        if pages > free {
            return Err(RegisterError::TooManyPages { free, pages_max: self.pages_max });
        }
        Ok(())
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn table() -> RegisteredBuffers {
        RegisteredBuffers::new(PageSize::KiB4, 4, 8)
    }

    fn buffer(start: u64, length: u64, pages: &[u64]) -> Registration<'_> {
        Registration { process: 1, start, length, writable: true, pages }
    }

    #[test]
    fn pages_are_found_and_bytes_outside_are_not() {
        let mut table = table();
        table.register(&buffer(0x1800, 0x1000, &[0x9000, 0x4000])).unwrap();
        let first = Mapping { physical: 0x9000, first: 0x800, end: 0x1000, writable: true };
        let second = Mapping { physical: 0x4000, first: 0, end: 0x800, writable: true };
        assert_eq!(table.walk(1, 1), Ok(first));
        assert_eq!(table.walk(1, 2), Ok(second));
        assert_eq!(table.walk(1, 3), Err(Refusal::Unknown));
        assert_eq!(table.walk(2, 1), Err(Refusal::Unknown));
        assert_eq!(table.check(1, 0x1800, 0x1000, true), Ok(()));
        assert_eq!(table.check(1, 0x17ff, 2, true), Err(Refusal::OutOfRange));
        assert_eq!(table.check(1, 0x2000, 0x801, true), Err(Refusal::OutOfRange));
        assert_eq!(table.check(1, 0x2000, u64::MAX, true), Err(Refusal::OutOfRange));
        assert_eq!(table.check(1, 0x5000, 1, true), Err(Refusal::Unknown));
    }

    #[test]
    fn a_read_only_buffer_refuses_to_be_written() {
        let mut table = table();
        let read_only = Registration { writable: false, ..buffer(0, 100, &[0]) };
        table.register(&read_only).unwrap();
        assert_eq!(table.check(1, 0, 100, false), Ok(()));
        assert_eq!(table.check(1, 0, 100, true), Err(Refusal::ReadOnly));
        assert_eq!(table.walk(1, 0).unwrap().resolve(0, 1, true), Err(Refusal::ReadOnly));
    }

    #[test]
    fn what_is_no_buffer_is_refused_by_name() {
        let mut table = table();
        let refusal = |table: &mut RegisteredBuffers, new| table.register(&new).unwrap_err();
        let range = |start, length| RegisterError::Range { start, length };
        assert_eq!(refusal(&mut table, buffer(5, 0, &[])), range(5, 0));
        assert_eq!(refusal(&mut table, buffer(1 << 48, 1, &[0])), range(1 << 48, 1));
        assert_eq!(refusal(&mut table, buffer(9, u64::MAX, &[0])), range(9, u64::MAX));
        let pages = RegisterError::Pages { expected: 2, got: 1 };
        assert_eq!(refusal(&mut table, buffer(0, 4097, &[0])), pages);
        assert_eq!(refusal(&mut table, buffer(0, 1, &[1])), RegisterError::Unaligned(1));
        table.register(&buffer(0x1000, 1, &[0])).unwrap();
        for (start, length, pages) in
            [(0x1fff, 1, &[0][..]), (0, 0x1001, &[0, 0]), (0, 0x9000, &[0; 9])]
        {
            let refused = refusal(&mut table, buffer(start, length, pages));
            assert_eq!(refused, RegisterError::Overlap(0x1000));
        }
        let too_many = RegisterError::TooManyPages { free: 7, pages_max: 8 };
        assert_eq!(refusal(&mut table, buffer(0x10000, 0x8000, &[0; 8])), too_many);
        for start in [0x2000, 0x3000, 0x4000] {
            table.register(&buffer(start, 1, &[0])).unwrap();
        }
        let full = RegisterError::TooManyBuffers { buffers_max: 4 };
        assert_eq!(refusal(&mut table, buffer(0x5000, 1, &[0])), full);
    }

    proptest! {
        #[test]
        fn agrees_with_a_map_of_pages(
            steps in proptest::collection::vec((any::<bool>(), 0u16..2, 0u64..24, 1u64..4), 1..80),
        ) {
            let mut table = RegisteredBuffers::new(PageSize::KiB64, 6, 12);
            let mut pages = HashMap::new();
            let mut buffers = HashMap::new();
            for (number, &(add, process, page, count)) in steps.iter().enumerate() {
                let start = page << 16;
                if add {
                    let frames: Vec<u64> =
                        (0..count).map(|index| (number as u64 * 4 + index) << 16).collect();
                    let new = Registration {
                        process, start, length: count << 16, writable: true, pages: &frames,
                    };
                    let fits = (page..page + count).all(|page| !pages.contains_key(&(process, page)))
                        && buffers.len() < 6
                        && pages.len() + frames.len() <= 12;
                    prop_assert_eq!(table.register(&new).is_ok(), fits);
                    if fits {
                        buffers.insert((process, page), count);
                        pages.extend((0..count).map(|i| ((process, page + i), frames[i as usize])));
                    }
                } else {
                    let count = buffers.remove(&(process, page));
                    let gone = table.deregister(process, start);
                    prop_assert_eq!(gone, count.map(|count| page..page + count));
                    for index in 0..count.unwrap_or(0) {
                        pages.remove(&(process, page + index));
                    }
                }
                for process in 0..2 {
                    for page in 0..28 {
                        let found = table.walk(process, page).map(|mapping| mapping.physical).ok();
                        prop_assert_eq!(found, pages.get(&(process, page)).copied());
                    }
                }
            }
        }
    }
}
