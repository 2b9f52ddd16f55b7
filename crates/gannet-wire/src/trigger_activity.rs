//! Trigger activity, version 2: a group of primitives that an algorithm put together.

use core::fmt;

use crate::detector::Detector;
use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::overlay::{Overlay, Overlays};
use crate::record::Record;
use crate::trigger_primitive::TriggerPrimitive;

/// Offsets of the fields, as a C++ compiler pads the struct on a 64-bit machine.
mod field {
    pub const VERSION: usize = 0;
    pub const TIME_START: usize = 8;
    pub const TIME_END: usize = 16;
    pub const TIME_PEAK: usize = 24;
    pub const TIME_ACTIVITY: usize = 32;
    pub const CHANNEL_START: usize = 40;
    pub const CHANNEL_END: usize = 44;
    pub const CHANNEL_PEAK: usize = 48;
    pub const ADC_INTEGRAL: usize = 56;
    pub const ADC_PEAK: usize = 64;
    pub const DETID: usize = 66;
    pub const TYPE: usize = 68;
    pub const ALGORITHM: usize = 72;
    pub const END: usize = 80;
}

numbered! {
    /// Kind of sensor that an activity was found on.
    pub enum Type: i32 {
        Unknown = 0 => "Unknown",
        Tpc = 1 => "TPC",
        Pds = 2 => "PDS",
    }
}

numbered! {
    /// Algorithm that made an activity.
    pub enum Algorithm: i32 {
        Unknown = 0 => "Unknown",
        Supernova = 1 => "Supernova",
        Prescale = 2 => "Prescale",
        AdcSimpleWindow = 3 => "ADCSimpleWindow",
        HorizontalMuon = 4 => "HorizontalMuon",
        MichelElectron = 5 => "MichelElectron",
        Dbscan = 6 => "DBSCAN",
        PlaneCoincidence = 7 => "PlaneCoincidence",
        ChannelDistance = 8 => "ChannelDistance",
        Bundle = 9 => "Bundle",
        ChannelAdjacency = 10 => "ChannelAdjacency",
        Swift = 11 => "SWIFT",
    }
}

/// The data of a trigger activity (TA): times, channels and charge of the whole group.
///
/// ```text
///  byte  0        2       4               8
///      0 +---+----------------------------+
///        |ver|           padding          |
///      8 +---+----------------------------+
///        |           time_start           |
///     16 +--------------------------------+
///        |            time_end            |
///     24 +--------------------------------+
///        |           time_peak            |
///     32 +--------------------------------+
///        |         time_activity          |
///     40 +----------------+---------------+
///        | channel_start  |  channel_end  |
///     48 +----------------+---------------+
///        |  channel_peak  |    padding    |
///     56 +----------------+---------------+
///        |          adc_integral          |
///     64 +--------+---+---+---------------+
///        |adc_peak|det|pad|     type      |
///     72 +--------+---+---+---------------+
///        |   algorithm    |    padding    |
///        +----------------+---------------+
/// ```
///
/// Version and detector have one byte each: in version 2 the byte after them is padding, which
/// may hold anything when read and is written as zero.
///
/// Source: DUNE-DAQ/trgdataformats `TriggerActivityData.hpp`, version 2, and `Types.hpp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TriggerActivityData {
    /// Start of the earliest primitive, in ticks.
    pub time_start: u64,
    /// End of the last primitive, in ticks.
    pub time_end: u64,
    /// Time of the largest sample, in ticks.
    pub time_peak: u64,
    /// Time that stands for the activity, in ticks.
    pub time_activity: u64,
    /// Lowest offline channel number.
    pub channel_start: u32,
    /// Highest offline channel number.
    pub channel_end: u32,
    /// Offline channel number of the largest sample.
    pub channel_peak: u32,
    /// Sum of the integrals of the primitives, in ADC counts.
    pub adc_integral: u64,
    /// Largest sample, in ADC counts above the pedestal.
    pub adc_peak: u16,
    /// Detector identifier.
    pub detid: u8,
    /// Kind of sensor.
    pub sensor: Type,
    /// Algorithm that made the activity.
    pub algorithm: Algorithm,
}

impl TriggerActivityData {
    /// Version that this layout carries.
    pub const VERSION: u8 = 2;
}

/// A stored trigger activity: its data and the primitives it was made from.
pub type TriggerActivity<'a> = Overlay<'a, TriggerActivityData, TriggerPrimitive>;

/// Trigger activities stored one after the other, as in the payload of a fragment.
pub type TriggerActivities<'a> = Overlays<'a, TriggerActivityData, TriggerPrimitive>;

impl Record for TriggerActivityData {
    const FORMAT: &'static str = "trigger activity";
    const LEN: usize = field::END;

    fn check(bytes: &[u8]) -> Result<()> {
        match bytes[field::VERSION] {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "2", got: got.into() }),
        }
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            time_start: le::u64(bytes, field::TIME_START),
            time_end: le::u64(bytes, field::TIME_END),
            time_peak: le::u64(bytes, field::TIME_PEAK),
            time_activity: le::u64(bytes, field::TIME_ACTIVITY),
            channel_start: le::u32(bytes, field::CHANNEL_START),
            channel_end: le::u32(bytes, field::CHANNEL_END),
            channel_peak: le::u32(bytes, field::CHANNEL_PEAK),
            adc_integral: le::u64(bytes, field::ADC_INTEGRAL),
            adc_peak: le::u16(bytes, field::ADC_PEAK),
            detid: bytes[field::DETID],
            sensor: Type::from_number(le::i32(bytes, field::TYPE)),
            algorithm: Algorithm::from_number(le::i32(bytes, field::ALGORITHM)),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[..Self::LEN].fill(0);
        bytes[field::VERSION] = Self::VERSION;
        bytes[field::DETID] = self.detid;
        le::put(bytes, field::TIME_START, self.time_start.to_le_bytes());
        le::put(bytes, field::TIME_END, self.time_end.to_le_bytes());
        le::put(bytes, field::TIME_PEAK, self.time_peak.to_le_bytes());
        le::put(bytes, field::TIME_ACTIVITY, self.time_activity.to_le_bytes());
        le::put(bytes, field::CHANNEL_START, self.channel_start.to_le_bytes());
        le::put(bytes, field::CHANNEL_END, self.channel_end.to_le_bytes());
        le::put(bytes, field::CHANNEL_PEAK, self.channel_peak.to_le_bytes());
        le::put(bytes, field::ADC_INTEGRAL, self.adc_integral.to_le_bytes());
        le::put(bytes, field::ADC_PEAK, self.adc_peak.to_le_bytes());
        le::put(bytes, field::TYPE, self.sensor.number().to_le_bytes());
        le::put(bytes, field::ALGORITHM, self.algorithm.number().to_le_bytes());
    }
}

/// Prints every field with its unit on one line.
impl fmt::Display for TriggerActivityData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "algorithm {}, type {}, detector {}, from {} to {} ticks, time {} ticks, \
             channels {} to {}, peak {} ADC at {} ticks on channel {}, integral {} ADC",
            self.algorithm,
            self.sensor,
            Detector::from_number(self.detid.into()),
            self.time_start,
            self.time_end,
            self.time_activity,
            self.channel_start,
            self.channel_end,
            self.adc_peak,
            self.time_peak,
            self.channel_peak,
            self.adc_integral
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay;
    use crate::trigger_primitive::Repr;
    use proptest::prelude::*;

    const DATA: TriggerActivityData = TriggerActivityData {
        time_start: 0x10,
        time_end: 0x20,
        time_peak: 0x18,
        time_activity: 0x19,
        channel_start: 100,
        channel_end: 130,
        channel_peak: 117,
        adc_integral: 0x1_0000_0000,
        adc_peak: 0x0203,
        detid: 3,
        sensor: Type::Tpc,
        algorithm: Algorithm::ChannelAdjacency,
    };

    fn primitive(channel: u32) -> TriggerPrimitive {
        TriggerPrimitive::new(Repr { channel, ..TriggerPrimitive::INVALID.repr() })
    }

    fn stored(n_inputs: u32) -> Vec<u8> {
        let inputs: Vec<_> = (0..n_inputs).map(primitive).collect();
        let mut bytes = vec![0xee; TriggerActivity::HEADER_LEN + inputs.len() * 24];
        overlay::emit(&DATA, &inputs, &mut bytes);
        bytes
    }

    #[test]
    fn fields_lie_where_the_compiler_puts_them() {
        let mut bytes = [0xee; TriggerActivityData::LEN];
        DATA.emit(&mut bytes);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!([bytes[8], bytes[16], bytes[24], bytes[32]], [0x10, 0x20, 0x18, 0x19]);
        assert_eq!(bytes[40..48], [100, 0, 0, 0, 130, 0, 0, 0]);
        assert_eq!(bytes[48..56], [117, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes[56..64], [0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[64..72], [3, 2, 3, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[72..80], [10, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn padding_is_not_read() {
        let mut bytes = stored(0);
        for padding in [1, 7, 52, 55, 67, 76, 79] {
            bytes[padding] = 0xaa;
        }
        assert_eq!(TriggerActivityData::parse(&bytes), Ok(DATA));
    }

    #[test]
    fn overlay_gives_data_and_inputs() {
        let mut bytes = stored(3);
        let len = bytes.len();
        bytes.extend([0xff; 5]);
        let activity = TriggerActivity::new_checked(&bytes).unwrap();
        assert_eq!(activity.data(), DATA);
        let channels: Vec<_> = activity.inputs().map(|input| input.channel()).collect();
        assert_eq!(channels, [0, 1, 2]);
        assert_eq!(activity.as_bytes(), &bytes[..len]);
        assert!(activity.to_string().ends_with("integral 4294967296 ADC, 3 inputs"));
    }

    #[test]
    fn payload_of_several_activities() {
        let bytes = [stored(2), stored(0), stored(1)].concat();
        let counts: Vec<_> = TriggerActivities::new(&bytes)
            .map(|activity| activity.unwrap().inputs().len())
            .collect();
        assert_eq!(counts, [2, 0, 1]);
    }

    #[test]
    fn malformed_payload_ends_with_one_error() {
        let mut bytes = [stored(2), stored(1)].concat();
        bytes.pop();
        let activities: Vec<_> = TriggerActivities::new(&bytes).collect();
        assert_eq!(activities.len(), 2);
        assert!(activities[0].is_ok() && activities[1].is_err());
    }

    #[test]
    fn malformed_count_is_refused_before_use() {
        for count in [3, u64::MAX, u64::MAX / 24, 1 << 61] {
            let mut bytes = stored(2);
            bytes[80..88].copy_from_slice(&count.to_le_bytes());
            let error = TriggerActivity::new_checked(&bytes).unwrap_err();
            let max = 2;
            assert_eq!(
                error,
                Error::Range {
                    format: "trigger activity",
                    field: "n_inputs",
                    min: 0,
                    max,
                    got: count
                }
            );
        }
    }

    #[test]
    fn malformed_version_of_data_or_input() {
        let mut bytes = stored(2);
        bytes[0] = 1;
        let error = Error::Version { format: "trigger activity", known: "2", got: 1 };
        assert_eq!(TriggerActivity::new_checked(&bytes).unwrap_err(), error);
        let mut bytes = stored(2);
        bytes[88 + 24] = 1;
        let error = Error::Version { format: "trigger primitive", known: "2", got: 1 };
        assert_eq!(TriggerActivity::new_checked(&bytes).unwrap_err(), error);
    }

    #[test]
    fn malformed_length() {
        let error = Error::Truncated { format: "trigger activity", expected: 88, got: 87 };
        assert_eq!(TriggerActivity::new_checked(&stored(0)[..87]).unwrap_err(), error);
        let error = Error::Truncated { format: "trigger activity", expected: 80, got: 79 };
        assert_eq!(TriggerActivityData::parse(&stored(0)[..79]), Err(error));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn every_stored_value_comes_back(
            low in any::<[u8; 40]>(),
            high in any::<[u8; 40]>(),
        ) {
            let mut stored = [low, high].concat();
            stored[..8].copy_from_slice(&[2, 0, 0, 0, 0, 0, 0, 0]);
            stored[52..56].fill(0);
            stored[67] = 0;
            stored[76..].fill(0);
            let mut bytes = [0; 80];
            TriggerActivityData::parse(&stored).unwrap().emit(&mut bytes);
            prop_assert_eq!(&bytes[..], stored);
        }
    }
}
