//! Memory that stays mapped while the library may reach it.

use std::ffi::c_void;
use std::io;

use gannet_memory::SharedRegion;

/// A mapping of a region for the library, which reads and writes it whenever it likes.
#[derive(Debug)]
pub struct Mapped(SharedRegion);

// SAFETY: nobody copies by this mapping; it is only kept, and its address told.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a region once more.
    ///
    /// # Errors
    /// When the system has no more files or memory for it.
    pub fn new(region: &SharedRegion) -> io::Result<Self> {
        region.again().map(Self)
    }

    /// Length in bytes, never 0.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Where `bytes` bytes from `offset` on are.
    ///
    /// # Panics
    /// When they are not inside the region.
    pub(super) fn address(&self, offset: usize, bytes: usize) -> *mut c_void {
        let end = offset.checked_add(bytes);
        assert!(end.is_some_and(|end| end <= self.len()), "{bytes} bytes from {offset}");
        let first = self.0.words(0, 1).as_ptr().cast::<u8>().cast_mut();
        // SAFETY: the place is inside of the mapping, or at its end.
        unsafe { first.add(offset) }.cast()
    }
}
