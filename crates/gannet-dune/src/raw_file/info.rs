//! What a file says about itself as a whole.

use std::collections::BTreeMap;

use gannet_hdf5::Value;
use gannet_wire::{GeoId, SourceId};
use serde::{Deserialize, Serialize};

use super::layout::{FileLayout, LAYOUT_VERSION, RecordKind};
use super::maps::{self, geo_ids_to_json};

/// Attribute of the file, of Gannet alone: what the log tells about the start of the run.
pub(super) const RUN_START: &str = "gannet_run_start";

/// Where on the detector each source is.
pub type GeoIdMap = BTreeMap<SourceId, Vec<GeoId>>;

/// What offline catalogues sort files by. The defaults are those of DUNE's configurations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Catalogue {
    /// Where the detector stands, for example `np04hd`.
    pub operational_environment: String,
    /// Which offline stream the data belong to, for example `cosmics`.
    pub offline_data_stream: String,
    /// Whether the run was only a test.
    pub run_was_for_test_purposes: bool,
}

impl Default for Catalogue {
    fn default() -> Self {
        Self {
            operational_environment: "swtest".into(),
            offline_data_stream: "cosmics".into(),
            run_was_for_test_purposes: true,
        }
    }
}

/// When the data of a file were taken, in milliseconds since 1970-01-01 UTC.
///
/// Not when the file was made: it may be a later export of the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TakenAt {
    /// Start of the recording of these data.
    pub start_unix_ms: u64,
    /// End of the recording of these data.
    pub end_unix_ms: u64,
}

/// Attributes of a new file, apart from its size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// What the records are.
    pub kind: RecordKind,
    /// Number of the run.
    pub run_number: u32,
    /// Number of the file in its run, from 0.
    pub file_index: u64,
    /// Name of the program that writes.
    pub application_name: String,
    /// Where on the detector each source is.
    pub geo_ids: GeoIdMap,
    /// What offline catalogues sort the file by.
    pub catalogue: Catalogue,
    /// When the data were taken.
    pub taken_at: TakenAt,
    /// What the log of the run tells about its start, as JSON: streams with their formats and channels,
    /// chain and configuration. So the file can be searched without its log.
    pub run_start: Option<String>,
}

impl FileInfo {
    /// The attributes that a file has from its beginning.
    pub(super) fn to_attributes(&self, layout: &FileLayout) -> Vec<(&'static str, Value<'_>)> {
        let Catalogue { operational_environment, offline_data_stream, .. } = &self.catalogue;
        let test = if self.catalogue.run_was_for_test_purposes { "true" } else { "false" };
        let mut attributes = vec![
            ("run_number", Value::U32(self.run_number)),
            ("file_index", Value::U64(self.file_index)),
            ("creation_timestamp", unix_ms(self.taken_at.start_unix_ms)),
            ("application_name", Value::from(&self.application_name[..])),
            ("filelayout_params", Value::from(maps::json(layout))),
            ("filelayout_version", Value::U32(LAYOUT_VERSION)),
            (maps::SOURCE_ID_GEO_ID_MAP, Value::from(geo_ids_to_json(&self.geo_ids))),
            ("record_type", Value::from(self.kind.name())),
            ("operational_environment", Value::from(&operational_environment[..])),
            ("offline_data_stream", Value::from(&offline_data_stream[..])),
            ("run_was_for_test_purposes", Value::from(test)),
        ];
        let run_start = self.run_start.as_deref().map(|start| (RUN_START, Value::from(start)));
        attributes.extend(run_start);
        attributes
    }
}

/// A time of an attribute.
///
/// DUNE stored a text until 2024 and a number since; layout version 5 covers both.
pub(super) fn unix_ms(unix_ms: u64) -> Value<'static> {
    Value::from(unix_ms.to_string())
}
