//! A chunk or record in full, as values for other programs.

use gannet_wire::inspect::{Format, identify, payload_items};
use gannet_wire::record::Record;
use gannet_wire::{
    ComponentRequest, Fragment, FragmentRepr, TimeSliceHeader, TriggerRecordHeader, trigger_record,
};
use serde::Serialize;

use super::entry::{ChunkEntry, RecordEntry};
use gannet_log::Kind;
use gannet_record::StoredRecord;

/// A chunk of a log with what its payload holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ChunkDetail {
    /// Its header.
    #[serde(flatten)]
    pub chunk: ChunkEntry,
    /// Its payload; absent for the log's own chunks and for bytes of no known format.
    #[serde(flatten)]
    pub payload: Option<Payload>,
}

/// What the payload of a chunk is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Payload {
    /// A trigger record or time slice.
    Record(RecordContent),
    /// A JSON document, or an array of them where one follows another.
    Document(serde_json::Value),
    /// Other text.
    Text(String),
    /// Name of the format of other bytes.
    Format(&'static str),
}

impl Payload {
    /// What `payload`, of a chunk of kind `kind`, is.
    pub(super) fn of(kind: Kind, payload: &[u8]) -> Option<Self> {
        let record = |header: Format, record: gannet_wire::Result<StoredRecord<'_>>| {
            let mut content = RecordContent::default();
            match record {
                Ok(record) => {
                    content.add_header(header, record.header());
                    record.fragments().for_each(|fragment| match fragment {
                        Ok(fragment) => content.add_fragment(fragment.as_bytes()),
                        Err(error) => content.problems.push(error.to_string()),
                    });
                }
                Err(error) => content.problems.push(error.to_string()),
            }
            Some(Self::Record(content))
        };
        match kind {
            Kind::FILE_HEADER | Kind::END_OF_FILE | Kind::GAP => None,
            Kind::TRIGGER_RECORD => {
                record(Format::TriggerRecord, StoredRecord::trigger_record(payload))
            }
            Kind::TP_SLICE => record(Format::TimeSlice, StoredRecord::time_slice(payload)),
            _ => Self::of_text(payload)
                .or_else(|| identify(payload).map(|format| Self::Format(format.name()))),
        }
    }

    fn of_text(payload: &[u8]) -> Option<Self> {
        let documents = serde_json::Deserializer::from_slice(payload).into_iter();
        if let Ok(mut documents) = documents.collect::<Result<Vec<serde_json::Value>, _>>()
            && let Some(last) = documents.pop()
        {
            return Some(Self::Document(if documents.is_empty() {
                last
            } else {
                documents.push(last);
                documents.into()
            }));
        }
        let text = std::str::from_utf8(payload).ok().filter(|text| !text.contains('\0'))?;
        Some(Self::Text(text.to_owned()))
    }
}

/// A record of a raw file with what its data sets hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RecordDetail {
    /// Its name, attributes and data sets.
    #[serde(flatten)]
    pub record: RecordEntry,
    /// Header and fragments.
    #[serde(flatten)]
    pub content: RecordContent,
}

/// Header and fragments of a record.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RecordContent {
    /// The header; `None` when it cannot be read.
    pub header: Option<RecordHeader>,
    /// The fragments that can be read, in their order.
    pub fragments: Vec<FragmentEntry>,
    /// What is wrong with the others.
    pub problems: Vec<String>,
}

impl RecordContent {
    /// Adds the header of a record that is of format `format`.
    pub(super) fn add_header(&mut self, format: Format, bytes: &[u8]) {
        let header = match format {
            Format::TimeSlice => TimeSliceHeader::parse(bytes).map(RecordHeader::time_slice),
            _ => TriggerRecordHeader::new_checked(bytes).map(|h| RecordHeader::trigger_record(&h)),
        };
        self.header = header.map_err(|error| self.problems.push(error.to_string())).ok();
    }

    /// Adds the fragment that fills `bytes`.
    pub(super) fn add_fragment(&mut self, bytes: &[u8]) {
        match Fragment::new_checked(bytes) {
            Ok(fragment) => self.fragments.push(FragmentEntry::new(&fragment)),
            Err(error) => self.problems.push(error.to_string()),
        }
    }
}

/// Header of a record. Fields have the names of DUNE-DAQ/daqdataformats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum RecordHeader {
    /// That of a trigger record.
    TriggerRecord {
        /// Version of the header.
        version: u32,
        /// Number of the trigger decision.
        trigger_number: u64,
        /// Time of the decision, ticks.
        trigger_timestamp: u64,
        /// Number of the run.
        run_number: u32,
        /// Bits of what went wrong.
        error_bits: u32,
        /// Names of the error bits that are set.
        errors: Vec<&'static str>,
        /// Bits of the candidate types that made the decision.
        trigger_type: u64,
        /// Which part of the answer to the decision the record is, from 0.
        sequence_number: u16,
        /// Number of the last part.
        max_sequence_number: u16,
        /// What built the record.
        source_id: String,
        /// What was asked for.
        component_requests: Vec<RequestEntry>,
    },
    /// That of a time slice.
    TimeSlice {
        /// Number of the slice.
        timeslice_number: u64,
        /// Number of the run.
        run_number: u32,
        /// What built the slice.
        source_id: String,
    },
}

impl RecordHeader {
    fn trigger_record(header: &TriggerRecordHeader<'_>) -> Self {
        let requests = header.component_requests().map(RequestEntry::new).collect();
        let header = header.header();
        Self::TriggerRecord {
            version: header.version.number(),
            trigger_number: header.trigger_number,
            trigger_timestamp: header.trigger_timestamp,
            run_number: header.run_number,
            error_bits: header.error_bits,
            errors: bits_set(header.error_bits, trigger_record::error_bits::NAMES),
            trigger_type: header.trigger_type,
            sequence_number: header.sequence_number,
            max_sequence_number: header.max_sequence_number,
            source_id: header.source_id.to_string(),
            component_requests: requests,
        }
    }

    fn time_slice(header: TimeSliceHeader) -> Self {
        Self::TimeSlice {
            timeslice_number: header.number,
            run_number: header.run_number,
            source_id: header.source_id.to_string(),
        }
    }
}

/// What a record was to have of one source.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RequestEntry {
    /// The source.
    pub component: String,
    /// First tick of the window.
    pub window_begin: u64,
    /// Tick after the window.
    pub window_end: u64,
}

impl RequestEntry {
    fn new(request: ComponentRequest) -> Self {
        Self {
            component: request.component.to_string(),
            window_begin: request.window_begin,
            window_end: request.window_end,
        }
    }
}

/// A fragment of a record. Fields have the names of DUNE-DAQ/daqdataformats.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FragmentEntry {
    /// What made it.
    pub source_id: String,
    /// Name of its type.
    pub fragment_type: String,
    /// Version of the header.
    pub version: u32,
    /// Bytes that the header declares, its own included.
    pub size: u64,
    /// Bytes that are there, without the header.
    pub payload_bytes: usize,
    /// Number of the trigger decision.
    pub trigger_number: u64,
    /// Time of the decision, ticks.
    pub trigger_timestamp: u64,
    /// First tick of the window asked for.
    pub window_begin: u64,
    /// Tick after the window asked for.
    pub window_end: u64,
    /// Number of the run.
    pub run_number: u32,
    /// Bits of what went wrong; version 6 calls them status bits.
    pub error_bits: u32,
    /// Names of the bits that are set.
    pub errors: Vec<&'static str>,
    /// Which part of the record it belongs to, from 0.
    pub sequence_number: u16,
    /// Number of the detector that the data come from.
    pub detector_id: u16,
    /// Name of the format of its items, such as frames or primitives, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item_format: Option<&'static str>,
    /// How many items there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub items: Option<usize>,
    /// Why they cannot be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl FragmentEntry {
    fn new(fragment: &Fragment<'_>) -> Self {
        let header: FragmentRepr = fragment.header();
        let (item_format, items) = payload_items(fragment).unzip();
        let (items, problem) = match items {
            Some(Ok(items)) => (Some(items), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        Self {
            source_id: header.source_id.to_string(),
            fragment_type: header.fragment_type.to_string(),
            version: header.version.number(),
            size: header.size,
            payload_bytes: fragment.payload().len(),
            trigger_number: header.trigger_number,
            trigger_timestamp: header.trigger_timestamp,
            window_begin: header.window_begin,
            window_end: header.window_end,
            run_number: header.run_number,
            error_bits: header.error_bits,
            errors: bits_set(header.error_bits, header.bit_names()),
            sequence_number: header.sequence_number,
            detector_id: header.detector_id,
            item_format: item_format.map(Format::name),
            items,
            problem,
        }
    }
}

/// Names of the bits of `word` that are set.
fn bits_set(word: u32, names: &[&'static str]) -> Vec<&'static str> {
    let named = names.iter().enumerate();
    named.filter(|(bit, _)| word >> bit & 1 == 1).map(|(_, name)| *name).collect()
}
