//! What the level-0 processor itself has of an event.

use core::fmt;

use crate::error::Result;
use crate::layout::{array, put};
use crate::little_endian as le;
use crate::record::Record;

/// Sources whose primitives the processor has.
pub const SOURCES: usize = 7;

mod field {
    use super::SOURCES;

    pub const REFERENCE_FINE: usize = 0;
    pub const DATA_TYPE: usize = 1;
    pub const PRIMITIVES: usize = 2;
    pub const PREVIOUS_TIMESTAMP: usize = PRIMITIVES + 2 * SOURCES;
    pub const TRIGGER_TYPE: usize = PREVIOUS_TIMESTAMP + 4;
    pub const PREVIOUS_TRIGGER_TYPE: usize = TRIGGER_TYPE + 1;
    pub const FLAGS: usize = PREVIOUS_TRIGGER_TYPE + 1;
    pub const RESERVED: usize = FLAGS + 2;
    pub const FINE: usize = RESERVED + 8;
    pub const PADDING: usize = FINE + 3 * SOURCES;
    pub const NEIGHBOURS: usize = PADDING + 1;
    pub const SPARE: usize = NEIGHBOURS + 4 * SOURCES;
    pub const END: usize = SPARE + 6;
}

/// Primitives that the level-0 processor matched, and what it decided: 88 bytes, little-endian.
///
/// Source: NA62/na62-farm-lib, `structs/L0TPHeader.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct L0Data {
    /// Fine time of the reference primitive.
    pub reference_fine: u8,
    /// What the event is of: physics, a downscaled control trigger, calibration.
    pub data_type: u8,
    /// Id of the matched primitive of each source.
    pub primitives: [u16; SOURCES],
    /// Time stamp of the trigger before, in ticks.
    pub previous_timestamp: u32,
    /// Trigger type of the event.
    pub trigger_type: u8,
    /// Trigger type of the event before.
    pub previous_trigger_type: u8,
    /// A bit for each mask that held.
    pub flags: u16,
    /// Fine times of each source in the slots N, N + 1 and N - 1.
    pub fine: [[u8; 3]; SOURCES],
    /// Ids of each source in the slots N + 1 and N - 1.
    pub neighbours: [[u16; 2]; SOURCES],
}

impl Record for L0Data {
    const FORMAT: &'static str = "level-0 data";
    const LEN: usize = field::END;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let source = core::array::from_fn::<usize, SOURCES, _>(|source| source);
        let neighbours = |source: usize| {
            [0, 2].map(|offset| le::u16(bytes, field::NEIGHBOURS + 4 * source + offset))
        };
        Self {
            reference_fine: bytes[field::REFERENCE_FINE],
            data_type: bytes[field::DATA_TYPE],
            primitives: source.map(|source| le::u16(bytes, field::PRIMITIVES + 2 * source)),
            previous_timestamp: le::u32(bytes, field::PREVIOUS_TIMESTAMP),
            trigger_type: bytes[field::TRIGGER_TYPE],
            previous_trigger_type: bytes[field::PREVIOUS_TRIGGER_TYPE],
            flags: le::u16(bytes, field::FLAGS),
            fine: source.map(|source| array(bytes, field::FINE + 3 * source)),
            neighbours: source.map(neighbours),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LEN].fill(0);
        bytes[field::REFERENCE_FINE] = self.reference_fine;
        bytes[field::DATA_TYPE] = self.data_type;
        put(bytes, field::PREVIOUS_TIMESTAMP, self.previous_timestamp.to_le_bytes());
        bytes[field::TRIGGER_TYPE] = self.trigger_type;
        bytes[field::PREVIOUS_TRIGGER_TYPE] = self.previous_trigger_type;
        put(bytes, field::FLAGS, self.flags.to_le_bytes());
        for source in 0..SOURCES {
            put(bytes, field::PRIMITIVES + 2 * source, self.primitives[source].to_le_bytes());
            put(bytes, field::FINE + 3 * source, self.fine[source]);
            let [next, previous] = self.neighbours[source];
            put(bytes, field::NEIGHBOURS + 4 * source, next.to_le_bytes());
            put(bytes, field::NEIGHBOURS + 4 * source + 2, previous.to_le_bytes());
        }
    }
}

/// Prints one field a line.
impl fmt::Display for L0Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", Self::FORMAT)?;
        writeln!(f, "  {:<22} {}/256 tick", "reference_fine", self.reference_fine)?;
        writeln!(f, "  {:<22} {}", "data_type", self.data_type)?;
        writeln!(f, "  {:<22} {:x?}", "primitives", self.primitives)?;
        writeln!(f, "  {:<22} {} ticks", "previous_timestamp", self.previous_timestamp)?;
        writeln!(f, "  {:<22} {}", "trigger_type", self.trigger_type)?;
        writeln!(f, "  {:<22} {}", "previous_trigger_type", self.previous_trigger_type)?;
        writeln!(f, "  {:<22} {:#06x}", "flags", self.flags)?;
        writeln!(f, "  {:<22} {:?}", "fine", self.fine)?;
        write!(f, "  {:<22} {:x?}", "neighbours", self.neighbours)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_lie_in_88_bytes_the_core_in_the_first_32() {
        assert_eq!((field::END, field::FINE), (88, 32));
        let mut bytes: [u8; 88] = core::array::from_fn(|at| at as u8);
        let data = L0Data::parse(&bytes).unwrap();
        assert_eq!((data.reference_fine, data.primitives[6]), (0, 0x0f0e));
        assert_eq!((data.previous_timestamp, data.trigger_type), (0x1312_1110, 20));
        assert_eq!((data.flags, data.fine[0], data.fine[6]), (0x1716, [32, 33, 34], [50, 51, 52]));
        assert_eq!(data.neighbours[6], [0x4f4e, 0x5150]);
        data.emit(&mut bytes);
        assert_eq!((bytes[24..32].to_vec(), bytes[53]), (vec![0; 8], 0));
        assert!(data.to_string().contains("\n  flags                  0x1716\n"));
    }

    proptest! {
        #[test]
        fn every_block_comes_back(bytes: [[u8; 11]; 8]) {
            let data = L0Data::read(bytes.as_flattened());
            let mut copy = [0xa5; L0Data::LEN];
            data.emit(&mut copy);
            prop_assert_eq!(L0Data::read(&copy), data);
        }
    }
}
