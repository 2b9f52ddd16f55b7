//! Where on the detector a stream comes from.

use core::fmt;
use core::str::FromStr;

use crate::error::Error;

/// Detector number of the data acquisition itself, under which trigger objects are stored.
///
/// Source: DUNE-DAQ/detdataformats `DetID.hpp` (`kDAQ`).
pub const DAQ_DETECTOR: u16 = 1;

/// Geographic identifier of a stream: detector, crate, slot and stream number.
///
/// It is the key of a stream everywhere in the platform. Packed into 64 bits as DUNE's GeoID:
///
/// ```text
///  63      48 47      32 31      16 15       0
/// +----------+----------+----------+----------+
/// |  stream  |   slot   |  crate   | detector |
/// +----------+----------+----------+----------+
/// ```
///
/// Source: DUNE-DAQ/hdf5libs (`source_id_geo_id_map`), DUNE-DAQ/detdataformats `DAQEthHeader.hpp`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GeoId {
    /// Detector (for example 3 = HD_TPC, 10 = VD bottom TPC).
    pub detector: u16,
    /// Crate, or anode plane assembly, or charge readout plane.
    pub crate_id: u16,
    /// Slot in the crate.
    pub slot: u16,
    /// Stream of the board in the slot.
    pub stream: u16,
}

impl GeoId {
    /// Identifier from its four parts.
    pub const fn new(detector: u16, crate_id: u16, slot: u16, stream: u16) -> Self {
        Self { detector, crate_id, slot, stream }
    }

    /// The packed 64-bit form.
    pub const fn to_bits(self) -> u64 {
        self.detector as u64
            | (self.crate_id as u64) << 16
            | (self.slot as u64) << 32
            | (self.stream as u64) << 48
    }

    /// Identifier from its packed 64-bit form; every value is valid.
    pub const fn from_bits(bits: u64) -> Self {
        Self::new(bits as u16, (bits >> 16) as u16, (bits >> 32) as u16, (bits >> 48) as u16)
    }
}

/// Prints `detector/crate/slot/stream` in decimal, for example `3/1/0/64`.
impl fmt::Display for GeoId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}/{}", self.detector, self.crate_id, self.slot, self.stream)
    }
}

/// Reads the form that is printed.
impl FromStr for GeoId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Text { what: "stream", expected: "detector/crate/slot/stream" };
        let mut parts = text.split('/').map(|part| part.parse::<u16>().map_err(|_| wrong()));
        let mut part = || parts.next().unwrap_or_else(|| Err(wrong()));
        let geo_id = Self::new(part()?, part()?, part()?, part()?);
        if parts.next().is_none() { Ok(geo_id) } else { Err(wrong()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_read_as_it_is_printed() {
        assert_eq!("3/1/0/64".parse(), Ok(GeoId::new(3, 1, 0, 64)));
        for wrong in
            ["", "3", "3/1/0", "3/1/0/64/0", "3/1/0/", "3/1/0/x", "3/1/0/65536", "-3/1/0/1"]
        {
            assert!(wrong.parse::<GeoId>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn packs_as_detector_crate_slot_stream_from_the_low_end() {
        let geo = GeoId::new(3, 1, 2, 64);
        assert_eq!(geo.to_bits(), 3 | 1 << 16 | 2 << 32 | 64 << 48);
        assert_eq!(GeoId::from_bits(geo.to_bits()), geo);
        assert_eq!(geo.to_string(), "3/1/2/64");
    }
}
