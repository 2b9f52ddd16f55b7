//! Global heap collections: where texts of any length lie.

use crate::error::{Error, Result};

/// Smallest collection that libhdf5 accepts, in bytes.
const COLLECTION_MIN: usize = 4096;
/// Bytes before the first object, and bytes before the content of an object.
const HEADER: usize = 16;
/// Most texts of one collection: objects are numbered from 1 in 16 bits.
pub const TEXTS_MAX: usize = u16::MAX as usize;

/// A collection with these texts, numbered from 1.
///
/// ```text
///   0  "GCOL" | version (1) | 0 0 0
///   8  bytes of the collection
///  16  object: number (2) | references (2) | 0 (4) | bytes (8) | content, padded to 8 bytes
///      ... the object of number 0 is the free space, its bytes count its own header
/// ```
///
/// Source: HDF5 File Format Specification 3.0, section III.E.
///
/// # Errors
/// [`Error::TooManyTexts`].
pub fn collection(texts: &[&str]) -> Result<Vec<u8>> {
    if texts.len() > TEXTS_MAX {
        return Err(Error::TooManyTexts { max: TEXTS_MAX, got: texts.len() });
    }
    let used: usize = texts.iter().map(|text| HEADER + text.len().next_multiple_of(8)).sum();
    // Room for the free object, so that the collection is always whole.
    let size = (HEADER + used + HEADER).max(COLLECTION_MIN);
    let mut bytes = Vec::with_capacity(size);
    bytes.extend(b"GCOL\x01\0\0\0");
    bytes.extend((size as u64).to_le_bytes());
    for (number, text) in (1_u16..).zip(texts) {
        object(&mut bytes, number, text.len());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    let free = size - bytes.len();
    object(&mut bytes, 0, free);
    bytes.resize(size, 0);
    Ok(bytes)
}

fn object(bytes: &mut Vec<u8>, number: u16, size: usize) {
    bytes.extend(number.to_le_bytes());
    bytes.extend([0; 6]);
    bytes.extend((size as u64).to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_lie_on_8_bytes_and_the_rest_is_free() {
        let bytes = collection(&["hello", ""]).unwrap();
        assert_eq!(bytes.len(), 4096);
        assert_eq!(bytes[..16], *b"GCOL\x01\0\0\0\0\x10\0\0\0\0\0\0");
        assert_eq!(bytes[16..40], *b"\x01\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0hello\0\0\0");
        assert_eq!(bytes[40..56], *b"\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(bytes[56..72], *b"\0\0\0\0\0\0\0\0\xc8\x0f\0\0\0\0\0\0");
    }

    #[test]
    fn large_texts_make_a_large_collection() {
        let text = "x".repeat(10_001);
        let bytes = collection(&[&text]).unwrap();
        assert_eq!(bytes.len(), 16 + 16 + 10_008 + 16);
    }
}
