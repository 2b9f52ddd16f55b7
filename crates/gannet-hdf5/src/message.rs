//! Messages: what object headers are made of.
//!
//! A message is `type (1) | bytes (2) | flags (1) | content`. Only the versions that HDF5 1.8
//! brought are written here; each function says what its content is.
//!
//! Source: HDF5 File Format Specification 3.0, section IV.A.2.

use crate::UNDEFINED;
use crate::value::Value;

/// Bytes before the content of a message.
pub const HEADER: usize = 4;
/// Bytes of a continuation message.
pub const CONTINUATION: usize = HEADER + 16;
/// Flag of messages that may never change.
const CONSTANT: u8 = 1;
/// Flag of messages that may not be shared by objects.
const OWN: u8 = 4;

/// Longest name of a link or attribute, in bytes.
pub const NAME_MAX: usize = 255;

/// A message of a type, with flags and content.
///
/// # Panics
/// If the content is 64 KiB or more, which names of at most [`NAME_MAX`] bytes rule out.
fn message(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
    let size = u16::try_from(content.len()).expect("message contents are short");
    let mut bytes = Vec::with_capacity(HEADER + content.len());
    bytes.push(kind);
    bytes.extend(size.to_le_bytes());
    bytes.push(flags);
    bytes.extend(content);
    bytes
}

/// Nothing, in `len` bytes with the message header.
///
/// # Panics
/// If `len` does not hold a message header.
pub fn nil(len: usize) -> Vec<u8> {
    message(0, 0, &vec![0; len - HEADER])
}

/// Extent of a data set: `rows` rows of one column.
pub fn extent(rows: u64) -> Vec<u8> {
    let mut content = vec![2, 2, 0, 1];
    content.extend(rows.to_le_bytes());
    content.extend(1_u64.to_le_bytes());
    message(1, 0, &content)
}

/// Type of a data set: signed 8-bit numbers, C++ `char` as DUNE stores bytes.
pub fn byte_type() -> Vec<u8> {
    message(3, CONSTANT, &integer(1, true))
}

/// Fill value: none was set; space is reserved when data are written.
pub fn fill_value() -> Vec<u8> {
    message(5, CONSTANT, &[3, 0x0a])
}

/// Contiguous layout: where the bytes of a data set lie.
pub fn layout(address: u64, size: u64) -> Vec<u8> {
    let mut content = vec![3, 1];
    content.extend(if size == 0 { UNDEFINED } else { address }.to_le_bytes());
    content.extend(size.to_le_bytes());
    message(8, 0, &content)
}

/// What makes an object header a group: its links and attributes are messages, in no other
/// index.
pub fn group() -> Vec<u8> {
    [message(2, 0, &NO_INDEX), message(10, CONSTANT, &[0, 0]), attribute_info()].concat()
}

/// Content of the messages that tell of links and of attributes: no order of creation is kept, and
/// neither heap nor tree are there.
const NO_INDEX: [u8; 18] = {
    let mut info = [0xff; 18];
    (info[0], info[1]) = (0, 0);
    info
};

/// All attributes are messages. Without it libhdf5 counts no attributes.
pub fn attribute_info() -> Vec<u8> {
    message(21, OWN, &NO_INDEX)
}

/// What makes an object header a group whose links are in an index: the root of its tree, and the heap
/// of its names.
pub fn symbol_table(tree: u64, heap: u64) -> Vec<u8> {
    message(17, 0, &[tree.to_le_bytes(), heap.to_le_bytes()].concat())
}

/// A member of a group: a name of at most [`NAME_MAX`] bytes for the object at an address.
pub fn link(name: &str, address: u64) -> Vec<u8> {
    const CHARACTER_SET_STORED: u8 = 1 << 4;
    const UTF8: u8 = 1;
    let mut content = vec![1, CHARACTER_SET_STORED, UTF8, name.len() as u8];
    content.extend(name.as_bytes());
    content.extend(address.to_le_bytes());
    message(6, 0, &content)
}

/// The object header goes on at an address, in a block of `size` bytes.
pub fn continuation(address: u64, size: u64) -> Vec<u8> {
    message(16, 0, &[address.to_le_bytes(), size.to_le_bytes()].concat())
}

/// Place of a text: the collection and the number in it.
#[derive(Clone, Copy)]
pub struct TextPlace {
    /// Address of the collection.
    pub collection: u64,
    /// Number of the object in the collection.
    pub number: u32,
}

/// A scalar attribute. `place` says where a text lies; numbers lie in the message.
pub fn attribute(name: &str, value: &Value<'_>, place: TextPlace) -> Vec<u8> {
    const SCALAR: [u8; 4] = [2, 0, 0, 0];
    const UTF8: u8 = 1;
    let (data_type, data) = match value {
        Value::U32(number) => (integer(4, false), number.to_le_bytes().to_vec()),
        Value::U64(number) => (integer(8, false), number.to_le_bytes().to_vec()),
        Value::I64(number) => (integer(8, true), number.to_le_bytes().to_vec()),
        Value::Text(text) => (text_type(), text_reference(text, place)),
    };
    let mut content = vec![3, 0];
    for size in [name.len() + 1, data_type.len(), SCALAR.len()] {
        content.extend((size as u16).to_le_bytes());
    }
    content.push(UTF8);
    content.extend(name.as_bytes());
    content.push(0);
    content.extend(data_type);
    content.extend(SCALAR);
    content.extend(data);
    message(12, 0, &content)
}

/// Little-endian fixed-point type of `size` bytes.
fn integer(size: u8, signed: bool) -> Vec<u8> {
    vec![0x10, u8::from(signed) << 3, 0, 0, size, 0, 0, 0, 0, 0, size * 8, 0]
}

/// Variable-length text, UTF-8, ended by NUL in memory.
fn text_type() -> Vec<u8> {
    let mut bytes = vec![0x19, 1, 1, 0, 16, 0, 0, 0];
    bytes.extend(integer(1, false));
    bytes
}

fn text_reference(text: &str, place: TextPlace) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(place.collection.to_le_bytes());
    bytes.extend(place.number.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOWHERE: TextPlace = TextPlace { collection: 0, number: 0 };

    /// Bytes of the messages of a small file that h5py 3.16 (HDF5 2.0) wrote with
    /// `libver="v108"`.
    #[test]
    fn equal_what_libhdf5_writes() {
        assert_eq!(
            extent(5)[..],
            b"\x01\x14\0\0\x02\x02\0\x01\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0"[..]
        );
        assert_eq!(byte_type()[..], b"\x03\x0c\0\x01\x10\x08\0\0\x01\0\0\0\0\0\x08\0"[..]);
        assert_eq!(fill_value()[..], b"\x05\x02\0\x01\x03\x0a"[..]);
        let nowhere = [0xff; 16];
        let links = [&b"\x02\x12\0\0\0\0"[..], &nowhere].concat();
        let attributes = [&b"\x15\x12\0\x04\0\0"[..], &nowhere].concat();
        assert_eq!(group(), [links, b"\x0a\x02\0\x01\0\0".to_vec(), attributes].concat());
        let place = TextPlace { collection: 0x800, number: 1 };
        let text = attribute("s", &Value::from("hello"), place);
        let stored = b"\x0c\x33\0\0\x03\0\x02\0\x14\0\x04\0\x01s\0\
            \x19\x01\x01\0\x10\0\0\0\x10\0\0\0\x01\0\0\0\0\0\x08\0\x02\0\0\0\
            \x05\0\0\0\0\x08\0\0\0\0\0\0\x01\0\0\0";
        // The one difference: h5py marks names as ASCII where they are, we always as UTF-8.
        assert_eq!(text, stored);
        let number = attribute("u", &Value::U64(7), NOWHERE);
        let stored = b"\x0c\x23\0\0\x03\0\x02\0\x0c\0\x04\0\x01u\0\
            \x10\0\0\0\x08\0\0\0\0\0\x40\0\x02\0\0\0\x07\0\0\0\0\0\0\0";
        assert_eq!(number, stored);
    }

    #[test]
    fn an_empty_data_set_lies_nowhere() {
        assert_eq!(layout(99, 0)[HEADER + 2..][..8], UNDEFINED.to_le_bytes());
        assert_eq!(layout(99, 1)[HEADER + 2..][..8], 99_u64.to_le_bytes());
    }
}
