//! Memory that stays mapped while the library may reach it.

use std::ffi::c_void;

use gannet_memory::{Access, AttachError, SharedRegion};

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
    pub fn new(region: &SharedRegion) -> Result<Self, AttachError> {
        let file = region.descriptor(Access::Write)?;
        Ok(Self(SharedRegion::attach(file, region.len() as u64, Access::Write)?))
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
