//! Which streams are recorded as they come.

use std::borrow::Cow;
use std::fmt;

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
    /// These; written as a list of their names.
    Listed(Vec<String>),
}

impl RawStreams {
    /// Whether `stream` is recorded.
    pub fn contains(&self, stream: &str) -> bool {
        match self {
            Self::None => false,
            Self::All => true,
            Self::Listed(streams) => streams.iter().any(|listed| listed == stream),
        }
    }

    /// Names of the streams that are listed one by one.
    pub fn listed(&self) -> &[String] {
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
                while let Some(name) = list.next_element()? {
                    streams.push(name);
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
            Self::Listed(streams) => serializer.collect_seq(streams),
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
                    "items": { "type": "string" },
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
        let streams = vec!["3/1/0/0".to_owned(), "3/1/0/64".to_owned()];
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
        for wrong in [r#""some""#, "3", "true", "[3]"] {
            let error = serde_json::from_str::<RawStreams>(wrong).unwrap_err().to_string();
            assert!(error.contains("expected"), "{error}");
        }
    }

    #[test]
    fn a_list_contains_what_it_names() {
        let (one, other) = ("3/1/0/0", "3/1/0/1");
        let listed = RawStreams::Listed(vec![one.to_owned()]);
        assert!(listed.contains(one) && !listed.contains(other));
        assert!(RawStreams::All.contains(other) && !RawStreams::None.contains(one));
    }
}
