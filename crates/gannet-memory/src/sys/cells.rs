//! The two borrows of cell memory, with the reasons why they are sound.
#![allow(unsafe_code)]

use crate::clop::{Cell, Shared};

impl Shared {
    /// First `len` bytes of an intact, committed cell. For the producer alone.
    #[inline]
    pub(crate) fn readable(&self, cell: Cell, len: usize) -> &[u8] {
        // SAFETY: only the producer reserves cells, it needs `&mut Producer` for that, and this
        // borrow comes from `&Producer`; so nobody gets leave to write the cell while it lives.
        unsafe { self.region.slice(self.geometry.offset(cell), len) }
    }

    /// Bytes of a reserved, uncommitted cell. For the producer alone.
    #[allow(clippy::mut_from_ref)]
    pub(crate) fn writable(&self, cell: Cell) -> &mut [u8] {
        // SAFETY: the cell is reserved and not committed, so no reader believes its bytes, and
        // the one producer lends it out under `&mut Producer`.
        unsafe { self.region.slice_mut(self.geometry.offset(cell), self.geometry.cell_bytes) }
    }
}
