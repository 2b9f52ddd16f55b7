//! How groups and data sets are named.

use gannet_wire::{FragmentType, SourceId};
use serde::{Deserialize, Serialize};

/// Version of the file layout that is written; 4 is read too.
pub const LAYOUT_VERSION: u32 = 5;

/// What the records of a file are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// Data of all sources around a trigger decision.
    TriggerRecord,
    /// A stretch of a continuous stream, such as trigger primitives.
    TimeSlice,
}

impl RecordKind {
    /// The name, as attribute `record_type` and the names of records carry it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TriggerRecord => "TriggerRecord",
            Self::TimeSlice => "TimeSlice",
        }
    }

    /// The kind of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::TriggerRecord, Self::TimeSlice].into_iter().find(|kind| kind.name() == name)
    }
}

/// Number of a record: trigger or slice number, and part of the answer to the trigger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordNumber {
    /// Trigger number or slice number.
    pub number: u64,
    /// Sequence number; 0 for slices.
    pub sequence: u16,
}

/// Rules of the names, stored as JSON in attribute `filelayout_params`.
///
/// Source: DUNE-DAQ/hdf5libs `hdf5filelayout.jsonnet`; keys that are missing have its defaults.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileLayout {
    /// First part of the names of records.
    pub record_name_prefix: String,
    /// Least digits of the record number.
    pub digits_for_record_number: u8,
    /// Least digits of the sequence number; 0 leaves it out.
    pub digits_for_sequence_number: u8,
    /// Last part of the name of the header data set.
    pub record_header_dataset_name: String,
    /// Group of a record that holds its data sets.
    pub raw_data_group_name: String,
    /// Group for other arrangements of the data; never written.
    pub view_group_name: String,
    /// Names per subsystem in layouts before version 3; readers still expect the key.
    pub path_param_list: Vec<PathParams>,
}

/// Names of one subsystem's data sets in layouts before version 3.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathParams {
    /// Name of the subsystem.
    pub detector_group_type: String,
    /// Name of its group.
    pub detector_group_name: String,
    /// First part of the names of its data sets.
    pub element_name_prefix: String,
    /// Digits of the number of a data set.
    pub digits_for_element_number: u8,
}

impl Default for PathParams {
    fn default() -> Self {
        Self {
            detector_group_type: "unspecified".into(),
            detector_group_name: "unspecified".into(),
            element_name_prefix: "Element".into(),
            digits_for_element_number: 5,
        }
    }
}

impl Default for FileLayout {
    fn default() -> Self {
        Self::new(RecordKind::TriggerRecord)
    }
}

impl FileLayout {
    /// Most digits that a number is filled up to.
    const DIGITS_MAX: u8 = 20;

    /// The layout that DUNE uses for records of a kind.
    pub fn new(kind: RecordKind) -> Self {
        let readout = PathParams {
            detector_group_type: "Detector_Readout".into(),
            detector_group_name: "TPC".into(),
            element_name_prefix: "Link".into(),
            ..PathParams::default()
        };
        Self {
            record_name_prefix: kind.name().into(),
            digits_for_record_number: 6,
            digits_for_sequence_number: if kind == RecordKind::TimeSlice { 0 } else { 4 },
            record_header_dataset_name: format!("{}Header", kind.name()),
            raw_data_group_name: "RawData".into(),
            view_group_name: "Views".into(),
            path_param_list: vec![readout],
        }
    }

    /// Name of the group of a record. A number of more digits than planned is written in full.
    pub fn record_name(&self, record: RecordNumber) -> String {
        let digits = |digits: u8| usize::from(digits.min(Self::DIGITS_MAX));
        let (prefix, width) = (&self.record_name_prefix, digits(self.digits_for_record_number));
        let name = format!("{prefix}{:0width$}", record.number);
        match digits(self.digits_for_sequence_number) {
            0 => name,
            width => format!("{name}.{:0width$}", record.sequence),
        }
    }

    /// Number of the record that a group name stands for, if it stands for one.
    pub fn record_number(&self, name: &str) -> Option<RecordNumber> {
        let numbers = name.strip_prefix(&self.record_name_prefix)?;
        let (number, sequence) = numbers.split_once('.').unwrap_or((numbers, "0"));
        Some(RecordNumber { number: digits(number)?, sequence: digits(sequence)?.try_into().ok()? })
    }

    /// Name of the data set of a record header.
    pub fn header_name(&self, source_id: SourceId) -> String {
        format!("{source_id}_{}", self.record_header_dataset_name)
    }

    /// Name of the data set of a fragment.
    pub fn fragment_name(&self, source_id: SourceId, fragment_type: FragmentType) -> String {
        format!("{source_id}_{}", fragment_type.name())
    }

    /// Path of a data set from the root of the file.
    pub fn path(&self, record: &str, data_set: &str) -> String {
        format!("/{record}/{}/{data_set}", self.raw_data_group_name)
    }
}

/// A number of decimal digits only: no sign, no space.
fn digits(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::Subsystem;
    use proptest::prelude::*;

    #[test]
    fn names_are_those_of_dune_files() {
        let layout = FileLayout::new(RecordKind::TriggerRecord);
        let record = layout.record_name(RecordNumber { number: 7, sequence: 2 });
        assert_eq!(record, "TriggerRecord000007.0002");
        let five = FileLayout { digits_for_record_number: 5, ..layout.clone() };
        let name = five.record_name(RecordNumber { number: 1, sequence: 0 });
        assert_eq!(name, "TriggerRecord00001.0000");
        let builder = layout.header_name(SourceId::new(Subsystem::TrBuilder, 0));
        assert_eq!(builder, "TR_Builder_0x00000000_TriggerRecordHeader");
        let readout = SourceId::new(Subsystem::DetectorReadout, 0x64);
        let fragment = layout.fragment_name(readout, FragmentType::WibEth);
        assert_eq!(fragment, "Detector_Readout_0x00000064_WIBEth");
        let path = "/TriggerRecord000007.0002/RawData/Detector_Readout_0x00000064_WIBEth";
        assert_eq!(layout.path(&record, &fragment), path);
        let slices = FileLayout::new(RecordKind::TimeSlice);
        let slice = slices.record_name(RecordNumber { number: 12_345_678, sequence: 0 });
        assert_eq!(slice, "TimeSlice12345678");
    }

    #[test]
    fn names_of_other_groups_are_no_records() {
        let layout = FileLayout::new(RecordKind::TriggerRecord);
        for name in ["Views", "TriggerRecord", "TriggerRecord+1", "TriggerRecord1.x", "TimeSlice1"]
        {
            assert_eq!(layout.record_number(name), None, "{name}");
        }
        let largest = format!("TriggerRecord{}.65535", u64::MAX);
        assert_eq!(layout.record_number(&largest).unwrap().number, u64::MAX);
        assert_eq!(layout.record_number("TriggerRecord1.65536"), None);
    }

    #[test]
    fn missing_keys_have_the_defaults_of_dune() {
        let layout: FileLayout = serde_json::from_str(r#"{"path_param_list":[{}]}"#).unwrap();
        assert_eq!(layout.raw_data_group_name, "RawData");
        assert_eq!(layout.digits_for_sequence_number, 4);
        assert_eq!(layout.path_param_list, [PathParams::default()]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn numbers_come_back_from_names(number: u64, sequence: u16, digits: u8, slice: bool) {
            let kind = if slice { RecordKind::TimeSlice } else { RecordKind::TriggerRecord };
            let layout =
                FileLayout { digits_for_record_number: digits, ..FileLayout::new(kind) };
            let record = RecordNumber { number, sequence: if slice { 0 } else { sequence } };
            prop_assert_eq!(layout.record_number(&layout.record_name(record)), Some(record));
        }
    }
}
