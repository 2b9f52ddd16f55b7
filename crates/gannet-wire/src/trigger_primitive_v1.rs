//! Trigger primitive, version 1: the 56-byte record of files written until 2024.

use core::fmt;

use crate::detector::Detector;
use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::record::Record;

/// Offsets of the fields, as a C++ compiler pads the struct on a 64-bit machine.
mod field {
    pub const VERSION: usize = 0;
    pub const TIME_START: usize = 8;
    pub const TIME_PEAK: usize = 16;
    pub const TIME_OVER_THRESHOLD: usize = 24;
    pub const CHANNEL: usize = 32;
    pub const ADC_INTEGRAL: usize = 36;
    pub const ADC_PEAK: usize = 40;
    pub const DETID: usize = 42;
    pub const TYPE: usize = 44;
    pub const ALGORITHM: usize = 48;
    pub const FLAG: usize = 52;
    pub const END: usize = 56;
}

numbered! {
    /// Kind of sensor that a primitive was found on.
    pub enum Type: i32 {
        Unknown = 0 => "Unknown",
        Tpc = 1 => "TPC",
        Pds = 2 => "PDS",
    }
}

numbered! {
    /// Algorithm that found a primitive.
    pub enum Algorithm: i32 {
        Unknown = 0 => "Unknown",
        SimpleThreshold = 1 => "SimpleThreshold",
        AbsRunningSum = 2 => "AbsRunningSum",
        RunningSum = 3 => "RunningSum",
    }
}

/// A trigger primitive as version 1 stored it: a C++ struct with its padding.
///
/// ```text
///  byte  0        2       4               8
///      0 +--------+-----------------------+
///        |version |        padding        |
///      8 +--------+-----------------------+
///        |           time_start           |
///     16 +--------------------------------+
///        |           time_peak            |
///     24 +--------------------------------+
///        |      time_over_threshold       |
///     32 +----------------+---------------+
///        |    channel     | adc_integral  |
///     40 +--------+-------+---------------+
///        |adc_peak| detid |     type      |
///     48 +--------+-------+-------+-------+
///        |   algorithm    | flag  |padding|
///        +----------------+-------+-------+
/// ```
///
/// Padding may hold anything when read and is written as zero.
///
/// Source: DUNE-DAQ/trgdataformats `TriggerPrimitive.hpp`, version 1 (until 2024).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TriggerPrimitiveV1 {
    /// Time of the first sample over threshold, in ticks.
    pub time_start: u64,
    /// Time of the largest sample, in ticks.
    pub time_peak: u64,
    /// Length of the hit, in ticks.
    pub time_over_threshold: u64,
    /// Offline channel number.
    pub channel: i32,
    /// Sum of the samples over threshold, in ADC counts above the pedestal.
    pub adc_integral: u32,
    /// Largest sample of the hit, in ADC counts above the pedestal.
    pub adc_peak: u16,
    /// Detector identifier.
    pub detid: u16,
    /// Kind of sensor.
    pub sensor: Type,
    /// Algorithm that found the hit.
    pub algorithm: Algorithm,
    /// Flag bits, 0 unless a producer sets them.
    pub flag: u16,
}

impl TriggerPrimitiveV1 {
    /// Version that this layout carries.
    pub const VERSION: u16 = 1;
}

impl Record for TriggerPrimitiveV1 {
    const FORMAT: &'static str = "trigger primitive v1";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        match le::u16(bytes, field::VERSION) {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "1", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            time_start: le::u64(bytes, field::TIME_START),
            time_peak: le::u64(bytes, field::TIME_PEAK),
            time_over_threshold: le::u64(bytes, field::TIME_OVER_THRESHOLD),
            channel: le::i32(bytes, field::CHANNEL),
            adc_integral: le::u32(bytes, field::ADC_INTEGRAL),
            adc_peak: le::u16(bytes, field::ADC_PEAK),
            detid: le::u16(bytes, field::DETID),
            sensor: Type::from_number(le::i32(bytes, field::TYPE)),
            algorithm: Algorithm::from_number(le::i32(bytes, field::ALGORITHM)),
            flag: le::u16(bytes, field::FLAG),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LEN].fill(0);
        le::put(bytes, field::VERSION, Self::VERSION.to_le_bytes());
        le::put(bytes, field::TIME_START, self.time_start.to_le_bytes());
        le::put(bytes, field::TIME_PEAK, self.time_peak.to_le_bytes());
        le::put(bytes, field::TIME_OVER_THRESHOLD, self.time_over_threshold.to_le_bytes());
        le::put(bytes, field::CHANNEL, self.channel.to_le_bytes());
        le::put(bytes, field::ADC_INTEGRAL, self.adc_integral.to_le_bytes());
        le::put(bytes, field::ADC_PEAK, self.adc_peak.to_le_bytes());
        le::put(bytes, field::DETID, self.detid.to_le_bytes());
        le::put(bytes, field::TYPE, self.sensor.number().to_le_bytes());
        le::put(bytes, field::ALGORITHM, self.algorithm.number().to_le_bytes());
        le::put(bytes, field::FLAG, self.flag.to_le_bytes());
    }
}

/// Prints every field with its unit on one line.
impl fmt::Display for TriggerPrimitiveV1 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "channel {}, detector {}, start {} ticks, {} ticks over threshold, \
             peak {} ADC at {} ticks, integral {} ADC, type {}, algorithm {}, flag {:#06x}",
            self.channel,
            Detector::from_number(self.detid),
            self.time_start,
            self.time_over_threshold,
            self.adc_peak,
            self.time_peak,
            self.adc_integral,
            self.sensor,
            self.algorithm,
            self.flag
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HIT: TriggerPrimitiveV1 = TriggerPrimitiveV1 {
        time_start: 0x1000,
        time_peak: 0x1000 + 4 * 32,
        time_over_threshold: 9 * 32 + 5,
        channel: 1234,
        adc_integral: 5000,
        adc_peak: 900,
        detid: 3,
        sensor: Type::Tpc,
        algorithm: Algorithm::SimpleThreshold,
        flag: 0x0102,
    };

    #[test]
    fn fields_lie_where_the_compiler_puts_them() {
        let mut bytes = [0xee; TriggerPrimitiveV1::LEN];
        HIT.emit(&mut bytes);
        assert_eq!(bytes[..8], [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[8..16], 0x1000_u64.to_le_bytes());
        assert_eq!(bytes[16..24], 0x1080_u64.to_le_bytes());
        assert_eq!(bytes[24..32], 293_u64.to_le_bytes());
        assert_eq!(bytes[32..40], [0xd2, 0x04, 0, 0, 0x88, 0x13, 0, 0]);
        assert_eq!(bytes[40..48], [0x84, 0x03, 3, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[48..56], [1, 0, 0, 0, 0x02, 0x01, 0, 0]);
    }

    #[test]
    fn malformed_version() {
        let mut bytes = [0; TriggerPrimitiveV1::LEN];
        HIT.emit(&mut bytes);
        bytes[1] = 1;
        let error = Error::Version { format: "trigger primitive v1", known: "1", got: 0x101 };
        assert_eq!(TriggerPrimitiveV1::parse(&bytes), Err(error));
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "trigger primitive v1", expected: 56, got: 55 };
        assert_eq!(TriggerPrimitiveV1::parse(&[1; 55]), Err(error));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_stored_value_comes_back(mut stored in any::<[u8; 56]>()) {
            stored[..8].copy_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0]);
            stored[54..].fill(0);
            let mut bytes = [0; 56];
            TriggerPrimitiveV1::parse(&stored).unwrap().emit(&mut bytes);
            prop_assert_eq!(bytes, stored);
        }

    }
}
