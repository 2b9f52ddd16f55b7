//! Candidates: what asks for a readout.

use std::borrow::Cow;

use gannet_wire::trigger_activity::TriggerActivityData;
use gannet_wire::trigger_candidate::{TriggerCandidateData, Type};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Most activities of one candidate.
pub const CANDIDATE_ACTIVITIES_MAX: usize = 1024;

/// A candidate and the activities it was made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Times and type.
    pub data: TriggerCandidateData,
    /// The data of the activities, at most [`CANDIDATE_ACTIVITIES_MAX`]; none for a candidate that
    /// did not come from primitives.
    pub inputs: Vec<TriggerActivityData>,
}

/// A candidate type, written by its published name: `"Random"`, `"HorizontalMuon"`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CandidateType(pub Type);

impl Serialize for CandidateType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.0.name())
    }
}

impl<'de> Deserialize<'de> for CandidateType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = Cow::<'de, str>::deserialize(deserializer)?;
        let names = || Type::ALL.iter().map(|kind| format!("`{}`", kind.name()));
        Type::from_name(&name).map(Self).ok_or_else(|| {
            let known = names().collect::<Vec<_>>().join(", ");
            de::Error::custom(format!("unknown variant `{name}`, expected one of {known}"))
        })
    }
}

impl JsonSchema for CandidateType {
    fn schema_name() -> Cow<'static, str> {
        "CandidateType".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names: Vec<&str> = Type::ALL.iter().map(|kind| kind.name()).collect();
        json_schema!({ "type": "string", "enum": names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Table {
        kind: CandidateType,
    }

    #[test]
    fn names_are_read_and_written() {
        let table = Table { kind: CandidateType(Type::HorizontalMuon) };
        assert_eq!(toml::from_str::<Table>("kind = \"HorizontalMuon\"").unwrap(), table);
        assert_eq!(toml::to_string(&table).unwrap(), "kind = \"HorizontalMuon\"\n");
    }

    #[test]
    fn an_unknown_name_is_refused_with_the_known_ones() {
        let error = toml::from_str::<Table>("kind = \"Muon\"").unwrap_err();
        let message = error.message();
        assert!(message.starts_with("unknown variant `Muon`, expected one of"), "{message}");
        assert!(message.contains("`HorizontalMuon`"), "{message}");
    }
}
