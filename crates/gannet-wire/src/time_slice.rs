//! Time slice header: begins a record of continuous data, such as a stream of primitives.

use core::fmt;

use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::record::{Record, check_value};
use crate::source_id::SourceId;

mod field {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 4;
    pub const NUMBER: usize = 8;
    pub const RUN_NUMBER: usize = 16;
    pub const UNUSED: usize = 20;
    pub const SOURCE_ID: usize = 24;
    pub const END: usize = 32;
}

/// Header of a time slice.
///
/// ```text
///  byte  0                4               8
///      0 +----------------+---------------+
///        |   0x55556666   |  version (2)  |
///      8 +----------------+---------------+
///        |        time slice number       |
///     16 +----------------+---------------+
///        |   run number   |  0xffffffff   |
///     24 +----------------+---------------+
///        |            source id           |
///        +--------------------------------+
/// ```
///
/// Source: DUNE-DAQ/daqdataformats `TimeSliceHeader.hpp`, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeSliceHeader {
    /// Number of the slice in its run.
    pub number: u64,
    /// Run that the slice belongs to.
    pub run_number: u32,
    /// What built the slice.
    pub source_id: SourceId,
}

impl TimeSliceHeader {
    /// First word of the header.
    pub const MAGIC: u32 = 0x5555_6666;
    /// Version that this layout carries.
    pub const VERSION: u32 = 2;
}

impl Record for TimeSliceHeader {
    const FORMAT: &'static str = "time slice header";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        let magic = le::u32(bytes, field::MAGIC);
        check_value(Self::FORMAT, "marker", Self::MAGIC.into(), magic.into())?;
        match le::u32(bytes, field::VERSION) {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "2", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            number: le::u64(bytes, field::NUMBER),
            run_number: le::u32(bytes, field::RUN_NUMBER),
            source_id: SourceId::read(&bytes[field::SOURCE_ID..]),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        le::put(bytes, field::MAGIC, Self::MAGIC.to_le_bytes());
        le::put(bytes, field::VERSION, Self::VERSION.to_le_bytes());
        le::put(bytes, field::NUMBER, self.number.to_le_bytes());
        le::put(bytes, field::RUN_NUMBER, self.run_number.to_le_bytes());
        le::put(bytes, field::UNUSED, u32::MAX.to_le_bytes());
        self.source_id.emit(&mut bytes[field::SOURCE_ID..]);
    }
}

/// Prints one field a line.
impl fmt::Display for TimeSliceHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", Self::FORMAT)?;
        writeln!(f, "  {:<22} {}", "number", self.number)?;
        writeln!(f, "  {:<22} {}", "run_number", self.run_number)?;
        write!(f, "  {:<22} {}", "source_id", self.source_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source_id::Subsystem;
    use proptest::prelude::*;

    const HEADER: TimeSliceHeader = TimeSliceHeader {
        number: 7,
        run_number: 27980,
        source_id: SourceId::new(Subsystem::TrBuilder, 1),
    };

    fn stored() -> [u8; 32] {
        let mut bytes = [0; 32];
        HEADER.emit(&mut bytes);
        bytes
    }

    #[test]
    fn stored_form() {
        let bytes = stored();
        assert_eq!(bytes[..8], [0x66, 0x66, 0x55, 0x55, 2, 0, 0, 0]);
        assert_eq!(bytes[8..16], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[16..24], [0x4c, 0x6d, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes[24..32], [2, 0, 4, 0, 1, 0, 0, 0]);
        let text = "time slice header\n  number                 7\n  run_number             27980\n  \
                    source_id              TR_Builder_0x00000001";
        assert_eq!(HEADER.to_string(), text);
    }

    #[test]
    fn malformed_marker() {
        let mut bytes = stored();
        bytes[0] = 0;
        let (format, field) = ("time slice header", "marker");
        let error = Error::Value { format, field, expected: 0x5555_6666, got: 0x5555_6600 };
        assert_eq!(TimeSliceHeader::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_version() {
        let mut bytes = stored();
        bytes[4] = 3;
        let error = Error::Version { format: "time slice header", known: "2", got: 3 };
        assert_eq!(TimeSliceHeader::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "time slice header", expected: 32, got: 31 };
        assert_eq!(TimeSliceHeader::parse(&stored()[..31]), Err(error));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_header_comes_back((number, run_number, id) in any::<(u64, u32, u32)>()) {
            let source_id = SourceId::new(Subsystem::TrBuilder, id);
            let header = TimeSliceHeader { number, run_number, source_id };
            let mut bytes = [0; 32];
            header.emit(&mut bytes);
            prop_assert_eq!(TimeSliceHeader::parse(&bytes), Ok(header));
        }
    }
}
