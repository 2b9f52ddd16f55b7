//! Fragment: the data of one source in one time window, with a header.

use core::fmt;

use crate::detector::Detector;
use crate::error::{Error, Result};
use crate::fragment_type::FragmentType;
use crate::little_endian as le;
use crate::record::{BitNames, Record, check_value};
use crate::source_id::SourceId;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const SIZE: usize = 8;
    pub const TRIGGER_NUMBER: usize = 16;
    pub const TRIGGER_TIMESTAMP: usize = 24;
    pub const WINDOW_BEGIN: usize = 32;
    pub const WINDOW_END: usize = 40;
    pub const RUN_NUMBER: usize = 48;
    pub const ERROR_BITS: usize = 52;
    pub const FRAGMENT_TYPE: usize = 56;
    pub const SEQUENCE_NUMBER: usize = 60;
    pub const DETECTOR_ID: usize = 62;
    pub const SOURCE_ID: usize = 64;
    pub const END: usize = 72;
}

/// Error bits of header version 5.
pub mod error_bits {
    /// The data asked for were not found; the payload is empty.
    pub const DATA_NOT_FOUND: u32 = 1 << 0;
    /// Only part of the data asked for is there.
    pub const INCOMPLETE: u32 = 1 << 1;
    /// The window asked for was too large.
    pub const INVALID_WINDOW: u32 = 1 << 2;
    /// Names of the bits, from bit 0 on.
    pub const NAMES: &[&str] = &["DataNotFound", "Incomplete", "InvalidWindow"];
}

/// Status bits of header version 6, in the place of the error bits of version 5.
pub mod status_bits {
    /// The latency buffer held nothing when the request came.
    pub const LATENCY_BUFFER_EMPTY: u32 = 1 << 0;
    /// Only part of the data asked for is there.
    pub const INCOMPLETE: u32 = 1 << 1;
    /// The window asked for was too large.
    pub const INVALID_REQUEST_WINDOW: u32 = 1 << 2;
    /// The request was not answered in time.
    pub const REQUEST_TIMEOUT: u32 = 1 << 3;
    /// The window begins before the oldest data in the latency buffer.
    pub const REQUEST_WINDOW_BEFORE_BUFFER: u32 = 1 << 4;
    /// The window ends after the newest data in the latency buffer.
    pub const REQUEST_WINDOW_AFTER_BUFFER: u32 = 1 << 5;
    /// The payload is empty.
    pub const EMPTY_FRAGMENT: u32 = 1 << 6;
    /// Names of the bits, from bit 0 on.
    pub const NAMES: &[&str] = &[
        "LatencyBufferEmpty",
        "Incomplete",
        "InvalidRequestWindow",
        "RequestTimeout",
        "RequestWindowBeforeBuffer",
        "RequestWindowAfterBuffer",
        "EmptyFragment",
    ];
}

/// Version of the header. Both have one layout; the bits have other meanings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Written until 2025, and by default here; with [`error_bits`].
    #[default]
    V5,
    /// Written from 2026 on; with [`status_bits`].
    V6,
}

impl Version {
    /// The stored number.
    pub const fn number(self) -> u32 {
        match self {
            Self::V5 => 5,
            Self::V6 => 6,
        }
    }

    /// What the version calls the word of bits.
    const fn bits_name(self) -> &'static str {
        match self {
            Self::V5 => "error_bits",
            Self::V6 => "status_bits",
        }
    }

    /// The version of a stored number.
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            5 => Some(Self::V5),
            6 => Some(Self::V6),
            _ => None,
        }
    }
}

/// Header of a fragment.
///
/// ```text
///  byte  0                4       6       8
///      0 +----------------+---------------+
///        |   0x11112222   |    version    |
///      8 +----------------+---------------+
///        |   size in bytes, header incl.  |
///     16 +--------------------------------+
///        |         trigger_number         |
///     24 +--------------------------------+
///        |       trigger_timestamp        |
///     32 +--------------------------------+
///        |          window_begin          |
///     40 +--------------------------------+
///        |           window_end           |
///     48 +----------------+---------------+
///        |   run_number   |  error bits   |
///     56 +----------------+-------+-------+
///        |  fragment_type |seq. no.|det id|
///     64 +----------------+-------+-------+
///        |            source id           |
///        +--------------------------------+
/// ```
///
/// Source: DUNE-DAQ/daqdataformats `FragmentHeader.hpp`, versions 5 and 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Version of the header.
    pub version: Version,
    /// Bytes of the fragment as its writer declared them, header included. Files exist where this
    /// is too small: when reading, the length of the data holds.
    pub size: u64,
    /// Number of the trigger decision.
    pub trigger_number: u64,
    /// Time of the trigger decision, in ticks.
    pub trigger_timestamp: u64,
    /// First tick of the window asked for.
    pub window_begin: u64,
    /// Tick after the window asked for.
    pub window_end: u64,
    /// Number of the run.
    pub run_number: u32,
    /// What went wrong: [`error_bits`] in version 5, [`status_bits`] in version 6.
    pub error_bits: u32,
    /// Format of the payload.
    pub fragment_type: FragmentType,
    /// Which part of the trigger record it belongs to, from 0.
    pub sequence_number: u16,
    /// Detector that the data come from; see [`Detector`].
    pub detector_id: u16,
    /// What made the fragment.
    pub source_id: SourceId,
}

impl Repr {
    /// First word of the header.
    pub const MAGIC: u32 = 0x1111_2222;

    /// The same header for a payload of `payload_len` bytes.
    pub const fn with_payload_len(self, payload_len: usize) -> Self {
        Self { size: (Self::LEN + payload_len) as u64, ..self }
    }

    /// Names of the bits that `error_bits` may hold, from bit 0 on.
    pub const fn bit_names(&self) -> &'static [&'static str] {
        match self.version {
            Version::V5 => error_bits::NAMES,
            Version::V6 => status_bits::NAMES,
        }
    }
}

impl Record for Repr {
    const FORMAT: &'static str = "fragment";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        let magic = le::u32(bytes, field::MAGIC);
        check_value(Self::FORMAT, "marker", Self::MAGIC.into(), magic.into())?;
        let got = le::u32(bytes, field::VERSION);
        match Version::from_number(got) {
            Some(_) => Ok(()),
            None => Err(Error::Version { format: Self::FORMAT, known: "5, 6", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            version: Version::from_number(le::u32(bytes, field::VERSION)).unwrap_or_default(),
            size: le::u64(bytes, field::SIZE),
            trigger_number: le::u64(bytes, field::TRIGGER_NUMBER),
            trigger_timestamp: le::u64(bytes, field::TRIGGER_TIMESTAMP),
            window_begin: le::u64(bytes, field::WINDOW_BEGIN),
            window_end: le::u64(bytes, field::WINDOW_END),
            run_number: le::u32(bytes, field::RUN_NUMBER),
            error_bits: le::u32(bytes, field::ERROR_BITS),
            fragment_type: FragmentType::from_number(le::u32(bytes, field::FRAGMENT_TYPE)),
            sequence_number: le::u16(bytes, field::SEQUENCE_NUMBER),
            detector_id: le::u16(bytes, field::DETECTOR_ID),
            source_id: SourceId::read(&bytes[field::SOURCE_ID..]),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        le::put(bytes, field::MAGIC, Self::MAGIC.to_le_bytes());
        le::put(bytes, field::VERSION, self.version.number().to_le_bytes());
        le::put(bytes, field::SIZE, self.size.to_le_bytes());
        le::put(bytes, field::TRIGGER_NUMBER, self.trigger_number.to_le_bytes());
        le::put(bytes, field::TRIGGER_TIMESTAMP, self.trigger_timestamp.to_le_bytes());
        le::put(bytes, field::WINDOW_BEGIN, self.window_begin.to_le_bytes());
        le::put(bytes, field::WINDOW_END, self.window_end.to_le_bytes());
        le::put(bytes, field::RUN_NUMBER, self.run_number.to_le_bytes());
        le::put(bytes, field::ERROR_BITS, self.error_bits.to_le_bytes());
        le::put(bytes, field::FRAGMENT_TYPE, self.fragment_type.number().to_le_bytes());
        le::put(bytes, field::SEQUENCE_NUMBER, self.sequence_number.to_le_bytes());
        le::put(bytes, field::DETECTOR_ID, self.detector_id.to_le_bytes());
        self.source_id.emit(&mut bytes[field::SOURCE_ID..]);
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = BitNames { word: self.error_bits.into(), names: self.bit_names() };
        let detector = Detector::from_number(self.detector_id);
        writeln!(f, "{}", Self::FORMAT)?;
        writeln!(f, "  {:<22} {}", "version", self.version.number())?;
        writeln!(f, "  {:<22} {} bytes", "size", self.size)?;
        writeln!(f, "  {:<22} {}", "trigger_number", self.trigger_number)?;
        writeln!(f, "  {:<22} {} ticks", "trigger_timestamp", self.trigger_timestamp)?;
        writeln!(f, "  {:<22} {} ticks", "window_begin", self.window_begin)?;
        writeln!(f, "  {:<22} {} ticks", "window_end", self.window_end)?;
        writeln!(f, "  {:<22} {}", "run_number", self.run_number)?;
        writeln!(f, "  {:<22} {:#x} ({bits})", self.version.bits_name(), self.error_bits)?;
        writeln!(f, "  {:<22} {}", "fragment_type", self.fragment_type)?;
        writeln!(f, "  {:<22} {}", "sequence_number", self.sequence_number)?;
        writeln!(f, "  {:<22} {} ({detector})", "detector_id", self.detector_id)?;
        write!(f, "  {:<22} {}", "source_id", self.source_id)
    }
}

/// A fragment in memory: header and payload.
///
/// Its end is the end of the bytes, not what the header declares.
#[derive(Clone, Copy, Debug)]
pub struct Fragment<'a> {
    bytes: &'a [u8],
}

impl<'a> Fragment<'a> {
    /// Bytes before the payload.
    pub const HEADER_LEN: usize = Repr::LEN;

    /// The fragment that untrusted bytes hold, from the first to the last.
    ///
    /// # Errors
    /// When the header is not complete, or its marker or version is not known.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        Repr::parse(bytes)?;
        Ok(Self { bytes })
    }

    /// All bytes, from the first of the header to the last of the payload.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The header.
    pub fn header(&self) -> Repr {
        Repr::read(self.bytes)
    }

    /// Everything after the header.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[Self::HEADER_LEN..]
    }

    /// Whether the header declares the number of bytes that are there.
    pub fn size_is_exact(&self) -> bool {
        self.header().size == self.bytes.len() as u64
    }

    /// The payload as frames of `frame_len` bytes.
    ///
    /// # Errors
    /// [`Error::Remainder`] when it is not a whole number of frames.
    pub fn frames(&self, frame_len: usize) -> Result<core::slice::ChunksExact<'a, u8>> {
        let payload = self.payload();
        if frame_len == 0 || !payload.len().is_multiple_of(frame_len) {
            let (format, unit, got) = (Repr::FORMAT, frame_len, payload.len());
            return Err(Error::Remainder { format, unit, got });
        }
        Ok(payload.chunks_exact(frame_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_id::Subsystem;
    use proptest::prelude::*;

    const HEADER: Repr = Repr {
        version: Version::V5,
        size: 72,
        trigger_number: 8,
        trigger_timestamp: 0x017e_1122_3344_5566,
        window_begin: 0x0a,
        window_end: 0x0b,
        run_number: 27980,
        error_bits: error_bits::INCOMPLETE,
        fragment_type: FragmentType::WibEth,
        sequence_number: 0x0102,
        detector_id: 3,
        source_id: SourceId::new(Subsystem::DetectorReadout, 0x64),
    };

    fn stored(payload: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; Repr::LEN];
        HEADER.with_payload_len(payload.len()).emit(&mut bytes);
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn stored_form() {
        let bytes = stored(&[]);
        assert_eq!(bytes[..8], [0x22, 0x22, 0x11, 0x11, 5, 0, 0, 0]);
        assert_eq!(bytes[8..24], [72, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], [0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0x7e, 0x01]);
        assert_eq!(bytes[32..48], [10, 0, 0, 0, 0, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[48..56], [0x4c, 0x6d, 0, 0, 2, 0, 0, 0]);
        assert_eq!(bytes[56..64], [12, 0, 0, 0, 2, 1, 3, 0]);
        assert_eq!(bytes[64..72], [2, 0, 1, 0, 0x64, 0, 0, 0]);
    }

    #[test]
    fn prints_one_field_a_line_and_the_bits_of_its_version() {
        let text = HEADER.to_string();
        assert_eq!(text.lines().count(), 13);
        for line in [
            "fragment",
            "  size                   72 bytes",
            "  window_begin           10 ticks",
            "  error_bits             0x2 (Incomplete)",
            "  fragment_type          WIBEth",
            "  detector_id            3 (HD_TPC)",
            "  source_id              Detector_Readout_0x00000064",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
        }
        let newer = Repr { version: Version::V6, error_bits: 0b1100_0001, ..HEADER }.to_string();
        let line = "  status_bits            0xc1 (LatencyBufferEmpty, EmptyFragment, bit 7)";
        assert!(newer.lines().any(|printed| printed == line), "{newer}");
    }

    #[test]
    fn payload_ends_with_the_data_whatever_the_size_says() {
        let mut bytes = stored(&[7; 20]);
        assert!(Fragment::new_checked(&bytes).unwrap().size_is_exact());
        for size in [0, 80, u64::MAX] {
            bytes[8..16].copy_from_slice(&u64::to_le_bytes(size));
            let fragment = Fragment::new_checked(&bytes).unwrap();
            assert_eq!(fragment.payload(), [7; 20]);
            assert!(!fragment.size_is_exact());
            assert_eq!(fragment.header().size, size);
        }
    }

    #[test]
    fn payload_is_cut_into_frames_only_when_it_is_whole() {
        let bytes = stored(&[7; 20]);
        let fragment = Fragment::new_checked(&bytes).unwrap();
        assert_eq!(fragment.frames(10).unwrap().len(), 2);
        for unit in [0, 3, 7200] {
            let error = Error::Remainder { format: "fragment", unit, got: 20 };
            assert_eq!(fragment.frames(unit).unwrap_err(), error);
        }
    }

    #[test]
    fn version_6_is_read_and_written() {
        let header = Repr { version: Version::V6, ..HEADER };
        let mut bytes = [0; Repr::LEN];
        header.emit(&mut bytes);
        assert_eq!(bytes[4], 6);
        assert_eq!(Repr::parse(&bytes), Ok(header));
    }

    #[test]
    fn malformed_marker() {
        let mut bytes = stored(&[]);
        bytes[3] = 0;
        let (format, field) = ("fragment", "marker");
        let error = Error::Value { format, field, expected: 0x1111_2222, got: 0x0011_2222 };
        assert_eq!(Fragment::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_version() {
        for version in [0, 4, 7] {
            let mut bytes = stored(&[]);
            bytes[4] = version;
            let got = version.into();
            let error = Error::Version { format: "fragment", known: "5, 6", got };
            assert_eq!(Fragment::new_checked(&bytes).unwrap_err(), error);
        }
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "fragment", expected: 72, got: 71 };
        assert_eq!(Fragment::new_checked(&stored(&[])[..71]).unwrap_err(), error);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_stored_value_comes_back(
            head in any::<[u8; 32]>(),
            tail in any::<[u8; 32]>(),
            version in 5..=6_u8,
        ) {
            let mut stored = vec![0x22, 0x22, 0x11, 0x11, version, 0, 0, 0];
            stored.extend(head);
            stored.extend(tail);
            stored[64..66].copy_from_slice(&[2, 0]);
            let mut bytes = [0; 72];
            Repr::parse(&stored).unwrap().emit(&mut bytes);
            prop_assert_eq!(&bytes[..], stored);
        }
    }
}
