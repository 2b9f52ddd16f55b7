//! A region divided among several owners, with the reason why that is sound.
#![allow(unsafe_code)]

use std::ops::{Deref, DerefMut};
use std::slice;
use std::sync::Arc;

use super::region::Region;

/// Bytes of a region that one owner has for itself.
#[derive(Debug)]
pub struct Part {
    region: Arc<Region>,
    offset: usize,
    len: usize,
}

impl Region {
    /// Divides the region into as many parts of `len` bytes as there is room for.
    ///
    /// # Panics
    /// When `len` is 0.
    pub fn split(self, len: usize) -> Vec<Part> {
        let parts = self.len() / len;
        let region = Arc::new(self);
        let part = |number| Part { region: Arc::clone(&region), offset: number * len, len };
        (0..parts).map(part).collect()
    }
}

impl Deref for Part {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let start = self.region.address(self.offset, self.len);
        // SAFETY: the bytes are mapped, initialised, and of no other part, and nobody has the region itself
        // any more. They are written through `&mut Part` only.
        unsafe { slice::from_raw_parts(start.as_ptr(), self.len) }
    }
}

impl DerefMut for Part {
    fn deref_mut(&mut self) -> &mut [u8] {
        let start = self.region.address(self.offset, self.len);
        // SAFETY: as for `deref`, and `&mut self` says that nobody else looks at them.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), self.len) }
    }
}
