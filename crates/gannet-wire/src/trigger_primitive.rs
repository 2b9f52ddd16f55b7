//! Trigger primitive, version 2: one hit on one channel, 24 bytes.

use core::fmt;

use crate::detector::Detector;
use crate::error::{Error, Result};
use crate::little_endian as le;
use crate::record::{Record, Records};

/// A trigger primitive (TP) in its stored form: three little-endian 64-bit words.
///
/// The stored form is also the form used in memory, so a kernel writes it once and everything
/// after it, the network and the file included, moves it unchanged.
///
/// ```text
/// word 0   63             48 47            24 23     16 15      8 7       0
///         +-----------------+----------------+---------+---------+---------+
///         | samples over    |    channel     |  detid  |  flag   | version |
///         +-----------------+----------------+---------+---------+---------+
/// word 1  |                       time_start (ticks)                       |
/// word 2  +-----------------+----------------------------+-----------------+
///         |   adc_peak (16) |     adc_integral (32)      | samples to peak |
///         +-----------------+----------------------------+-----------------+
/// ```
///
/// Source: DUNE-DAQ/trgdataformats `TriggerPrimitive.hpp`, version 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct TriggerPrimitive {
    /// The three words, in native byte order in memory and little-endian when stored.
    pub words: [u64; 3],
}

impl TriggerPrimitive {
    /// Bytes of the stored form.
    pub const LEN: usize = 24;
    /// Version that this layout carries.
    pub const VERSION: u8 = 2;
    /// Channel number that stands for no channel; the largest that 24 bits hold.
    pub const INVALID_CHANNEL: u32 = 0xff_ffff;
    /// A primitive of no hit: channel, detector, times and lengths are all ones, charges are zero.
    pub const INVALID: Self = Self::new(Repr {
        channel: Self::INVALID_CHANNEL,
        detid: u8::MAX,
        flag: 0,
        time_start: u64::MAX,
        samples_over_threshold: u16::MAX,
        samples_to_peak: u16::MAX,
        adc_integral: 0,
        adc_peak: 0,
    });

    /// A primitive of the current version.
    ///
    /// A channel above 24 bits becomes [`INVALID_CHANNEL`](Self::INVALID_CHANNEL), never another
    /// channel; all other fields fit by their type.
    #[inline]
    pub const fn new(repr: Repr) -> Self {
        let channel = if repr.channel < Self::INVALID_CHANNEL {
            repr.channel as u64
        } else {
            Self::INVALID_CHANNEL as u64
        };
        let identity = Self::VERSION as u64
            | (repr.flag as u64) << 8
            | (repr.detid as u64) << 16
            | channel << 24
            | (repr.samples_over_threshold as u64) << 48;
        let pulse = repr.samples_to_peak as u64
            | (repr.adc_integral as u64) << 16
            | (repr.adc_peak as u64) << 48;
        Self { words: [identity, repr.time_start, pulse] }
    }

    /// The fields as a plain struct.
    pub const fn repr(&self) -> Repr {
        Repr {
            channel: self.channel(),
            detid: self.detid(),
            flag: self.flag(),
            time_start: self.time_start(),
            samples_over_threshold: self.samples_over_threshold(),
            samples_to_peak: self.samples_to_peak(),
            adc_integral: self.adc_integral(),
            adc_peak: self.adc_peak(),
        }
    }

    /// The primitive of a stored form, of whatever version; [`Record::parse`] tests it.
    #[inline]
    pub const fn from_le_bytes(bytes: [u8; Self::LEN]) -> Self {
        let ([a, b, c], []) = bytes.as_chunks::<8>() else { unreachable!() };
        Self { words: [u64::from_le_bytes(*a), u64::from_le_bytes(*b), u64::from_le_bytes(*c)] }
    }

    /// The stored form.
    #[inline]
    pub fn to_le_bytes(self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        self.emit(&mut bytes);
        bytes
    }

    /// Layout version, 2 in a valid primitive.
    pub const fn version(&self) -> u8 {
        self.words[0] as u8
    }

    /// Flag bits, 0 unless a producer sets them.
    pub const fn flag(&self) -> u8 {
        (self.words[0] >> 8) as u8
    }

    /// Detector identifier.
    pub const fn detid(&self) -> u8 {
        (self.words[0] >> 16) as u8
    }

    /// Offline channel number, 24 bits.
    pub const fn channel(&self) -> u32 {
        (self.words[0] >> 24) as u32 & 0xff_ffff
    }

    /// Number of samples over threshold.
    pub const fn samples_over_threshold(&self) -> u16 {
        (self.words[0] >> 48) as u16
    }

    /// Time of the first sample over threshold, in ticks.
    pub const fn time_start(&self) -> u64 {
        self.words[1]
    }

    /// Samples from the start of the hit to its peak.
    pub const fn samples_to_peak(&self) -> u16 {
        self.words[2] as u16
    }

    /// Sum of the samples over threshold, in ADC counts above the pedestal.
    pub const fn adc_integral(&self) -> u32 {
        (self.words[2] >> 16) as u32
    }

    /// Largest sample of the hit, in ADC counts above the pedestal.
    pub const fn adc_peak(&self) -> u16 {
        (self.words[2] >> 48) as u16
    }

    /// Order in which primitives are merged and stored: start time, then channel.
    pub const fn time_order(&self) -> (u64, u32) {
        (self.time_start(), self.channel())
    }
}

/// The fields of a primitive, to build one from; see the accessors of [`TriggerPrimitive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repr {
    /// Offline channel number, 24 bits.
    pub channel: u32,
    /// Detector identifier.
    pub detid: u8,
    /// Flag bits, 0 unless a producer sets them.
    pub flag: u8,
    /// Time of the first sample over threshold, in ticks.
    pub time_start: u64,
    /// Number of samples over threshold.
    pub samples_over_threshold: u16,
    /// Samples from the start of the hit to its peak.
    pub samples_to_peak: u16,
    /// Sum of the samples over threshold, in ADC counts above the pedestal.
    pub adc_integral: u32,
    /// Largest sample of the hit, in ADC counts above the pedestal.
    pub adc_peak: u16,
}

impl From<Repr> for TriggerPrimitive {
    fn from(repr: Repr) -> Self {
        Self::new(repr)
    }
}

impl Record for TriggerPrimitive {
    const FORMAT: &'static str = "trigger primitive";
    const LEN: usize = Self::LEN;

    fn check(bytes: &[u8]) -> Result<()> {
        match bytes[0] {
            Self::VERSION => Ok(()),
            got => Err(Error::Version { format: Self::FORMAT, known: "2", got: got.into() }),
        }
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Self { words: [le::u64(bytes, 0), le::u64(bytes, 8), le::u64(bytes, 16)] }
    }

    #[inline]
    fn emit(&self, bytes: &mut [u8]) {
        for (word, chunk) in self.words.iter().zip(bytes[..Self::LEN].chunks_exact_mut(8)) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
    }
}

/// The primitives that fill `bytes`, as in the payload of a fragment.
///
/// # Errors
/// When the bytes are not a whole number of primitives, or one of them is not of version 2.
pub fn primitives(bytes: &[u8]) -> Result<Records<'_, TriggerPrimitive>> {
    Records::new_checked(bytes)
}

/// Prints every field with its unit on one line.
impl fmt::Display for TriggerPrimitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "channel {}, detector {}, start {} ticks, {} samples over threshold, \
             peak {} ADC after {} samples, integral {} ADC, flag {:#04x}",
            self.channel(),
            Detector::from_number(self.detid().into()),
            self.time_start(),
            self.samples_over_threshold(),
            self.adc_peak(),
            self.samples_to_peak(),
            self.adc_integral(),
            self.flag()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::emit_all;
    use proptest::prelude::*;

    const HIT: Repr = Repr {
        channel: 0x12_3456,
        detid: 3,
        flag: 1,
        time_start: 0x1122_3344_5566_7788,
        samples_over_threshold: 0x789a,
        samples_to_peak: 0x0102,
        adc_integral: 0x0304_0506,
        adc_peak: 0x0708,
    };

    /// The same values in the C++ struct of bit fields, as gcc lays it out.
    const BYTES: [u8; 24] = [
        0x02, 0x01, 0x03, 0x56, 0x34, 0x12, 0x9a, 0x78, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22,
        0x11, 0x02, 0x01, 0x06, 0x05, 0x04, 0x03, 0x08, 0x07,
    ];

    #[test]
    fn stored_form_is_that_of_the_bit_fields() {
        let hit = TriggerPrimitive::new(HIT);
        assert_eq!(hit.to_le_bytes(), BYTES);
        assert_eq!(TriggerPrimitive::from_le_bytes(BYTES), hit);
        assert_eq!(TriggerPrimitive::parse(&BYTES), Ok(hit));
        assert_eq!(hit.repr(), HIT);
    }

    #[test]
    fn prints_every_field() {
        let hit = TriggerPrimitive::new(Repr { channel: 77, time_start: 1000, ..HIT });
        assert_eq!(
            hit.to_string(),
            "channel 77, detector HD_TPC, start 1000 ticks, 30874 samples over threshold, \
             peak 1800 ADC after 258 samples, integral 50595078 ADC, flag 0x01"
        );
    }

    #[test]
    fn a_channel_that_does_not_fit_becomes_the_invalid_one() {
        for channel in [0xff_ffff, 0x100_0000, 0x100_0001, u32::MAX] {
            let hit = TriggerPrimitive::new(Repr { channel, ..HIT });
            assert_eq!(hit.channel(), TriggerPrimitive::INVALID_CHANNEL);
            assert_eq!(hit.samples_over_threshold(), HIT.samples_over_threshold);
        }
    }

    #[test]
    fn the_invalid_primitive_is_dunes_default() {
        let invalid = TriggerPrimitive::INVALID;
        assert_eq!(invalid.words, [0xffff_ffff_ffff_0002, u64::MAX, 0xffff]);
    }

    #[test]
    fn malformed_version() {
        let mut bytes = BYTES;
        bytes[0] = 1;
        let error = Error::Version { format: "trigger primitive", known: "2", got: 1 };
        assert_eq!(TriggerPrimitive::parse(&bytes), Err(error));
        assert_eq!(primitives(&[BYTES, bytes].concat()).unwrap_err(), error);
    }

    #[test]
    fn malformed_length() {
        let truncated = Error::Truncated { format: "trigger primitive", expected: 24, got: 23 };
        assert_eq!(TriggerPrimitive::parse(&BYTES[..23]), Err(truncated));
        let remainder = Error::Remainder { format: "trigger primitive", unit: 24, got: 23 };
        assert_eq!(primitives(&BYTES[..23]).unwrap_err(), remainder);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn primitives_come_back_from_a_payload(
            words in prop::collection::vec(any::<[u64; 3]>(), 0..20)
        ) {
            let hits: Vec<_> = words
                .iter()
                .map(|&[a, b, c]| TriggerPrimitive { words: [a & !0xff | 2, b, c] })
                .collect();
            let mut bytes = vec![0; hits.len() * TriggerPrimitive::LEN];
            emit_all(&hits, &mut bytes);
            let read = primitives(&bytes).unwrap();
            prop_assert_eq!(read.len(), hits.len());
            prop_assert_eq!(read.collect::<Vec<_>>(), hits.clone());
            for hit in hits {
                prop_assert_eq!(TriggerPrimitive::new(hit.repr()), hit);
            }
        }
    }
}
