//! Which streams are recorded as they come.

use std::borrow::Cow;
use std::fmt;

use gannet_wire::GeoId;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which streams are recorded as they come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RawStreams {
    /// None; written `"none"`.
    #[default]
    None,
    /// Every stream; written `"all"`.
    All,
    /// These; written as a list of texts `"detector/crate/slot/stream"`.
    Listed(Vec<GeoId>),
}

impl RawStreams {
    /// Whether `stream` is recorded.
    pub fn contains(&self, stream: GeoId) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Listed(streams) => streams.contains(&stream),
        }
    }

    /// The streams that are listed one by one.
    pub fn listed(&self) -> &[GeoId] {
        match self {
            Self::Listed(streams) => streams,
            Self::None | Self::All => &[],
        }
    }
}

impl<'de> Deserialize<'de> for RawStreams {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrList;
        impl<'de> Visitor<'de> for WordOrList {
            type Value = RawStreams;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"none\", \"all\", or a list of streams such as [\"3/1/0/0\"]")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<RawStreams, E> {
                match word {
                    "none" => Ok(RawStreams::None),
                    "all" => Ok(RawStreams::All),
                    _ => Err(E::invalid_value(serde::de::Unexpected::Str(word), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<RawStreams, A::Error> {
                let mut streams = Vec::new();
                while let Some(text) = list.next_element::<String>()? {
                    streams.push(text.parse().map_err(A::Error::custom)?);
                }
                Ok(RawStreams::Listed(streams))
            }
        }
        deserializer.deserialize_any(WordOrList)
    }
}

impl Serialize for RawStreams {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_str("none"),
            Self::All => serializer.serialize_str("all"),
            Self::Listed(streams) => serializer.collect_seq(streams.iter().map(GeoId::to_string)),
        }
    }
}

impl JsonSchema for RawStreams {
    fn schema_name() -> Cow<'static, str> {
        "RawStreams".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "none", "description": "No stream." },
                { "const": "all", "description": "Every stream." },
                {
                    "type": "array",
                    "items": { "type": "string", "pattern": r"^\d+/\d+/\d+/\d+$" },
                    "description": "These streams.",
                },
            ],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_lists_are_read_as_they_are_written() {
        let streams = vec![GeoId::new(3, 1, 0, 0), GeoId::new(3, 1, 0, 64)];
        for (value, text) in [
            (RawStreams::None, r#""none""#),
            (RawStreams::All, r#""all""#),
            (RawStreams::Listed(streams), r#"["3/1/0/0","3/1/0/64"]"#),
        ] {
            assert_eq!(serde_json::from_str::<RawStreams>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
    }

    #[test]
    fn other_values_are_refused_with_what_is_expected() {
        for wrong in [r#""some""#, "3", "true", r#"["3/1"]"#, "[3]"] {
            let error = serde_json::from_str::<RawStreams>(wrong).unwrap_err().to_string();
            assert!(error.contains("expected") || error.contains("of the form"), "{error}");
        }
    }

    #[test]
    fn a_list_contains_what_it_names() {
        let (one, other) = (GeoId::new(3, 1, 0, 0), GeoId::new(3, 1, 0, 1));
        let listed = RawStreams::Listed(vec![one]);
        assert!(listed.contains(one) && !listed.contains(other));
        assert!(RawStreams::All.contains(other) && !RawStreams::None.contains(one));
    }
}
