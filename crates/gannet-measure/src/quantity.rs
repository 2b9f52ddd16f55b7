//! Quantities as people write them in a configuration: a number and a unit.
//!
//! A bare number is refused, because `timeout = 100` does not say of what.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A unit: its symbol and how many base units it holds.
type Unit = (&'static str, u64);

/// Units of time in nanoseconds, largest first.
const TIME_UNITS: &[Unit] = &[
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Units of size in bytes, largest first.
const SIZE_UNITS: &[Unit] = &[
    ("TiB", 1 << 40),
    ("TB", 1_000_000_000_000),
    ("GiB", 1 << 30),
    ("GB", 1_000_000_000),
    ("MiB", 1 << 20),
    ("MB", 1_000_000),
    ("KiB", 1 << 10),
    ("kB", 1_000),
    ("B", 1),
];

/// A text is not a quantity of the kind expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{text}\" is not a {kind}; write a number and one of the units {units}, for example \"{example}\""
)]
pub struct ParseQuantityError {
    text: String,
    kind: &'static str,
    units: String,
    example: &'static str,
}

/// Parses `text` as a number and a unit, exact to the base unit.
fn parse(
    text: &str,
    kind: &'static str,
    units: &[Unit],
    example: &'static str,
) -> Result<u64, ParseQuantityError> {
    let refuse = || ParseQuantityError {
        text: text.to_owned(),
        kind,
        units: units.iter().map(|unit| unit.0).collect::<Vec<_>>().join(", "),
        example,
    };
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !(c.is_ascii_digit() || c == '.')).ok_or_else(refuse)?;
    let (number, symbol) = (&trimmed[..split], trimmed[split..].trim());
    let factor = units.iter().find(|unit| unit.0 == symbol).ok_or_else(refuse)?.1;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor).ok_or_else(refuse);
    }
    let product = number.parse::<f64>().map_err(|_| refuse())? * factor as f64;
    if product < 9e15 { Ok(product.round() as u64) } else { Err(refuse()) }
}

/// Prints `value` in the largest unit of which it is a whole multiple.
fn print(value: u64, units: &[Unit], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let unit = units.iter().find(|unit| value != 0 && value.is_multiple_of(unit.1));
    let (symbol, factor) = *unit.unwrap_or(&units[units.len() - 1]);
    f.pad(&format!("{} {symbol}", value / factor))
}

/// Implements the traits that every quantity shares.
macro_rules! quantity {
    ($name:ident, $kind:literal, $units:ident, $example:literal) => {
        impl FromStr for $name {
            type Err = ParseQuantityError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                parse(text, $kind, $units, $example).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                print(self.0, $units, f)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;
                impl Visitor<'_> for Text {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!(
                            "a ", $kind, " as text with a unit, for example \"", $example, "\""
                        ))
                    }
                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$name, E> {
                        text.parse().map_err(E::custom)
                    }
                }
                deserializer.deserialize_str(Text)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let symbols: Vec<&str> = $units.iter().map(|unit| unit.0).collect();
                json_schema!({
                    "type": "string",
                    "pattern": format!(r"^\s*[0-9]+(\.[0-9]+)?\s*({})\s*$", symbols.join("|")),
                    "examples": [$example],
                })
            }
        }
    };
}

/// A span of time in nanoseconds, written as `"100 ms"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u64);

quantity!(Span, "span of time", TIME_UNITS, "100 ms");

impl Span {
    /// `n` milliseconds.
    pub const fn ms(n: u64) -> Self {
        Self(n * 1_000_000)
    }

    /// `n` seconds.
    pub const fn s(n: u64) -> Self {
        Self(n * 1_000_000_000)
    }

    /// This span in nanoseconds.
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// This span as the standard library's type.
    pub const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

/// A size in bytes, written as `"2 GiB"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bytes(pub u64);

quantity!(Bytes, "size", SIZE_UNITS, "2 GiB");

impl Bytes {
    /// `n` times 2^20 bytes.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// This size in bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reads_numbers_with_units_and_refuses_bare_ones() {
        assert_eq!("100 ms".parse(), Ok(Span::ms(100)));
        assert_eq!("1.5s".parse(), Ok(Span(1_500_000_000)));
        assert_eq!("2 GiB".parse(), Ok(Bytes(2 << 30)));
        assert_eq!("0.5 kB".parse(), Ok(Bytes(500)));
        for bad in
            ["", "100", "ms", "1 parsec", "-1 s", "1..2 s", "99999999999999999999 h", "1e3 s"]
        {
            assert!(bad.parse::<Span>().is_err(), "{bad}");
        }
        let error = "100".parse::<Span>().unwrap_err().to_string();
        assert!(error.contains("span of time") && error.contains("\"100 ms\""), "{error}");
    }

    #[test]
    fn is_read_from_toml_with_its_unit() {
        #[derive(serde::Deserialize)]
        struct Table {
            wait: Span,
        }
        assert_eq!(toml::from_str::<Table>("wait = \"3 us\"").unwrap().wait, Span(3000));
        assert!(toml::from_str::<Table>("wait = 3").is_err());
    }

    proptest! {
        #[test]
        fn what_is_printed_is_read_back(value in 0u64..1 << 60) {
            prop_assert_eq!(Span(value).to_string().parse(), Ok(Span(value)));
            prop_assert_eq!(Bytes(value).to_string().parse(), Ok(Bytes(value)));
        }
    }
}
