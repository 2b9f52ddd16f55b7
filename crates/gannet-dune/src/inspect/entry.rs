//! The entries that a listing is made of.

use std::collections::BTreeMap;
use std::fmt;

use gannet_wire::daq_ethernet;
use serde::Serialize;

use crate::record::holds_tpc_frames;
use gannet_log::{ChunkView, EndOfFile, FileHeader, Kind};

/// One entry of a listing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "entry", rename_all = "kebab-case")]
pub enum Entry {
    /// A chunk of a log.
    Chunk(ChunkEntry),
    /// Bytes of a log that hold no sound chunk.
    Damage(DamageEntry),
    /// What a raw file says about itself.
    File(FileEntry),
    /// A record of a raw file.
    Record(RecordEntry),
    /// What a Parquet file says about itself.
    Table(TableEntry),
    /// A row of a Parquet file.
    Row(RowEntry),
}

/// A chunk of a log.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkEntry {
    /// Number among the sound chunks of the file, from 0.
    pub chunk: u64,
    /// Byte at which it begins.
    pub offset: u64,
    /// Name of its kind.
    pub kind: String,
    /// Number in the run; absent for the log's own chunks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// Stream of the frames in a chunk of raw frames, `detector/crate/slot/stream`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
    /// Earliest time stamp, ticks.
    pub first_ticks: u64,
    /// Latest time stamp, ticks.
    pub last_ticks: u64,
    /// Items in the payload.
    pub items: u32,
    /// Items, or for a gap data chunks, that are known to be missing.
    pub items_missing: u32,
    /// Size of the payload in bytes.
    pub payload_bytes: u32,
    /// What a file header says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<Box<FileHeader>>,
    /// What an end chunk says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<EndOfFile>,
}

impl ChunkEntry {
    /// Entry of sound chunk `index` of a file.
    pub(super) fn new(index: u64, chunk: &ChunkView<'_>) -> Self {
        let label = &chunk.header.label;
        let kind = label.kind;
        let (header, end) = match kind {
            Kind::FILE_HEADER => (FileHeader::decode(chunk.payload).ok().map(Box::new), None),
            Kind::END_OF_FILE => (None, EndOfFile::decode(chunk.payload).ok()),
            _ => (None, None),
        };
        let stream = holds_tpc_frames(label, chunk.payload.len())
            .then(|| daq_ethernet::Header::new_checked(chunk.payload).ok())
            .flatten()
            .map(|first| first.geo_id().to_string());
        Self {
            chunk: index,
            offset: chunk.offset,
            kind: kind.to_string(),
            sequence: kind.is_data().then_some(chunk.header.sequence),
            stream,
            first_ticks: label.first_ticks,
            last_ticks: label.last_ticks,
            items: label.items,
            items_missing: label.items_missing,
            payload_bytes: chunk.header.payload_len,
            header,
            end,
        }
    }
}

/// One line; file header and end chunk have their text on a second one.
impl fmt::Display for ChunkEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "chunk {:>6}  {:<14}", self.chunk, self.kind)?;
        match self.sequence {
            Some(sequence) => write!(f, "  seq {sequence:>6}")?,
            None => write!(f, "  {:>10}", "")?,
        }
        write!(f, "  {:>10} bytes", self.payload_bytes)?;
        if self.items > 0 || self.items_missing > 0 {
            write!(f, "  {:>7} items", self.items)?;
        }
        if self.items_missing > 0 {
            write!(f, ", {} missing", self.items_missing)?;
        }
        if let Some(stream) = &self.stream {
            write!(f, "  stream {stream}")?;
        }
        if self.last_ticks > 0 {
            write!(f, "  ticks {} to {}", self.first_ticks, self.last_ticks)?;
        }
        let texts = [text(self.header.as_ref()), text(self.end.as_ref())];
        texts.into_iter().flatten().try_for_each(|text| write!(f, "\n  {text}"))
    }
}

fn text<T: Serialize>(value: Option<&T>) -> Option<String> {
    serde_json::to_string(value?).ok()
}

/// Bytes of a log that hold no sound chunk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DamageEntry {
    /// Byte at which they begin.
    pub offset: u64,
    /// How many they are, up to the next sound chunk or the end of the file.
    pub bytes: u64,
    /// What is wrong with the first of them.
    pub problem: String,
}

/// What a raw file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FileEntry {
    /// What its records are: TriggerRecord or TimeSlice.
    pub record_type: &'static str,
    /// Number of records.
    pub records: u64,
    /// Attributes of the file.
    pub attributes: BTreeMap<String, serde_json::Value>,
}

/// One line, then one a attribute.
impl fmt::Display for FileEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DUNE raw file, {} records of type {}", self.records, self.record_type)?;
        attributes(&self.attributes, f)
    }
}

/// A record of a raw file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordEntry {
    /// Name of its group.
    pub name: String,
    /// Trigger number or slice number.
    pub number: u64,
    /// Sequence number.
    pub sequence: u16,
    /// Attributes of its group.
    pub attributes: BTreeMap<String, serde_json::Value>,
    /// Its header and its fragments, in the order of the file.
    pub data_sets: Vec<DataSetEntry>,
}

/// A header or fragment of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DataSetEntry {
    /// Name, which tells source and type.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
}

/// One line, then one a data set.
impl fmt::Display for RecordEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.data_sets.iter().map(|data_set| data_set.bytes).sum();
        write!(f, "{}, {bytes} bytes", self.name)?;
        for DataSetEntry { name, bytes } in &self.data_sets {
            write!(f, "\n  {name:<44} {bytes:>10} bytes")?;
        }
        Ok(())
    }
}

/// What a Parquet file says about itself.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TableEntry {
    /// Number of rows; the first of them follow.
    pub rows: u64,
    /// Columns, in their order.
    pub columns: Vec<ColumnEntry>,
    /// Key-value pairs of the file.
    pub attributes: BTreeMap<String, serde_json::Value>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ColumnEntry {
    /// Its name.
    pub name: String,
    /// Type of its values, such as `uint32`.
    #[serde(rename = "type")]
    pub kind: String,
}

/// One line, then one a attribute, then one a column.
impl fmt::Display for TableEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Parquet table, {} rows of {} columns", self.rows, self.columns.len())?;
        attributes(&self.attributes, f)?;
        for ColumnEntry { name, kind } in &self.columns {
            write!(f, "\n  column {name:<21} {kind}")?;
        }
        Ok(())
    }
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowEntry {
    /// Its number, from 0.
    pub row: u64,
    /// Its values by column.
    pub values: serde_json::Map<String, serde_json::Value>,
}

/// One line.
impl fmt::Display for RowEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {}:", self.row)?;
        self.values.iter().try_for_each(|(name, value)| write!(f, " {name} {value}"))
    }
}

/// Prints attributes, one a line; of a long text its begin.
pub(super) fn attributes(
    attributes: &BTreeMap<String, serde_json::Value>,
    out: &mut dyn fmt::Write,
) -> fmt::Result {
    /// Most characters of a text.
    const TEXT_MAX: usize = 1000;
    for (name, value) in attributes {
        match value.as_str() {
            Some(text) => match text.char_indices().nth(TEXT_MAX) {
                Some((end, _)) => {
                    write!(out, "\n  {name:<28} {}… ({} bytes)", &text[..end], text.len())?;
                }
                None => write!(out, "\n  {name:<28} {text}")?,
            },
            None => write!(out, "\n  {name:<28} {value}")?,
        }
    }
    Ok(())
}

/// Prints the entry without a line end behind it.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunk(chunk) => chunk.fmt(f),
            Self::Damage(DamageEntry { offset, bytes, problem }) => {
                write!(f, "DAMAGED: {bytes} bytes from byte {offset} on: {problem}")
            }
            Self::File(file) => file.fmt(f),
            Self::Record(record) => record.fmt(f),
            Self::Table(table) => table.fmt(f),
            Self::Row(row) => row.fmt(f),
        }
    }
}
