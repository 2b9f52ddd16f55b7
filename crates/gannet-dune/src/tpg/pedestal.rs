//! Where the pedestals of a stream start.

use std::array;
use std::borrow::Cow;
use std::fmt;

use gannet_kernels::tpg::block::{self, Block};
use gannet_kernels::tpg::{CHANNELS, SAMPLES};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A time without frames after which pedestals that start from the data start again; in ticks,
/// 0.1 s.
///
/// A pedestal that followed the samples is better than the median of 64, as long as it is of the
/// same time: shorter gaps keep it.
pub const PEDESTAL_RESTART_TICKS: u64 = 6_250_000;

/// Where the pedestals of a stream start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InitialPedestal {
    /// At the median of the samples of the first frame, channel by channel, and again after a gap
    /// longer than [`PEDESTAL_RESTART_TICKS`]; written `"data"`.
    #[default]
    Data,
    /// At so many ADC counts, all channels, once; written as a number.
    Counts(u16),
}

impl InitialPedestal {
    /// That of the published chain: above every sample.
    pub const PUBLISHED: Self = Self::Counts(16_384);
}

/// Prints what configurations have.
impl fmt::Display for InitialPedestal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data => f.pad("data"),
            Self::Counts(counts) => write!(f, "{counts}"),
        }
    }
}

impl<'de> Deserialize<'de> for InitialPedestal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrCounts;
        impl Visitor<'_> for WordOrCounts {
            type Value = InitialPedestal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"data\", or ADC counts from 0 to 16384")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<InitialPedestal, E> {
                match word {
                    "data" => Ok(InitialPedestal::Data),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }

            fn visit_u64<E: Error>(self, counts: u64) -> Result<InitialPedestal, E> {
                let small = u16::try_from(counts).map(InitialPedestal::Counts);
                small.map_err(|_| E::invalid_value(Unexpected::Unsigned(counts), &self))
            }

            fn visit_i64<E: Error>(self, counts: i64) -> Result<InitialPedestal, E> {
                let small = u16::try_from(counts).map(InitialPedestal::Counts);
                small.map_err(|_| E::invalid_value(Unexpected::Signed(counts), &self))
            }
        }
        deserializer.deserialize_any(WordOrCounts)
    }
}

impl Serialize for InitialPedestal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Data => serializer.serialize_str("data"),
            Self::Counts(counts) => serializer.serialize_u16(*counts),
        }
    }
}

impl JsonSchema for InitialPedestal {
    fn schema_name() -> Cow<'static, str> {
        "InitialPedestal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                {
                    "const": "data",
                    "description": "The median of the first frame, channel by channel; again \
                                    after 0.1 s without frames.",
                },
                { "type": "integer", "minimum": 0, "maximum": 16_384 },
            ],
        })
    }
}

/// The median of the samples of each channel.
pub(super) fn medians(block: &Block) -> [i16; CHANNELS] {
    array::from_fn(|channel| {
        let rows = block::rows(block);
        let mut samples: [u16; SAMPLES] =
            array::from_fn(|time| block::sample(&rows[time], channel));
        samples.sort_unstable();
        // 14 bits, so the sum fits.
        ((samples[SAMPLES / 2 - 1] + samples[SAMPLES / 2]) / 2) as i16
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        start: InitialPedestal,
    }

    #[test]
    fn the_median_is_not_moved_by_a_pulse() {
        let block = block::pack(|time, channel| {
            let pulse = if (20..40).contains(&time) { 3000 } else { 0 };
            900 + channel as u16 + pulse + (time % 2) as u16
        });
        // Of 64 samples 22 are low, 22 one higher, 20 far above: the 32nd and 33rd are one higher.
        assert_eq!(medians(&block), array::from_fn(|channel| 901 + channel as i16));
        let rising = block::pack(|time, _| 100 + 2 * time as u16);
        assert_eq!(medians(&rising), [163; CHANNELS]);
    }

    #[test]
    fn the_word_and_numbers_are_read_as_they_are_written() {
        for (start, text) in [
            (InitialPedestal::Data, "start = \"data\"\n"),
            (InitialPedestal::Counts(0), "start = 0\n"),
            (InitialPedestal::PUBLISHED, "start = 16384\n"),
        ] {
            assert_eq!(toml::from_str(text), Ok(Table { start }));
            assert_eq!(toml::to_string(&Table { start }).unwrap(), text);
        }
        for wrong in ["\"median\"", "-1", "70000", "1.5", "true"] {
            let error = toml::from_str::<Table>(&format!("start = {wrong}")).unwrap_err();
            assert!(error.message().contains("expected \"data\", or ADC counts"), "{error}");
        }
    }
}
