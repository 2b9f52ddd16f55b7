//! Which processors the receiving threads keep to.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which processors the receiving threads keep to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReceiveCpus {
    /// Any; written `"any"`.
    #[default]
    Any,
    /// A physical core for each, beside the network card; written `"auto"`.
    Auto,
    /// One for each thread, by the numbers of Linux; written as a list of numbers.
    Listed(Vec<usize>),
}

impl<'de> Deserialize<'de> for ReceiveCpus {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct WordOrList;
        impl<'de> Visitor<'de> for WordOrList {
            type Value = ReceiveCpus;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"any\", \"auto\", or a list of processors such as [2, 3]")
            }

            fn visit_str<E: Error>(self, word: &str) -> Result<ReceiveCpus, E> {
                match word {
                    "any" => Ok(ReceiveCpus::Any),
                    "auto" => Ok(ReceiveCpus::Auto),
                    _ => Err(E::invalid_value(Unexpected::Str(word), &self)),
                }
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ReceiveCpus, A::Error> {
                let mut cpus = Vec::new();
                while let Some(cpu) = list.next_element()? {
                    cpus.push(cpu);
                }
                Ok(ReceiveCpus::Listed(cpus))
            }
        }
        deserializer.deserialize_any(WordOrList)
    }
}

impl Serialize for ReceiveCpus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Any => serializer.serialize_str("any"),
            Self::Auto => serializer.serialize_str("auto"),
            Self::Listed(cpus) => serializer.collect_seq(cpus),
        }
    }
}

impl JsonSchema for ReceiveCpus {
    fn schema_name() -> Cow<'static, str> {
        "ReceiveCpus".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "oneOf": [
                { "const": "any", "description": "Where the system puts them." },
                { "const": "auto", "description": "A physical core for each, beside the card." },
                {
                    "type": "array",
                    "items": { "type": "integer", "minimum": 0, "maximum": 1023 },
                    "description": "These, one for each thread.",
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
        for (value, text) in [
            (ReceiveCpus::Any, r#""any""#),
            (ReceiveCpus::Auto, r#""auto""#),
            (ReceiveCpus::Listed(vec![2, 3]), "[2,3]"),
        ] {
            assert_eq!(serde_json::from_str::<ReceiveCpus>(text).unwrap(), value);
            assert_eq!(serde_json::to_string(&value).unwrap(), text);
        }
        let error = serde_json::from_str::<ReceiveCpus>(r#""all""#).unwrap_err().to_string();
        assert!(error.contains("expected \"any\", \"auto\", or a list"), "{error}");
    }
}
