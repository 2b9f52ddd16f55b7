//! Which part of the data acquisition a piece of data comes from.

use core::fmt;
use core::str::FromStr;

use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::record::Record;

mod field {
    pub const VERSION: usize = 0;
    pub const SUBSYSTEM: usize = 2;
    pub const ID: usize = 4;
    pub const END: usize = 8;
}

numbered! {
    /// Part of the data acquisition that numbers its sources by itself.
    pub enum Subsystem: u16 {
        Unknown = 0 => "Unknown",
        DetectorReadout = 1 => "Detector_Readout",
        HwSignalsInterface = 2 => "HW_Signals_Interface",
        Trigger = 3 => "Trigger",
        TrBuilder = 4 => "TR_Builder",
    }
}

/// Source of a fragment or record: subsystem and number in it.
///
/// ```text
///  0         2         4                   8
/// +---------+---------+-------------------+
/// | version |subsystem|        id         |
/// +---------+---------+-------------------+
/// ```
///
/// Its text form, `Detector_Readout_0x00000064`, names data sets in files.
///
/// Source: DUNE-DAQ/daqdataformats `SourceID.hpp`, version 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId {
    /// Subsystem.
    pub subsystem: Subsystem,
    /// Number of the source in its subsystem.
    pub id: u32,
}

impl SourceId {
    /// Version that this layout carries.
    pub const VERSION: u16 = 2;

    /// Identifier from its two parts.
    pub const fn new(subsystem: Subsystem, id: u32) -> Self {
        Self { subsystem, id }
    }
}

impl Record for SourceId {
    const FORMAT: &'static str = "source id";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        match le::u16(bytes, field::VERSION) {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "2", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        let subsystem = Subsystem::from_number(le::u16(bytes, field::SUBSYSTEM));
        Self::new(subsystem, le::u32(bytes, field::ID))
    }

    fn emit(&self, bytes: &mut [u8]) {
        le::put(bytes, field::VERSION, Self::VERSION.to_le_bytes());
        le::put(bytes, field::SUBSYSTEM, self.subsystem.number().to_le_bytes());
        le::put(bytes, field::ID, self.id.to_le_bytes());
    }
}

/// Prints subsystem and number as data sets are named: `Detector_Readout_0x00000064`.
impl fmt::Display for SourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_0x{:08x}", self.subsystem.name(), self.id)
    }
}

/// Reads the text form: a subsystem name, `_0x` and eight hexadecimal digits.
impl FromStr for SourceId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parse = || {
            let (subsystem, id) = text.rsplit_once("_0x")?;
            let digits = id.len() == 8 && id.bytes().all(|digit| digit.is_ascii_hexdigit());
            let id = u32::from_str_radix(id, 16).ok().filter(|_| digits)?;
            Some(Self::new(Subsystem::from_name(subsystem)?, id))
        };
        parse().ok_or(Error::Text { what: "source id", expected: "Detector_Readout_0x00000064" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn stored_form() {
        let source = SourceId::new(Subsystem::DetectorReadout, 0x64);
        let mut bytes = [0; 8];
        source.emit(&mut bytes);
        assert_eq!(bytes, [2, 0, 1, 0, 0x64, 0, 0, 0]);
        assert_eq!(SourceId::parse(&bytes), Ok(source));
    }

    #[test]
    fn text_form_both_ways() {
        let source = SourceId::new(Subsystem::DetectorReadout, 0x64);
        assert_eq!(source.to_string(), "Detector_Readout_0x00000064");
        assert_eq!("Detector_Readout_0x00000064".parse(), Ok(source));
        let builder = SourceId::new(Subsystem::TrBuilder, 0);
        assert_eq!("TR_Builder_0x00000000".parse(), Ok(builder));
    }

    #[test]
    fn malformed_text() {
        for text in [
            "",
            "Detector_Readout",
            "Detector_Readout_0x64",
            "Detector_Readout_0x+0000064",
            "Detector_Readout_0x0000006g",
            "Detector_Readout_0x000000640",
            "detector_readout_0x00000064",
            "_0x00000064",
        ] {
            let error = text.parse::<SourceId>().unwrap_err();
            assert!(matches!(error, Error::Text { what: "source id", .. }), "{text}");
        }
    }

    #[test]
    fn malformed_version() {
        let error = Error::Version { format: "source id", known: "2", got: 1 };
        assert_eq!(SourceId::parse(&[1, 0, 1, 0, 0, 0, 0, 0]), Err(error));
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "source id", expected: 8, got: 7 };
        assert_eq!(SourceId::parse(&[2, 0, 1, 0, 0, 0, 0]), Err(error));
    }

    #[test]
    fn order_is_that_of_the_numbers() {
        let readout = SourceId::new(Subsystem::DetectorReadout, 9);
        assert!(readout < SourceId::new(Subsystem::DetectorReadout, 10));
        assert!(readout < SourceId::new(Subsystem::Trigger, 0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_identifier_comes_back(subsystem in any::<u16>(), id in any::<u32>()) {
            let source = SourceId::new(Subsystem::from_number(subsystem), id);
            let mut bytes = [0; 8];
            source.emit(&mut bytes);
            prop_assert_eq!(SourceId::parse(&bytes), Ok(source));
        }
    }
}
