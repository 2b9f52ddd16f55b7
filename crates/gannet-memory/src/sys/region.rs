//! Memory of this process alone.
#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::slice;

use super::mapping::Mapping;

/// Size of the huge pages asked for.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// The kind of pages that back a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages of 2 MiB.
    Huge,
    /// Ordinary pages that the kernel was asked to merge into huge ones where it can.
    Transparent,
    /// Ordinary pages.
    Ordinary,
    /// Pages that other processes map, too.
    Shared,
}

impl fmt::Display for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Huge => "2 MiB huge pages",
            Self::Transparent => "transparent huge pages",
            Self::Ordinary => "ordinary pages",
            Self::Shared => "shared pages",
        })
    }
}

/// The operating system refused memory.
#[derive(Debug, thiserror::Error)]
#[error("cannot map {bytes} bytes of memory: {cause}; make the buffer smaller or free memory")]
pub struct RegionError {
    pub(super) bytes: usize,
    #[source]
    pub(super) cause: io::Error,
}

/// Anonymous memory, zeroed and resident from the start, unmapped on drop.
///
/// Whoever owns a region alone uses its bytes as those of any buffer. A clop shares one between a
/// producer, which may let the kernel or a device write behind the back of the language, and readers
/// that copy at the same time; it decides who may look at which bytes when.
#[derive(Debug)]
pub struct Region {
    mapping: Mapping,
    pages: Pages,
}

impl Region {
    /// Maps at least `bytes` bytes, touches every page, and says which pages it got.
    ///
    /// # Errors
    /// When the system has not enough memory or address space.
    pub fn map(bytes: usize) -> Result<Self, RegionError> {
        let len = bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
        if !cfg!(miri)
            && let Ok(mapping) = Mapping::anonymous(len, libc::MAP_HUGETLB)
        {
            return Ok(Self { mapping, pages: Pages::Huge });
        }
        let refuse = |cause| RegionError { bytes: len, cause };
        let mapping = Mapping::anonymous(len, 0).map_err(refuse)?;
        let is_advised = mapping.advise(libc::MADV_HUGEPAGE).is_ok();
        let pages = if is_advised { Pages::Transparent } else { Pages::Ordinary };
        // Faults taken now are not taken while frames arrive.
        mapping.advise(libc::MADV_POPULATE_WRITE).map_err(refuse)?;
        Ok(Self { mapping, pages })
    }

    /// Length in bytes, a multiple of 2 MiB.
    pub fn len(&self) -> usize {
        self.mapping.len()
    }

    /// Never true: a region has at least one page.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Kind of pages behind the region.
    pub fn pages(&self) -> Pages {
        self.pages
    }

    /// Address of byte `offset`, for the kernel or a device to write to.
    ///
    /// # Panics
    /// When `offset..offset + len` is not inside the region.
    pub fn address(&self, offset: usize, len: usize) -> NonNull<u8> {
        self.mapping.address(offset, len)
    }

    /// All bytes, for whoever owns the region alone.
    pub fn bytes(&self) -> &[u8] {
        let start = self.address(0, self.len());
        // SAFETY: the mapping is initialised and lives as long as `self`. A region that others write
        // through is never lent out: a clop keeps its own to itself.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.len()) }
    }

    /// All bytes for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let start = self.address(0, self.len());
        // SAFETY: as for `bytes`; `&mut self` says that nobody else looks.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len()) }
    }

    /// What is mapped, for whoever shares it as a clop does.
    pub(crate) fn into_mapping(self) -> Mapping {
        self.mapping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_zeroed_and_rounded_to_huge_pages() {
        let region = Region::map(3 << 20).unwrap();
        assert_eq!(region.len(), 4 << 20);
        let mut bytes = vec![1u8; 100];
        region.mapping.load(region.len() - 100, &mut bytes);
        assert!(bytes.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn an_impossible_size_is_an_error_that_names_it() {
        let error = Region::map(1 << 60).unwrap_err().to_string();
        assert!(error.contains("1152921504606846976 bytes"), "{error}");
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn refuses_addresses_outside() {
        let region = Region::map(1).unwrap();
        region.address(region.len() - 1, 2);
    }
}
