//! Trigger record header: what was asked for on one trigger decision, and of whom.

use core::fmt;

use crate::component_request::ComponentRequest;
use crate::error::{Error, Result};
use crate::layout::check_len;
use crate::little_endian as le;
use crate::record::{BitNames, Record, Records, check_value, emit_all};
use crate::source_id::SourceId;
use crate::trigger_candidate::TypeMask;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const TRIGGER_NUMBER: usize = 8;
    pub const TRIGGER_TIMESTAMP: usize = 16;
    pub const NUM_REQUESTED_COMPONENTS: usize = 24;
    pub const RUN_NUMBER: usize = 32;
    pub const ERROR_BITS: usize = 36;
    pub const TRIGGER_TYPE: usize = 40;
    pub const SEQUENCE_NUMBER: usize = 48;
    pub const MAX_SEQUENCE_NUMBER: usize = 50;
    pub const UNUSED: usize = 52;
    pub const SOURCE_ID: usize = 56;
    pub const END: usize = 64;
}

/// Error bits of the record; version 5 calls them status bits.
pub mod error_bits {
    /// A fragment that was asked for is missing.
    pub const INCOMPLETE: u32 = 1 << 0;
    /// There are as many fragments as were asked for, but not those.
    pub const MISMATCH: u32 = 1 << 1;
    /// Names of the bits, from bit 0 on.
    pub const NAMES: &[&str] = &["Incomplete", "Mismatch"];
}

/// Version of the header. Both have one layout and one meaning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Version {
    /// Written until 2025, and by default here.
    #[default]
    V4,
    /// Written from 2026 on.
    V5,
}

impl Version {
    /// The stored number.
    pub const fn number(self) -> u32 {
        match self {
            Self::V4 => 4,
            Self::V5 => 5,
        }
    }

    /// The version of a stored number.
    const fn from_number(number: u32) -> Option<Self> {
        match number {
            4 => Some(Self::V4),
            5 => Some(Self::V5),
            _ => None,
        }
    }
}

/// The fields of the header; the component requests follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Version of the header.
    pub version: Version,
    /// Number of the trigger decision.
    pub trigger_number: u64,
    /// Time of the trigger decision, in ticks.
    pub trigger_timestamp: u64,
    /// Number of the run.
    pub run_number: u32,
    /// What went wrong: [`error_bits`].
    pub error_bits: u32,
    /// Bits of the candidate types that made the decision; see [`TypeMask`].
    pub trigger_type: u64,
    /// Which part of the answer to the decision this record is, from 0.
    pub sequence_number: u16,
    /// Number of the last part.
    pub max_sequence_number: u16,
    /// What built the record.
    pub source_id: SourceId,
}

impl Repr {
    /// First word of the header.
    pub const MAGIC: u32 = 0x3333_4444;
}

/// Prints one field a line, with its unit.
impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = BitNames { word: self.error_bits.into(), names: error_bits::NAMES };
        let types = TypeMask(self.trigger_type);
        writeln!(f, "{FORMAT}")?;
        writeln!(f, "  {:<22} {}", "version", self.version.number())?;
        writeln!(f, "  {:<22} {}", "trigger_number", self.trigger_number)?;
        writeln!(f, "  {:<22} {} ticks", "trigger_timestamp", self.trigger_timestamp)?;
        writeln!(f, "  {:<22} {}", "run_number", self.run_number)?;
        writeln!(f, "  {:<22} {:#x} ({bits})", "error_bits", self.error_bits)?;
        writeln!(f, "  {:<22} {:#x} ({types})", "trigger_type", self.trigger_type)?;
        writeln!(f, "  {:<22} {}", "sequence_number", self.sequence_number)?;
        writeln!(f, "  {:<22} {}", "max_sequence_number", self.max_sequence_number)?;
        write!(f, "  {:<22} {}", "source_id", self.source_id)
    }
}

/// A stored trigger record header with its component requests, read in place.
///
/// ```text
///  byte  0                4       6       8
///      0 +----------------+---------------+
///        |   0x33334444   |    version    |
///      8 +----------------+---------------+
///        |         trigger_number         |
///     16 +--------------------------------+
///        |       trigger_timestamp        |
///     24 +--------------------------------+
///        |    num_requested_components    |
///     32 +----------------+---------------+
///        |   run_number   |  error bits   |
///     40 +----------------+---------------+
///        |          trigger_type          |
///     48 +-------+--------+---------------+
///        |seq. no|max seq.|  0xffffffff   |
///     56 +-------+--------+---------------+
///        |            source id           |
///     64 +--------------------------------+
///        |   component requests, 32 each  |
///        +--------------------------------+
/// ```
///
/// Source: DUNE-DAQ/daqdataformats `TriggerRecordHeaderData.hpp`, versions 4 and 5, and
/// `TriggerRecordHeader.hpp`.
#[derive(Clone, Debug)]
pub struct TriggerRecordHeader<'a> {
    bytes: &'a [u8],
    requests: Records<'a, ComponentRequest>,
}

/// Name of the format, as errors print it.
const FORMAT: &str = "trigger record header";

impl<'a> TriggerRecordHeader<'a> {
    /// Bytes before the component requests.
    pub const HEADER_LEN: usize = field::END;

    /// The header at the start of untrusted bytes; what follows it is ignored.
    ///
    /// # Errors
    /// When the header is not complete, its marker or version is not known, it counts more
    /// requests than are there ([`Error::Range`]), or a request is of an unknown version.
    pub fn new_checked(bytes: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, bytes, Self::HEADER_LEN)?;
        check_value(FORMAT, "marker", Repr::MAGIC.into(), le::u32(bytes, field::MAGIC).into())?;
        let version = le::u32(bytes, field::VERSION);
        if Version::from_number(version).is_none() {
            return Err(Error::Version { format: FORMAT, known: "4, 5", got: version.into() });
        }
        let requests = &bytes[Self::HEADER_LEN..];
        let max = (requests.len() / ComponentRequest::LEN) as u64;
        let got = le::u64(bytes, field::NUM_REQUESTED_COMPONENTS);
        if got > max {
            let field = "num_requested_components";
            return Err(Error::Range { format: FORMAT, field, min: 0, max, got });
        }
        // At most `max`, which came from a length in memory.
        let requests = Records::new_checked(&requests[..got as usize * ComponentRequest::LEN])?;
        Ok(Self { bytes, requests })
    }

    /// The fields of the header.
    pub fn header(&self) -> Repr {
        let bytes = self.bytes;
        Repr {
            version: Version::from_number(le::u32(bytes, field::VERSION)).unwrap_or_default(),
            trigger_number: le::u64(bytes, field::TRIGGER_NUMBER),
            trigger_timestamp: le::u64(bytes, field::TRIGGER_TIMESTAMP),
            run_number: le::u32(bytes, field::RUN_NUMBER),
            error_bits: le::u32(bytes, field::ERROR_BITS),
            trigger_type: le::u64(bytes, field::TRIGGER_TYPE),
            sequence_number: le::u16(bytes, field::SEQUENCE_NUMBER),
            max_sequence_number: le::u16(bytes, field::MAX_SEQUENCE_NUMBER),
            source_id: SourceId::read(&bytes[field::SOURCE_ID..]),
        }
    }

    /// What was asked for, one request per source.
    pub fn component_requests(&self) -> Records<'a, ComponentRequest> {
        self.requests.clone()
    }
}

/// Bytes of a header with `n_requests` component requests.
pub const fn buffer_len(n_requests: usize) -> usize {
    field::END + n_requests * ComponentRequest::LEN
}

/// Writes a header and its component requests to the start of `bytes`.
///
/// # Panics
/// If `bytes` is shorter than [`buffer_len`] of the number of requests.
pub fn emit(header: &Repr, requests: &[ComponentRequest], bytes: &mut [u8]) {
    le::put(bytes, field::MAGIC, Repr::MAGIC.to_le_bytes());
    le::put(bytes, field::VERSION, header.version.number().to_le_bytes());
    le::put(bytes, field::TRIGGER_NUMBER, header.trigger_number.to_le_bytes());
    le::put(bytes, field::TRIGGER_TIMESTAMP, header.trigger_timestamp.to_le_bytes());
    le::put(bytes, field::NUM_REQUESTED_COMPONENTS, (requests.len() as u64).to_le_bytes());
    le::put(bytes, field::RUN_NUMBER, header.run_number.to_le_bytes());
    le::put(bytes, field::ERROR_BITS, header.error_bits.to_le_bytes());
    le::put(bytes, field::TRIGGER_TYPE, header.trigger_type.to_le_bytes());
    le::put(bytes, field::SEQUENCE_NUMBER, header.sequence_number.to_le_bytes());
    le::put(bytes, field::MAX_SEQUENCE_NUMBER, header.max_sequence_number.to_le_bytes());
    le::put(bytes, field::UNUSED, u32::MAX.to_le_bytes());
    header.source_id.emit(&mut bytes[field::SOURCE_ID..]);
    emit_all(requests, &mut bytes[field::END..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_id::Subsystem;
    use proptest::prelude::*;

    const HEADER: Repr = Repr {
        version: Version::V4,
        trigger_number: 8,
        trigger_timestamp: 0x0102_0304,
        run_number: 27980,
        error_bits: error_bits::INCOMPLETE,
        trigger_type: 1 << 7,
        sequence_number: 1,
        max_sequence_number: 2,
        source_id: SourceId::new(Subsystem::TrBuilder, 3),
    };

    const REQUEST: ComponentRequest = ComponentRequest {
        component: SourceId::new(Subsystem::DetectorReadout, 100),
        window_begin: 10,
        window_end: 20,
    };

    fn stored(n_requests: usize) -> Vec<u8> {
        let mut bytes = vec![0; buffer_len(n_requests)];
        emit(&HEADER, &vec![REQUEST; n_requests], &mut bytes);
        bytes
    }

    #[test]
    fn stored_form() {
        let bytes = stored(2);
        assert_eq!(bytes[..8], [0x44, 0x44, 0x33, 0x33, 4, 0, 0, 0]);
        assert_eq!(bytes[8..16], [8, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [4, 3, 2, 1, 0, 0, 0, 0]);
        assert_eq!(bytes[24..32], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[32..40], [0x4c, 0x6d, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[40..48], [0x80, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[48..56], [1, 0, 2, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes[56..64], [2, 0, 4, 0, 3, 0, 0, 0]);
        assert_eq!(bytes.len(), 64 + 2 * 32);
    }

    #[test]
    fn header_and_requests_come_back() {
        let mut bytes = stored(2);
        bytes.extend([0xff; 9]);
        let record = TriggerRecordHeader::new_checked(&bytes).unwrap();
        assert_eq!(record.header(), HEADER);
        assert_eq!(record.component_requests().collect::<Vec<_>>(), [REQUEST; 2]);
    }

    #[test]
    fn prints_one_field_a_line() {
        let text = HEADER.to_string();
        assert_eq!(text.lines().count(), 10);
        for line in [
            "  trigger_timestamp      16909060 ticks",
            "  error_bits             0x1 (Incomplete)",
            "  trigger_type           0x80 (HorizontalMuon)",
            "  source_id              TR_Builder_0x00000003",
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
        }
    }

    #[test]
    fn malformed_count_is_refused_before_use() {
        for got in [3, u64::MAX, 1 << 59] {
            let mut bytes = stored(2);
            bytes[24..32].copy_from_slice(&got.to_le_bytes());
            let error = TriggerRecordHeader::new_checked(&bytes).unwrap_err();
            let field = "num_requested_components";
            assert_eq!(error, Error::Range { format: FORMAT, field, min: 0, max: 2, got });
        }
    }

    #[test]
    fn malformed_marker() {
        let mut bytes = stored(0);
        bytes[0] = 0x45;
        let (expected, got) = (0x3333_4444, 0x3333_4445);
        let error = Error::Value { format: FORMAT, field: "marker", expected, got };
        assert_eq!(TriggerRecordHeader::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_version_of_header_or_request() {
        let mut bytes = stored(1);
        bytes[4] = 3;
        let error = Error::Version { format: FORMAT, known: "4, 5", got: 3 };
        assert_eq!(TriggerRecordHeader::new_checked(&bytes).unwrap_err(), error);
        let mut bytes = stored(1);
        bytes[64] = 1;
        let error = Error::Version { format: "component request", known: "2", got: 1 };
        assert_eq!(TriggerRecordHeader::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: FORMAT, expected: 64, got: 63 };
        assert_eq!(TriggerRecordHeader::new_checked(&stored(0)[..63]).unwrap_err(), error);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_stored_value_comes_back(
            mut stored in prop::collection::vec(any::<u8>(), 64),
            version in 4..=5_u8,
        ) {
            stored[..8].copy_from_slice(&[0x44, 0x44, 0x33, 0x33, version, 0, 0, 0]);
            stored[24..32].fill(0);
            stored[52..56].fill(0xff);
            stored[56..58].copy_from_slice(&[2, 0]);
            let mut bytes = [0; 64];
            let record = TriggerRecordHeader::new_checked(&stored).unwrap();
            emit(&record.header(), &[], &mut bytes);
            prop_assert_eq!(&bytes[..], stored);
        }
    }
}
