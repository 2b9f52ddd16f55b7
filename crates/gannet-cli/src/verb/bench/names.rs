//! Names of an enum's values as arguments: those of the configuration, from the enum itself.

use std::error::Error;
use std::fmt;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::de::value::Error as ValueError;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::{Serialize, forward_to_deserialize_any};

/// Reads a value of `T` by its name, and offers all names.
pub fn parser<T: DeserializeOwned + Clone + Send + Sync + 'static>()
-> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names::<T>()).try_map(|name| by_name::<T>(&name))
}

/// Stands for all values.
const ALL: &str = "all";

/// The values that a name stands for.
#[derive(Clone, Debug)]
pub struct Values<T>(pub Vec<T>);

/// Reads one value of `T` by its name, or all as `all`, and offers all names.
pub fn one_or_all<T: DeserializeOwned + Clone + Send + Sync + 'static>()
-> impl TypedValueParser<Value = Values<T>> {
    let offered = names::<T>().iter().copied().chain([ALL]);
    PossibleValuesParser::new(offered.collect::<Vec<_>>()).try_map(|name| {
        let one = [name.as_str()];
        let meant = if name == ALL { names::<T>() } else { &one };
        meant.iter().map(|name| by_name(name)).collect::<Result<_, _>>().map(Values)
    })
}

/// Name of a value.
pub fn name(value: &impl Serialize) -> String {
    let name = serde_json::to_value(value).unwrap_or_default();
    name.as_str().map_or_else(|| name.to_string(), str::to_owned)
}

fn by_name<T: DeserializeOwned>(name: &str) -> Result<T, ValueError> {
    T::deserialize(IntoDeserializer::<ValueError>::into_deserializer(name))
}

/// Names of all values of the enum `T`; none of another type.
fn names<'de, T: Deserialize<'de>>() -> &'static [&'static str] {
    T::deserialize(Asked).err().map_or(&[], |Names(names)| names)
}

/// Gives no value, but hears which names the type knows.
struct Asked;

/// The names, in the place of an error.
#[derive(Debug)]
struct Names(&'static [&'static str]);

impl<'de> Deserializer<'de> for Asked {
    type Error = Names;

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        variants: &'static [&'static str],
        _visitor: V,
    ) -> Result<V::Value, Names> {
        Err(Names(variants))
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Names> {
        Err(Names(&[]))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "one of {}", self.0.join(", "))
    }
}

impl Error for Names {}

impl serde::de::Error for Names {
    fn custom<T: fmt::Display>(_message: T) -> Self {
        Self(&[])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_dune::tpg::{Chain, IsaChoice};

    #[test]
    fn the_names_are_those_of_the_configuration_and_lead_back_to_the_values() {
        assert!(names::<Chain>().contains(&"simple-threshold"));
        assert_eq!(names::<IsaChoice>(), ["auto", "scalar", "avx2", "avx512"]);
        for known in names::<Chain>() {
            assert_eq!(name(&by_name::<Chain>(known).unwrap()), *known);
        }
        assert_eq!(names::<u32>(), [""; 0]);
        assert!(by_name::<Chain>("threshold").is_err());
    }
}
