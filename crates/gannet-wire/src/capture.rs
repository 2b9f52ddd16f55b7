//! What the capture formats [`pcap`](crate::pcap) and [`pcapng`](crate::pcapng) have in common.
//!
//! Their readers do no input: the caller shows them a slice, they say how much of it they have
//! used and lend the first packet found in it.
//!
//! * `next(input)` returns a [`Progress`]. The caller drops `consumed` bytes from the front of its
//!   input, whether or not an [`Event`] came with them.
//! * No event means that the rest of the input is less than one record: show more bytes after it.
//!   An input of [`RECORD_LEN_MAX`] bytes is always enough for progress.
//! * At the end of the file `finish(rest)` tells a clean end from a file that was cut.
//!
//! A mapped file may be shown whole. [`capture_file`](crate::capture_file) has the bounded window
//! for reading a file of any size. No length in a file makes a reader allocate.

/// Largest packet that is read or written, the snapshot length limit of libpcap.
pub const PACKET_LEN_MAX: usize = 262_144;
/// Largest record with its header and options that is read.
pub const RECORD_LEN_MAX: usize = PACKET_LEN_MAX + (1 << 16);

/// Link type of Ethernet frames.
pub const LINK_TYPE_ETHERNET: u16 = 1;
/// Link type of IPv4 and IPv6 packets without a link header.
pub const LINK_TYPE_RAW: u16 = 101;
/// Link type of IPv4 packets without a link header.
pub const LINK_TYPE_IPV4: u16 = 228;

/// Byte order of a capture: that of the machine that wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    #[default]
    Little,
    /// Most significant byte first.
    Big,
}

impl ByteOrder {
    pub(crate) fn u16(self, bytes: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    pub(crate) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        }
    }

    // Swapping bytes is its own inverse, so writing goes through the readers.
    pub(crate) fn bytes_u16(self, value: u16) -> [u8; 2] {
        self.u16(value.to_ne_bytes()).to_ne_bytes()
    }

    pub(crate) fn bytes_u32(self, value: u32) -> [u8; 4] {
        self.u32(value.to_ne_bytes()).to_ne_bytes()
    }

    pub(crate) fn bytes_u64(self, value: u64) -> [u8; 8] {
        self.u64(value.to_ne_bytes()).to_ne_bytes()
    }
}

/// A captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Number of the interface in its section; 0 in a pcap file.
    pub interface: u32,
    /// What the bytes begin with, for example [`LINK_TYPE_ETHERNET`].
    pub link_type: u16,
    /// Time of capture in ns since the Unix epoch, if it was noted.
    pub timestamp_ns: Option<u64>,
    /// Bytes that the packet had on the link; more than `data` holds when it was cut.
    pub original_len: u32,
    /// The captured bytes.
    pub data: &'a [u8],
}

impl Packet<'_> {
    /// The capture kept only the front of the packet.
    pub const fn is_cut(&self) -> bool {
        self.data.len() < self.original_len as usize
    }
}

/// What the capturing side counted on one interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Number of the interface in its section.
    pub interface: u32,
    /// Time at which the counters were read, in ns since the Unix epoch.
    pub timestamp_ns: u64,
    /// Packets received by the interface.
    pub received: Option<u64>,
    /// Packets dropped by the interface for lack of resources.
    pub dropped_by_interface: Option<u64>,
    /// Packets dropped by the operating system before the capture saw them.
    pub dropped_by_system: Option<u64>,
}

/// What a reader found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A packet, lent from the input.
    Packet(Packet<'a>),
    /// Counters of the capturing side; only pcapng has them.
    Statistics(Statistics),
}

/// What a reader did with its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// Bytes at the front of the input that the reader is done with.
    pub consumed: usize,
    /// What lay in them; `None` when the bytes after `consumed` are less than one record.
    pub event: Option<Event<'a>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_order_writes_what_it_reads() {
        assert_eq!(ByteOrder::Little.bytes_u32(0x0102_0304), [4, 3, 2, 1]);
        assert_eq!(ByteOrder::Big.bytes_u32(0x0102_0304), [1, 2, 3, 4]);
        assert_eq!(ByteOrder::Big.bytes_u16(0x0102), [1, 2]);
        assert_eq!(ByteOrder::Little.bytes_u64(1), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ByteOrder::Big.u64([0, 0, 0, 0, 0, 0, 1, 2]), 0x0102);
    }
}
