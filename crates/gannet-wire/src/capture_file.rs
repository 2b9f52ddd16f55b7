//! Reading a capture file of either format and any size through a bounded window.
//!
//! ```
//! use std::io::Read;
//! use gannet_wire::capture::{Event, LINK_TYPE_ETHERNET, Progress};
//! use gannet_wire::capture_file::{Reader, Window};
//! # use gannet_wire::pcap;
//!
//! # fn read(mut file: impl Read) -> Result<usize, Box<dyn std::error::Error>> {
//! let (mut reader, mut window, mut packets) = (Reader::new(), Window::new(), 0);
//! loop {
//!     let Progress { consumed, event } = reader.next(window.bytes())?;
//!     let wants_more = event.is_none();
//!     if let Some(Event::Packet(packet)) = event {
//!         packets += usize::from(packet.link_type == LINK_TYPE_ETHERNET);
//!     }
//!     window.consume(consumed);
//!     if wants_more {
//!         match file.read(window.spare())? {
//!             0 => break,
//!             len => window.fill(len),
//!         }
//!     }
//! }
//! reader.finish(window.bytes())?;
//! # Ok(packets) }
//! # let mut file = Vec::new();
//! # pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
//! # assert_eq!(read(&file[..]).unwrap(), 0);
//! # assert!(read(&file[..20]).is_err());
//! ```

use crate::capture::{Progress, RECORD_LEN_MAX};
use crate::{Error, Result, pcap, pcapng};

/// Bytes of a [`Window`]: enough for a record of any size, and for few, long reads.
pub const WINDOW_LEN: usize = 1 << 20;
const _: () = assert!(WINDOW_LEN > RECORD_LEN_MAX);

/// Bytes by which the format of a file is known.
const MAGIC_LEN: usize = 4;
/// How a pcapng file begins, in either byte order.
pub(crate) const PCAPNG_MAGIC: [u8; MAGIC_LEN] = [0x0a, 0x0d, 0x0d, 0x0a];

/// Reader that finds the format from the first bytes of the file.
#[derive(Clone, Debug, Default)]
pub enum Reader {
    /// Too few bytes were seen.
    #[default]
    Unknown,
    /// A classic pcap file, or one of no known format, which its reader refuses.
    Pcap(pcap::Reader),
    /// A pcapng file.
    Pcapng(pcapng::Reader),
}

impl Reader {
    /// Reader at the start of a file.
    pub const fn new() -> Self {
        Self::Unknown
    }

    /// Bytes of the file that the reader is done with; where an error lies.
    pub const fn position(&self) -> u64 {
        match self {
            Self::Unknown => 0,
            Self::Pcap(reader) => reader.position(),
            Self::Pcapng(reader) => reader.position(),
        }
    }

    /// Looks for the next packet or statistics in `input`; see [`capture`](crate::capture).
    ///
    /// # Errors
    /// When the file is not as its format requires; there is no way to go on after it.
    pub fn next<'a>(&mut self, input: &'a [u8]) -> Result<Progress<'a>> {
        if let Self::Unknown = self {
            *self = match input.first_chunk() {
                None => return Ok(Progress { consumed: 0, event: None }),
                Some(&PCAPNG_MAGIC) => Self::Pcapng(pcapng::Reader::new()),
                Some(_) => Self::Pcap(pcap::Reader::new()),
            };
        }
        match self {
            Self::Unknown => Ok(Progress { consumed: 0, event: None }),
            Self::Pcap(reader) => reader.next(input),
            Self::Pcapng(reader) => reader.next(input),
        }
    }

    /// Says whether a file that ends with `rest`, the bytes not consumed, is whole.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it is not.
    pub fn finish(&self, rest: &[u8]) -> Result<()> {
        match self {
            Self::Unknown => {
                let (format, expected, got) = ("capture file", MAGIC_LEN, rest.len());
                Err(Error::Truncated { format, expected, got })
            }
            Self::Pcap(reader) => reader.finish(rest),
            Self::Pcapng(reader) => reader.finish(rest),
        }
    }
}

/// The part of a file that is in memory: bytes read and not yet consumed.
///
/// It allocates [`WINDOW_LEN`] bytes once. A reader that asks for more bytes has less than one
/// record left, so only that little is moved to make room.
#[derive(Clone, Debug)]
pub struct Window {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
}

impl Default for Window {
    fn default() -> Self {
        Self::new()
    }
}

impl Window {
    /// An empty window.
    pub fn new() -> Self {
        Self { buffer: vec![0; WINDOW_LEN].into(), start: 0, end: 0 }
    }

    /// The bytes read and not yet consumed.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Drops bytes from the front.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn consume(&mut self, len: usize) {
        assert!(len <= self.end - self.start, "only bytes in the window can be consumed");
        self.start += len;
    }

    /// Room for more bytes, never empty while less than [`RECORD_LEN_MAX`] bytes are left.
    pub fn spare(&mut self) -> &mut [u8] {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        &mut self.buffer[self.end..]
    }

    /// Takes over the first `len` bytes of [`Window::spare`], into which they were read.
    ///
    /// # Panics
    /// When there was less room.
    pub fn fill(&mut self, len: usize) {
        assert!(len <= self.buffer.len() - self.end, "only spare room can be filled");
        self.end += len;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::{ByteOrder, Event, LINK_TYPE_ETHERNET, PACKET_LEN_MAX, Packet};
    use crate::noise;
    use proptest::prelude::*;

    fn packet(timestamp_ns: u64, data: &[u8]) -> Packet<'_> {
        let (interface, link_type) = (0, LINK_TYPE_ETHERNET);
        let original_len = data.len() as u32;
        Packet { interface, link_type, timestamp_ns: Some(timestamp_ns), original_len, data }
    }

    fn pcap_file(packets: &[Packet<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut out);
        packets.iter().for_each(|packet| writer.packet(packet, &mut out).unwrap());
        out
    }

    fn pcapng_file(packets: &[Packet<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut writer = pcapng::Writer::new(ByteOrder::Big, &mut out);
        writer.interface(pcapng::Interface::new(LINK_TYPE_ETHERNET), &mut out).unwrap();
        packets.iter().for_each(|packet| writer.packet(packet, &mut out).unwrap());
        out
    }

    /// Reads a file through a window, at most `read_len` bytes at a time.
    fn packets(mut file: &[u8], read_len: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let (mut reader, mut window, mut found) = (Reader::new(), Window::new(), Vec::new());
        loop {
            let Progress { consumed, event } = reader.next(window.bytes())?;
            let starved = event.is_none();
            if let Some(Event::Packet(packet)) = event {
                found.push((packet.timestamp_ns.unwrap(), packet.data.to_vec()));
            }
            window.consume(consumed);
            if starved {
                let spare = window.spare();
                assert!(!spare.is_empty(), "a starved reader leaves room");
                let len = read_len.min(spare.len()).min(file.len());
                if len == 0 {
                    return reader.finish(window.bytes()).map(|()| found);
                }
                spare[..len].copy_from_slice(&file[..len]);
                file = &file[len..];
                window.fill(len);
            }
        }
    }

    #[test]
    fn the_largest_packets_pass_through_the_window() {
        let data = noise::bytes(7, PACKET_LEN_MAX);
        let written: Vec<_> = (0..6).map(|n| packet(n, &data)).collect();
        for file in [pcap_file(&written), pcapng_file(&written)] {
            assert!(file.len() > WINDOW_LEN);
            let found = packets(&file, usize::MAX).unwrap();
            assert_eq!(found.len(), 6);
            assert!(found.iter().all(|(_, bytes)| *bytes == data));
        }
    }

    #[test]
    fn refuses_a_file_of_no_known_format() {
        let error = packets(b"\x1f\x8b\x08\x00 a compressed file, for example", 8).unwrap_err();
        assert_eq!(error.to_string(), "pcap file: magic number is 0x1f8b0800, which is not known");
    }

    #[test]
    fn refuses_an_empty_file() {
        let error = packets(b"", 8).unwrap_err();
        assert_eq!(error, Error::Truncated { format: "capture file", expected: 4, got: 0 });
    }

    #[test]
    #[should_panic(expected = "only bytes in the window")]
    fn consuming_what_is_not_there_is_a_programming_error() {
        Window::new().consume(1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_slicing_of_a_file_gives_the_same_packets(
            seed: u64, lens in proptest::collection::vec(0usize..400, 0..12), read_len in 1usize..600,
        ) {
            let bytes = noise::bytes(seed, 400);
            let written: Vec<_> =
                lens.iter().enumerate().map(|(n, &len)| packet(n as u64, &bytes[..len])).collect();
            let expected: Vec<_> =
                written.iter().map(|p| (p.timestamp_ns.unwrap(), p.data.to_vec())).collect();
            for file in [pcap_file(&written), pcapng_file(&written)] {
                prop_assert_eq!(&packets(&file, read_len).unwrap(), &expected);
            }
        }
    }
}
