//! Options at the end of a block: code, length, value padded to four bytes.

use crate::capture::ByteOrder;
use crate::layout::{array, check_len};
use crate::{Error, Result};

/// Codes of the options that are read and written.
pub(super) mod code {
    pub const END: u16 = 0;
    pub const INTERFACE_RESOLUTION: u16 = 9;
    pub const INTERFACE_OFFSET: u16 = 14;
    pub const RECEIVED: u16 = 4;
    pub const DROPPED_BY_INTERFACE: u16 = 5;
    pub const DROPPED_BY_SYSTEM: u16 = 7;
}

/// Bytes of code and length.
const HEADER_LEN: usize = 4;

/// The options in a slice of a block, up to the end mark or the end of the slice.
pub(super) struct Options<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Options<'a> {
    pub(super) const fn new(bytes: &'a [u8], order: ByteOrder) -> Self {
        Self { rest: bytes, order }
    }

    fn read(&mut self) -> Result<(u16, &'a [u8])> {
        let bytes = core::mem::take(&mut self.rest);
        check_len("pcapng option", bytes, HEADER_LEN)?;
        let code = self.order.u16(array(bytes, 0));
        let end = HEADER_LEN + usize::from(self.order.u16(array(bytes, 2)));
        check_len("pcapng option", bytes, end)?;
        if code != code::END {
            self.rest = bytes.get(end.next_multiple_of(4)..).unwrap_or_default();
        }
        Ok((code, &bytes[HEADER_LEN..end]))
    }
}

/// Yields code and value; an option that is cut short ends the list with an error.
impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        self.read().map(|option| (option.0 != code::END).then_some(option)).transpose()
    }
}

/// The value of an option that must have `N` bytes.
pub(super) fn fixed<const N: usize>(value: &[u8]) -> Result<[u8; N]> {
    let (expected, got) = (N as u64, value.len() as u64);
    let (format, field) = ("pcapng option", "length");
    value.try_into().map_err(|_| Error::Value { format, field, expected, got })
}

/// Appends an option.
pub(super) fn emit(code: u16, value: &[u8], order: ByteOrder, out: &mut Vec<u8>) {
    out.extend_from_slice(&order.bytes_u16(code));
    out.extend_from_slice(&order.bytes_u16(value.len() as u16));
    out.extend_from_slice(value);
    out.extend(core::iter::repeat_n(0, value.len().next_multiple_of(4) - value.len()));
}

/// Appends the end mark.
pub(super) fn emit_end(out: &mut Vec<u8>) {
    emit(code::END, &[], ByteOrder::Little, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<Vec<(u16, &[u8])>> {
        Options::new(bytes, ByteOrder::Little).collect()
    }

    #[test]
    fn values_are_padded_and_the_end_mark_ends_the_list() {
        let bytes = [9, 0, 1, 0, 6, 0, 0, 0, 2, 0, 4, 0, b'e', b't', b'h', b'0', 0, 0, 0, 0, 0xff];
        assert_eq!(read(&bytes).unwrap(), [(9, &[6][..]), (2, b"eth0")]);
        let mut written = Vec::new();
        emit(9, &[6], ByteOrder::Little, &mut written);
        emit(2, b"eth0", ByteOrder::Little, &mut written);
        emit_end(&mut written);
        assert_eq!(written, bytes[..20]);
    }

    #[test]
    fn the_end_mark_may_be_missing() {
        assert_eq!(read(&[]).unwrap(), []);
        assert_eq!(read(&[9, 0, 1, 0, 6, 0, 0, 0]).unwrap(), [(9, &[6][..])]);
    }

    #[test]
    fn refuses_a_value_past_the_block() {
        let error = read(&[9, 0, 5, 0, 6, 0, 0, 0]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "pcapng option", expected: 9, got: 8 });
    }

    #[test]
    fn refuses_an_option_header_cut_short() {
        let error = read(&[9, 0, 0]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "pcapng option", expected: 4, got: 3 });
    }

    #[test]
    fn refuses_a_number_of_another_width() {
        let (format, field, expected, got) = ("pcapng option", "length", 8, 4);
        assert_eq!(fixed::<8>(&[0; 4]), Err(Error::Value { format, field, expected, got }));
    }
}
