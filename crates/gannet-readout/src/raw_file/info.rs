//! What a file says about itself as a whole.

use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

use gannet_hdf5::Value;
use gannet_wire::{GeoId, SourceId};

use super::layout::{FileLayout, LAYOUT_VERSION, RecordKind};
use super::maps::{self, geo_ids_to_json};

/// Where on the detector each source is.
pub type GeoIdMap = BTreeMap<SourceId, Vec<GeoId>>;

/// Attributes of a new file, apart from its size and times.
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
    /// Where the detector stands, for example `np04hd`; offline catalogues sort by it.
    pub operational_environment: String,
    /// Which offline stream the data belong to, for example `cosmics`.
    pub offline_data_stream: String,
    /// Whether the run was only a test.
    pub run_was_for_test_purposes: bool,
}

impl FileInfo {
    /// The attributes that a file has from its beginning.
    pub(super) fn to_attributes(&self, layout: &FileLayout) -> Vec<(&'static str, Value<'_>)> {
        let test = if self.run_was_for_test_purposes { "true" } else { "false" };
        vec![
            ("run_number", Value::U32(self.run_number)),
            ("file_index", Value::U64(self.file_index)),
            ("creation_timestamp", Value::from(now_ms())),
            ("application_name", Value::from(&self.application_name[..])),
            ("filelayout_params", Value::from(maps::json(layout))),
            ("filelayout_version", Value::U32(LAYOUT_VERSION)),
            (maps::SOURCE_ID_GEO_ID_MAP, Value::from(geo_ids_to_json(&self.geo_ids))),
            ("record_type", Value::from(self.kind.name())),
            ("operational_environment", Value::from(&self.operational_environment[..])),
            ("offline_data_stream", Value::from(&self.offline_data_stream[..])),
            ("run_was_for_test_purposes", Value::from(test)),
        ]
    }
}

/// Milliseconds since 1970, as text.
///
/// DUNE stored a text until 2024 and a number since; layout version 5 covers both.
pub fn now_ms() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis().to_string()
}
