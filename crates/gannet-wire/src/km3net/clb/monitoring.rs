//! Monitoring packets: rates, compass, temperature and FIFOs of a module, once a slice.

use core::fmt;

use super::{Header, field, read_status};
use crate::big_endian as be;
use crate::error::{Error, Result};
use crate::km3net::{CHANNELS, Status};
use crate::layout::{check_len, put};
use crate::record::Record;

const FORMAT: &str = "CLB monitoring packet";

/// Places of the fields, the header included.
mod place {
    use super::{CHANNELS, Status, field};

    pub const STATUS: usize = field::END;
    pub const RATES: usize = STATUS + 4 * Status::WORDS;
    pub const VETOED: usize = RATES + 4 * CHANNELS;
    pub const FLAGS: usize = VETOED + 4;
    pub const ANGLES: usize = FLAGS + 4;
    pub const ACCELERATION: usize = ANGLES + 12;
    pub const ROTATION: usize = ACCELERATION + 12;
    pub const MAGNETIC_FIELD: usize = ROTATION + 12;
    pub const TEMPERATURE: usize = MAGNETIC_FIELD + 12;
    pub const HUMIDITY: usize = TEMPERATURE + 2;
    pub const OPTICAL_FULL: usize = HUMIDITY + 2;
    pub const ACOUSTIC_FULL: usize = OPTICAL_FULL + 4;
    pub const FLUSHES: usize = ACOUSTIC_FULL + 4;
    pub const SLICE_MS: usize = FLUSHES + 4;
    pub const FIFO_SIZES: usize = SLICE_MS + 4;
    pub const END: usize = FIFO_SIZES + 4;
}

/// A monitoring packet, of version 1, 2 or 3.
///
/// Source: KM3NeT/km3pipe, `io/daq.py` (`TMCHData`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Monitoring {
    /// The header, of type [`Monitoring`](super::DataType::Monitoring).
    pub header: Header,
    /// What the module says of itself.
    pub status: Status,
    /// Rate of each photomultiplier, in units of 10 Hz.
    pub rates: [u32; CHANNELS],
    /// A bit for each photomultiplier under the high-rate veto.
    pub vetoed: u32,
    /// Bit 0: the compass is valid; bits 3:1: version of the layout, 0, 1 or 3 for 1, 2 or 3.
    pub flags: u32,
    /// Yaw, pitch and roll.
    pub angles: [f32; 3],
    /// Acceleration along x, y and z.
    pub acceleration: [f32; 3],
    /// Rotation about x, y and z.
    pub rotation: [f32; 3],
    /// Magnetic field along x, y and z.
    pub magnetic_field: [f32; 3],
    /// Temperature in units of 0.01 degrees Celsius.
    pub temperature: u16,
    /// Humidity in units of 0.01 %.
    pub humidity: u16,
    /// Times that the FIFO of optical data was full.
    pub optical_full: u32,
    /// Times that the FIFO of acoustic data was full.
    pub acoustic_full: u32,
    /// Times that FIFOs were flushed.
    pub flushes: u32,
    /// Length of a slice in milliseconds, from version 2 on; else 0.
    pub slice_ms: u32,
    /// Sizes of the FIFOs of optical and acoustic times, from version 3 on; else 0.
    pub fifo_sizes: [u16; 2],
}

impl Monitoring {
    /// Version of the layout, 1 to 3.
    ///
    /// # Errors
    /// [`Error::Version`] where the flags name none of them.
    pub const fn version(&self) -> Result<u8> {
        version_of(self.flags)
    }

    /// Whether the compass (AHRS) is valid.
    pub const fn compass_is_valid(&self) -> bool {
        self.flags & 1 == 1
    }

    /// Reads a packet; what follows it is ignored.
    ///
    /// # Errors
    /// [`Error::Truncated`] when it is not whole, [`Error::Version`] for an unknown version;
    /// else as the header's check. [`Error::Unknown`] for another type.
    pub fn parse(packet: &[u8]) -> Result<Self> {
        check_len(FORMAT, packet, len_of(1))?;
        let header = Header::parse(packet)?;
        if header.data_type != super::DataType::Monitoring {
            let got = header.data_type.number().into();
            return Err(Error::Unknown { format: FORMAT, field: "type", got });
        }
        let flags = be::u32(packet, place::FLAGS);
        let version = version_of(flags)?;
        check_len(FORMAT, packet, len_of(version))?;
        let vector = |at| [0, 4, 8].map(|offset| be::f32(packet, at + offset));
        Ok(Self {
            header,
            status: read_status(packet, Status::WORDS),
            rates: core::array::from_fn(|pm| be::u32(packet, place::RATES + 4 * pm)),
            vetoed: be::u32(packet, place::VETOED),
            flags,
            angles: vector(place::ANGLES),
            acceleration: vector(place::ACCELERATION),
            rotation: vector(place::ROTATION),
            magnetic_field: vector(place::MAGNETIC_FIELD),
            temperature: be::u16(packet, place::TEMPERATURE),
            humidity: be::u16(packet, place::HUMIDITY),
            optical_full: be::u32(packet, place::OPTICAL_FULL),
            acoustic_full: be::u32(packet, place::ACOUSTIC_FULL),
            flushes: be::u32(packet, place::FLUSHES),
            slice_ms: if version >= 2 { be::u32(packet, place::SLICE_MS) } else { 0 },
            fifo_sizes: match version {
                3.. => [0, 2].map(|offset| be::u16(packet, place::FIFO_SIZES + offset)),
                _ => [0; 2],
            },
        })
    }

    /// Bytes that `emit` writes.
    ///
    /// # Errors
    /// As [`version`](Self::version).
    pub fn buffer_len(&self) -> Result<usize> {
        Ok(len_of(self.version()?))
    }

    /// Writes the packet.
    ///
    /// # Errors
    /// As [`version`](Self::version).
    ///
    /// # Panics
    /// If `bytes` is shorter than [`buffer_len`](Self::buffer_len).
    pub fn emit(&self, bytes: &mut [u8]) -> Result<()> {
        let version = self.version()?;
        let bytes = &mut bytes[..len_of(version)];
        self.header.emit(bytes);
        let mut words = |at: usize, words: &[u32]| {
            let places = bytes[at..][..4 * words.len()].as_chunks_mut().0;
            places.iter_mut().zip(words).for_each(|(place, word)| *place = word.to_be_bytes());
        };
        words(place::STATUS, &self.status.0);
        words(place::RATES, &self.rates);
        words(place::VETOED, &[self.vetoed, self.flags]);
        words(place::ANGLES, &self.angles.map(f32::to_bits));
        words(place::ACCELERATION, &self.acceleration.map(f32::to_bits));
        words(place::ROTATION, &self.rotation.map(f32::to_bits));
        words(place::MAGNETIC_FIELD, &self.magnetic_field.map(f32::to_bits));
        words(place::OPTICAL_FULL, &[self.optical_full, self.acoustic_full, self.flushes]);
        if version >= 2 {
            words(place::SLICE_MS, &[self.slice_ms]);
        }
        put(bytes, place::TEMPERATURE, self.temperature.to_be_bytes());
        put(bytes, place::HUMIDITY, self.humidity.to_be_bytes());
        if version >= 3 {
            put(bytes, place::FIFO_SIZES, self.fifo_sizes[0].to_be_bytes());
            put(bytes, place::FIFO_SIZES + 2, self.fifo_sizes[1].to_be_bytes());
        }
        Ok(())
    }
}

/// The version that flags name.
const fn version_of(flags: u32) -> Result<u8> {
    match flags >> 1 & 7 {
        0 => Ok(1),
        1 => Ok(2),
        3 => Ok(3),
        got => Err(Error::Version { format: FORMAT, known: "0, 1 and 3", got: got as u64 }),
    }
}

/// Bytes of a packet of a version.
const fn len_of(version: u8) -> usize {
    match version {
        ..=1 => place::SLICE_MS,
        2 => place::FIFO_SIZES,
        3.. => place::END,
    }
}

/// Prints one field a line, with its unit.
impl fmt::Display for Monitoring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.header)?;
        writeln!(f, "  {:<22} {}", "status", self.status)?;
        writeln!(f, "  {:<22} {:?} x 10 Hz", "rates", self.rates)?;
        writeln!(f, "  {:<22} {:#010x}", "vetoed", self.vetoed)?;
        writeln!(f, "  {:<22} {:#x}", "flags", self.flags)?;
        writeln!(f, "  {:<22} {:?}", "angles", self.angles)?;
        writeln!(f, "  {:<22} {:?}", "acceleration", self.acceleration)?;
        writeln!(f, "  {:<22} {:?}", "rotation", self.rotation)?;
        writeln!(f, "  {:<22} {:?}", "magnetic_field", self.magnetic_field)?;
        writeln!(f, "  {:<22} {} x 0.01 degrees", "temperature", self.temperature)?;
        writeln!(f, "  {:<22} {} x 0.01 %", "humidity", self.humidity)?;
        writeln!(f, "  {:<22} {} times", "optical_full", self.optical_full)?;
        writeln!(f, "  {:<22} {} times", "acoustic_full", self.acoustic_full)?;
        writeln!(f, "  {:<22} {}", "flushes", self.flushes)?;
        writeln!(f, "  {:<22} {} ms", "slice_ms", self.slice_ms)?;
        write!(f, "  {:<22} {:?}", "fifo_sizes", self.fifo_sizes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::DataType;
    use super::*;
    use crate::noise;
    use proptest::prelude::*;

    /// Bytes of a packet of `version` that are noise but for type, time and flags.
    fn packet(version: u8, seed: u64) -> Vec<u8> {
        let mut bytes = noise::bytes(seed, len_of(version));
        bytes[..4].copy_from_slice(b"TMCH");
        put(&mut bytes, 16, 5_u32.to_be_bytes());
        put(&mut bytes, place::FLAGS, [0, 0, 0, [1, 3, 7][usize::from(version) - 1]]);
        bytes
    }

    #[test]
    fn fields_lie_where_the_source_reads_them() {
        assert_eq!([1, 2, 3].map(len_of), [236, 240, 244]);
        let mut bytes = packet(3, 1);
        put(&mut bytes, 40, 700_u32.to_be_bytes());
        put(&mut bytes, 172, 1.5_f32.to_be_bytes());
        put(&mut bytes, 184, 9.75_f32.to_be_bytes());
        put(&mut bytes, 220, 2512_u16.to_be_bytes());
        put(&mut bytes, 236, 100_u32.to_be_bytes());
        let packet = Monitoring::parse(&bytes).unwrap();
        assert_eq!(packet.header.data_type, DataType::Monitoring);
        assert_eq!((packet.rates[0], packet.temperature, packet.slice_ms), (700, 2512, 100));
        assert_eq!((packet.angles[0], packet.acceleration[0]), (1.5, 9.75));
        assert!(packet.compass_is_valid() && packet.version() == Ok(3));
        assert!(packet.to_string().contains("temperature            2512 x 0.01 degrees"));
    }

    #[test]
    fn malformed_version() {
        let mut bytes = packet(3, 1);
        bytes[place::FLAGS + 3] = 2 << 1;
        let error = Error::Version { format: FORMAT, known: "0, 1 and 3", got: 2 };
        assert_eq!(Monitoring::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_length() {
        for (version, len) in [(1, 236), (2, 240), (3, 244)] {
            let error = Error::Truncated { format: FORMAT, expected: len, got: len - 1 };
            assert_eq!(Monitoring::parse(&packet(version, 1)[..len - 1]), Err(error));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn emit_after_parse_gives_back_any_packet(seed: u64, version in 1..=3_u8) {
            let bytes = packet(version, seed);
            let repr = Monitoring::parse(&bytes).unwrap();
            let mut copy = vec![0xa5; repr.buffer_len().unwrap()];
            repr.emit(&mut copy).unwrap();
            prop_assert_eq!(copy, bytes);
        }
    }
}
