//! Reading raw files of any writer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gannet_hdf5::{DataSet, GroupReader, Reader, Value};
use gannet_wire::SourceId;

use super::error::{Error, Result};
use super::info::{self, GeoIdMap};
use super::layout::{FileLayout, RecordKind, RecordNumber};
use super::maps::{self, RecordMaps};

/// A raw file opened for reading.
///
/// Names and attributes of the file are read at once, everything else when it is asked for.
/// Groups that are no records are passed over.
pub struct RawFileReader {
    path: PathBuf,
    attributes: BTreeMap<String, Value<'static>>,
    kind: RecordKind,
    layout: Arc<FileLayout>,
    records: Vec<RecordReader>,
}

impl RawFileReader {
    /// Opens a file.
    ///
    /// # Errors
    /// When it is not HDF5, is damaged, or its layout or record type cannot be read.
    pub fn open(path: &Path) -> Result<Self> {
        let reader = Reader::open(path)?;
        let attributes = reader.root().attributes()?;
        let place = path.display().to_string();
        let (layout, kind) = layout_and_kind(&place, &attributes)?;
        let layout = Arc::new(layout);
        let record = |(name, group): (String, GroupReader)| {
            let number = layout.record_number(&name)?;
            Some(RecordReader { name, number, group, layout: Arc::clone(&layout) })
        };
        let groups = reader.root().groups()?;
        let mut records: Vec<_> = groups.into_iter().filter_map(record).collect();
        records.sort_by_key(|record| record.number);
        Ok(Self { path: path.to_owned(), attributes, kind, layout, records })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What the records are.
    pub fn kind(&self) -> RecordKind {
        self.kind
    }

    /// How groups and data sets are named.
    pub fn layout(&self) -> &FileLayout {
        &self.layout
    }

    /// All attributes of the file that are numbers or texts.
    pub fn attributes(&self) -> &BTreeMap<String, Value<'static>> {
        &self.attributes
    }

    /// An attribute that is a whole number, or a text of one as times are stored.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn number(&self, name: &'static str) -> Result<u64> {
        let number = self.attributes.get(name).and_then(|value| match value.as_text() {
            Some(text) => text.parse().ok(),
            None => value.as_u64(),
        });
        number.ok_or_else(|| self.missing(name, "a whole number"))
    }

    /// An attribute that is a text.
    ///
    /// # Errors
    /// When it is missing or something else.
    pub fn text(&self, name: &'static str) -> Result<&str> {
        let text = self.attributes.get(name).and_then(Value::as_text);
        text.ok_or_else(|| self.missing(name, "a text"))
    }

    /// Where on the detector each source is.
    ///
    /// # Errors
    /// When the attribute is missing or cannot be read.
    pub fn geo_ids(&self) -> Result<GeoIdMap> {
        let text = self.text(maps::SOURCE_ID_GEO_ID_MAP)?;
        maps::geo_ids_from_json(&self.path.display().to_string(), text)
    }

    /// What the log of the run tells about its start, as JSON, in files of Gannet.
    pub fn run_start(&self) -> Option<&str> {
        self.attributes.get(info::RUN_START).and_then(Value::as_text)
    }

    /// The records, by rising number.
    pub fn records(&self) -> &[RecordReader] {
        &self.records
    }

    /// The records, by rising number, for who needs them longer than the file.
    pub fn into_records(self) -> Vec<RecordReader> {
        self.records
    }

    fn missing(&self, name: &'static str, expected: &'static str) -> Error {
        Error::Attribute { place: self.path.display().to_string(), name, expected }
    }
}

/// What a data set of a record is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The header of the record.
    Header(SourceId),
    /// A fragment: its source and the name of its type.
    Fragment(SourceId, String),
    /// Something else.
    Other,
}

/// A data set of a record.
pub struct Entry {
    /// Name in the raw-data group.
    pub name: String,
    /// What it is.
    pub role: Role,
    data_set: DataSet,
}

impl Entry {
    /// The bytes: a record header, or a fragment with its header.
    ///
    /// Their number is what counts: the size that a fragment header tells may be wrong.
    ///
    /// # Errors
    /// When the data set is damaged, packed by an unknown filter, or larger than its file allows.
    pub fn bytes(&self) -> Result<Vec<u8>> {
        Ok(self.data_set.bytes()?)
    }

    /// The first `len` of the bytes, or all of fewer.
    ///
    /// # Errors
    /// As [`bytes`](Self::bytes).
    pub fn head(&self, len: usize) -> Result<Vec<u8>> {
        Ok(self.data_set.head(len)?)
    }

    /// How many bytes are stored, without reading them.
    ///
    /// # Errors
    /// When the header of the data set is damaged.
    pub fn len_bytes(&self) -> Result<u64> {
        Ok(self.data_set.len_bytes()?)
    }
}

/// A record of a file.
pub struct RecordReader {
    name: String,
    number: RecordNumber,
    group: GroupReader,
    layout: Arc<FileLayout>,
}

impl RecordReader {
    /// Name of the group.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number that the name carries.
    pub fn number(&self) -> RecordNumber {
        self.number
    }

    /// Path of one of its data sets from the root of the file.
    pub fn path_of(&self, data_set: &str) -> String {
        self.layout.path(&self.name, data_set)
    }

    /// All attributes of the record that are numbers or texts.
    ///
    /// # Errors
    /// When they are damaged.
    pub fn attributes(&self) -> Result<BTreeMap<String, Value<'static>>> {
        Ok(self.group.attributes()?)
    }

    /// What the attributes say about the parts of the record.
    ///
    /// # Errors
    /// When an attribute is missing or cannot be read.
    pub fn maps(&self) -> Result<RecordMaps> {
        let attributes = self.attributes()?;
        RecordMaps::from_attributes(&self.name, |name| {
            let text = attributes.get(name).and_then(Value::as_text);
            let place = || self.name.clone();
            text.ok_or_else(|| Error::Attribute { place: place(), name, expected: "a text" })
        })
    }

    /// The data sets, in the order of the file.
    ///
    /// # Errors
    /// When the raw-data group is missing or damaged.
    pub fn entries(&self) -> Result<Vec<Entry>> {
        let raw_data = self.group.group(&self.layout.raw_data_group_name)?;
        let entry = |(name, data_set): (String, DataSet)| {
            let role = role(&name, &self.layout);
            Entry { name, role, data_set }
        };
        Ok(raw_data.data_sets()?.into_iter().map(entry).collect())
    }

    /// The stored bytes of the record header.
    ///
    /// # Errors
    /// When there is none, or it is damaged.
    pub fn header(&self) -> Result<Vec<u8>> {
        let entries = self.entries()?;
        let header = entries.iter().find(|entry| matches!(entry.role, Role::Header(_)));
        let what = || self.layout.record_header_dataset_name.clone();
        let missing = || Error::NoDataSet { record: self.name.clone(), what: what() };
        header.ok_or_else(missing)?.bytes()
    }
}

/// What a name such as `Detector_Readout_0x00000064_WIBEth` stands for.
fn role(name: &str, layout: &FileLayout) -> Role {
    /// `_0x` and eight digits.
    const NUMBER: usize = 11;
    let parse = || {
        let end = name.find("_0x")? + NUMBER;
        let source_id: SourceId = name.get(..end)?.parse().ok()?;
        Some((source_id, name.get(end..)?.strip_prefix('_')?))
    };
    match parse() {
        Some((source_id, kind)) if kind == layout.record_header_dataset_name => {
            Role::Header(source_id)
        }
        Some((source_id, kind)) => Role::Fragment(source_id, kind.to_owned()),
        None => Role::Other,
    }
}

fn layout_and_kind(
    place: &str,
    attributes: &BTreeMap<String, Value<'static>>,
) -> Result<(FileLayout, RecordKind)> {
    let text = |name: &'static str| {
        let text = attributes.get(name).and_then(Value::as_text);
        let place = || place.to_owned();
        text.ok_or_else(|| Error::Attribute { place: place(), name, expected: "a text" })
    };
    let layout: FileLayout = maps::parse(place, "filelayout_params", text)?;
    let kind = RecordKind::from_name(text("record_type")?);
    let expected = "TriggerRecord or TimeSlice";
    let unknown = || Error::Attribute { place: place.to_owned(), name: "record_type", expected };
    Ok((layout, kind.ok_or_else(unknown)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::Subsystem;

    #[test]
    fn names_tell_what_data_sets_are() {
        let layout = FileLayout::new(RecordKind::TriggerRecord);
        let builder = Role::Header(SourceId::new(Subsystem::TrBuilder, 0));
        assert_eq!(role("TR_Builder_0x00000000_TriggerRecordHeader", &layout), builder);
        let source = SourceId::new(Subsystem::DetectorReadout, 0x64);
        let fragment = Role::Fragment(source, "WIBEth".into());
        assert_eq!(role("Detector_Readout_0x00000064_WIBEth", &layout), fragment);
        for name in
            ["", "_0x", "x_0xä", "Trigger_0x00000001", "Trigger_0x0000001_TP", "a_0x0ä00000_b"]
        {
            assert_eq!(role(name, &layout), Role::Other, "{name}");
        }
    }
}
