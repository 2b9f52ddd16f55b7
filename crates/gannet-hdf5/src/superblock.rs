//! The superblock: the first bytes of a file.

use crate::UNDEFINED;
use crate::checksum::lookup3;

/// Bytes of a superblock.
pub const LEN: usize = 48;

/// A superblock of version 2, which HDF5 1.8 and later read.
///
/// ```text
///   0  signature (8)
///   8  version (2) | size of offsets (8) | size of lengths (8) | consistency flags (0)
///  12  base address (0)
///  20  superblock extension address (none)
///  28  end of file address
///  36  root group object header address
///  44  checksum
/// ```
///
/// Source: HDF5 File Format Specification 3.0, section II.A.
pub fn encode(end_of_file: u64, root: u64) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[..12].copy_from_slice(b"\x89HDF\r\n\x1a\n\x02\x08\x08\0");
    bytes[20..28].copy_from_slice(&UNDEFINED.to_le_bytes());
    bytes[28..36].copy_from_slice(&end_of_file.to_le_bytes());
    bytes[36..44].copy_from_slice(&root.to_le_bytes());
    let checksum = lookup3(&bytes[..44]);
    bytes[44..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The address of the root group in a superblock that [`encode`] could have made.
pub fn root(bytes: &[u8; LEN]) -> Option<u64> {
    let word = |at| bytes[at..].first_chunk().map(|word| u64::from_le_bytes(*word));
    let (end, root) = (word(28)?, word(36)?);
    (*bytes == encode(end, root)).then_some(root)
}

#[cfg(test)]
mod tests {
    #[test]
    fn equals_what_libhdf5_writes() {
        let bytes = super::encode(0x1805, 0x30);
        assert_eq!(bytes[44..], 0xf46e_47b6_u32.to_le_bytes());
        assert_eq!(bytes[..12], *b"\x89HDF\r\n\x1a\n\x02\x08\x08\0");
    }
}
