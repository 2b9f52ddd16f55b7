//! Reading all of a raw file back.

use std::path::Path;

use gannet_wire::record::Record;
use gannet_wire::{Fragment, SourceId, TimeSliceHeader, TriggerRecordHeader};
use serde::Serialize;

use super::error::{Error, Result};
use super::info::RUN_START;
use super::layout::{RecordKind, RecordNumber};
use super::maps::RecordMaps;
use super::reader::{Entry, RawFileReader, RecordReader, Role};

/// What a file holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Summary {
    /// Number of records.
    pub records: u64,
    /// Number of fragments.
    pub fragments: u64,
    /// Bytes of all headers and fragments.
    pub bytes: u64,
    /// Fragments whose header tells another size than their data set has.
    pub wrong_sizes: u64,
    /// Whether all bytes were compared with a digest in the file; only files of Gannet have one.
    pub digest: bool,
}

/// Reads every header, fragment and map of a file, compares what is said twice, and all bytes with the
/// digest if there is one.
///
/// # Errors
/// On the first thing that is missing, cannot be read or contradicts another, when the file
/// was closed and its `recorded_size` is not that of its data sets, when it differs from its digest, and
/// when it is an export of Gannet whose digest is gone.
pub fn verify(path: &Path) -> Result<Summary> {
    let file = RawFileReader::open(path)?;
    file.geo_ids()?;
    let mut summary = Summary::default();
    for record in file.records() {
        verify_record(record, file.kind(), &mut summary)?;
    }
    let place = path.display().to_string();
    let is_closed = file.attributes().contains_key("recorded_size");
    if is_closed {
        let recorded = file.number("recorded_size")?;
        let what = || format!("recorded_size is {recorded}, data sets have {}", summary.bytes);
        require(recorded == summary.bytes, &place, what)?;
    }
    summary.digest = gannet_hdf5::check_digest(path)?;
    let is_export = file.attributes().contains_key(RUN_START);
    require(summary.digest || !(is_closed && is_export), &place, || {
        "its digest is gone: another program opened it for writing, or it was cut short".into()
    })?;
    Ok(summary)
}

fn verify_record(record: &RecordReader, kind: RecordKind, summary: &mut Summary) -> Result<()> {
    let stored = record.maps()?;
    let mut found: Option<RecordMaps> = None;
    let mut fragments = Vec::new();
    for entry in record.entries()? {
        match entry.role {
            Role::Header(source_id) => {
                summary.bytes += verify_header(record, kind, source_id, &entry)?;
                found = Some(RecordMaps::new(source_id, path(record, &entry)));
            }
            Role::Fragment(..) => fragments.push(entry),
            Role::Other => {}
        }
    }
    let no_header = || Error::NoDataSet { record: record.name().into(), what: "header".into() };
    let mut found = found.ok_or_else(no_header)?;
    for entry in &fragments {
        verify_fragment(record, entry, &mut found, summary)?;
    }
    summary.records += 1;
    require(found == stored, record.name(), || "its maps do not tell what is in it".into())
}

fn verify_header(
    record: &RecordReader,
    kind: RecordKind,
    source_id: SourceId,
    entry: &Entry,
) -> Result<u64> {
    let bytes = entry.bytes()?;
    let wrong = |source| Error::Header { place: path(record, entry), source };
    let (number, sequence, source) = match kind {
        RecordKind::TriggerRecord => {
            let header = TriggerRecordHeader::new_checked(&bytes).map_err(wrong)?.header();
            (header.trigger_number, header.sequence_number, header.source_id)
        }
        RecordKind::TimeSlice => {
            let header = TimeSliceHeader::parse(&bytes).map_err(wrong)?;
            (header.number, 0, header.source_id)
        }
    };
    let same = RecordNumber { number, sequence } == record.number() && source == source_id;
    require(same, &path(record, entry), || {
        format!("the header is that of {number}.{sequence} of {source}")
    })?;
    Ok(bytes.len() as u64)
}

fn verify_fragment(
    record: &RecordReader,
    entry: &Entry,
    found: &mut RecordMaps,
    summary: &mut Summary,
) -> Result<()> {
    let (bytes, place) = (entry.bytes()?, path(record, entry));
    let wrong = |source| Error::Header { place: place.clone(), source };
    let fragment = Fragment::new_checked(&bytes).map_err(wrong)?;
    let header = fragment.header();
    let name = format!("{}_{}", header.source_id, header.fragment_type.name());
    let same = header.trigger_number == record.number().number && name == entry.name;
    require(same, &place, || {
        format!("the header is that of trigger {}, {name}", header.trigger_number)
    })?;
    let (source_id, fragment_type) = (header.source_id, header.fragment_type);
    if !found.add(source_id, fragment_type, header.detector_id, place.clone()) {
        return Err(Error::DuplicateSource { record: record.name().into(), source_id });
    }
    summary.fragments += 1;
    summary.bytes += bytes.len() as u64;
    summary.wrong_sizes += u64::from(!fragment.size_is_exact());
    Ok(())
}

fn path(record: &RecordReader, entry: &Entry) -> String {
    record.path_of(&entry.name)
}

fn require(holds: bool, place: &str, what: impl FnOnce() -> String) -> Result<()> {
    if holds {
        return Ok(());
    }
    Err(Error::Contradiction { place: place.to_owned(), what: what() })
}
