//! Control messages that come with a received message.

/// Bytes kept for control messages: room for a few; only one is asked for.
pub(crate) const CONTROL_LEN: usize = 64;
/// Bytes of a `cmsghdr`: length, level, type.
const HEADER_LEN: usize = size_of::<libc::cmsghdr>();

/// A buffer aligned as control messages have to be.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(8))]
pub(crate) struct Control(pub(crate) [u8; CONTROL_LEN]);

/// Length of the datagrams that the kernel coalesced into a message (`UDP_GRO`), if it did.
pub(crate) fn segment_len(mut control: &[u8]) -> Option<usize> {
    while let Some(header) = control.get(..HEADER_LEN) {
        let len = usize::from_ne_bytes(*header.first_chunk()?);
        let level = libc::c_int::from_ne_bytes(*header[8..].first_chunk()?);
        let kind = libc::c_int::from_ne_bytes(*header[12..].first_chunk()?);
        let data = control.get(HEADER_LEN..len)?;
        if (level, kind) == (libc::SOL_UDP, libc::UDP_GRO) {
            let segment = libc::c_int::from_ne_bytes(*data.first_chunk()?);
            return usize::try_from(segment).ok().filter(|len| *len > 0);
        }
        control = control.get(len.next_multiple_of(align_of::<libc::cmsghdr>())..)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize, level: i32, kind: i32, value: i32) -> [u8; 24] {
        let mut bytes = [0; 24];
        bytes[..8].copy_from_slice(&len.to_ne_bytes());
        bytes[8..12].copy_from_slice(&level.to_ne_bytes());
        bytes[12..16].copy_from_slice(&kind.to_ne_bytes());
        bytes[16..20].copy_from_slice(&value.to_ne_bytes());
        bytes
    }

    #[test]
    fn finds_the_segment_length_among_others() {
        let other = message(20, libc::SOL_SOCKET, 40, 9);
        let segment = message(20, libc::SOL_UDP, libc::UDP_GRO, 7200);
        assert_eq!(segment_len(&segment), Some(7200));
        assert_eq!(segment_len(&[other, segment].concat()), Some(7200));
        assert_eq!(segment_len(&other), None);
        assert_eq!(segment_len(&[]), None);
    }

    #[test]
    fn damaged_control_messages_end_the_search() {
        let segment = message(20, libc::SOL_UDP, libc::UDP_GRO, 7200);
        for len in [0, 15, 18, 1 << 40, usize::MAX] {
            let damaged = message(len, libc::SOL_UDP, libc::UDP_GRO, 7200);
            assert_eq!(segment_len(&[damaged, segment].concat()), None, "{len}");
        }
        assert_eq!(segment_len(&segment[..19]), None);
        assert_eq!(segment_len(&message(20, libc::SOL_UDP, libc::UDP_GRO, 0)), None);
    }
}
