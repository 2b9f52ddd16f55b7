//! Big-endian integers at a place of a byte slice.

use crate::layout::array;

/// The `u16` stored at `at`.
pub(crate) fn u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes(array(bytes, at))
}

/// The `u32` stored at `at`.
pub(crate) fn u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(array(bytes, at))
}

/// The `f32` stored at `at`.
pub(crate) fn f32(bytes: &[u8], at: usize) -> f32 {
    f32::from_be_bytes(array(bytes, at))
}
