//! Little-endian integers at a place of a byte slice.

use crate::layout::array;
pub(crate) use crate::layout::put;

/// The `u16` stored at `at`.
pub(crate) fn u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(array(bytes, at))
}

/// The `u32` stored at `at`.
pub(crate) fn u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(array(bytes, at))
}

/// The `i32` stored at `at`.
pub(crate) fn i32(bytes: &[u8], at: usize) -> i32 {
    i32::from_le_bytes(array(bytes, at))
}

/// The `u64` stored at `at`.
pub(crate) fn u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(array(bytes, at))
}
