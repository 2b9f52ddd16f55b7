//! Frames read in place, with the reason why that is sound.
#![allow(unsafe_code)]

use crate::clop::{Cell, Producer};

impl Producer {
    /// First `len` bytes of a committed cell.
    ///
    /// # Panics
    /// When the cell is not committed, is overwritten, or is shorter than `len`.
    #[inline]
    pub fn bytes(&self, cell: Cell, len: usize) -> &[u8] {
        let shared = self.shared();
        assert!(shared.window.is_intact(cell.0), "cell holds no frame");
        assert!(len <= shared.geometry.cell_bytes, "longer than a cell");
        // SAFETY: a cell is written only while it is open: by the one producer, by the kernel on its
        // behalf, or by a process that was given leave for it and is trusted to keep to that, see
        // `clop_over`. This cell is published, and to open it again takes `&mut Producer`, which the
        // returned borrow excludes.
        unsafe { shared.mapping.slice(shared.geometry.offset(cell), len) }
    }
}
