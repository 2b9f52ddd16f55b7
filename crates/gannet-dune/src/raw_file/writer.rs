//! Writing a raw file, record after record.

use std::path::{Path, PathBuf};

use gannet_hdf5::{Group, Value, Writer};
use gannet_wire::record::Record;
use gannet_wire::{FragmentRepr, SourceId, TimeSliceHeader, TriggerRecordHeader, trigger_record};

use super::error::{Error, Result};
use super::info::{FileInfo, unix_ms};
use super::layout::{FileLayout, RecordKind, RecordNumber};
use super::maps::RecordMaps;
use crate::time_slice::TimeSlice;
use gannet_log::files::{Existing, NewFile};
use gannet_record::{StoredRecord, TriggerRecord};

/// What the name of a file ends with until it is closed.
pub const IN_PROGRESS: &str = ".part";

/// A fragment to be written: the header, and the payload in as many pieces as it lies in.
#[derive(Clone, Copy, Debug)]
pub struct FragmentParts<'a> {
    /// Header; its size is written as what the payload is, whatever it says here.
    pub header: FragmentRepr,
    /// Pieces of the payload, which follow each other in the file.
    pub payload: &'a [&'a [u8]],
}

/// A raw file in progress.
///
/// After each record the file under the `.part` name is complete for any HDF5 reader, apart from
/// the two attributes that [`close`](Self::close) adds; a process that dies leaves it. A writer that
/// is dropped without `close` removes it. Memory does not grow with the size of the file, only by the
/// name of each record.
#[derive(Debug)]
pub struct RawFileWriter {
    file: Writer,
    name: NewFile,
    kind: RecordKind,
    layout: FileLayout,
    /// The closing time.
    end_unix_ms: u64,
    recorded_size: u64,
    records: u64,
}

impl RawFileWriter {
    /// Begins a file that is to be named `path` when it is closed.
    ///
    /// # Errors
    /// When `path` or its `.part` file exists, or the file cannot be written.
    pub fn create(path: &Path, info: &FileInfo) -> Result<Self> {
        Self::begin(path, info, Existing::Keep)
    }

    /// Begins a file that takes the place of `path`, if there is such a file, when it is closed.
    ///
    /// # Errors
    /// When the `.part` file of `path` exists, `path` is no file of this user, or the file cannot be
    /// written.
    pub fn replace(path: &Path, info: &FileInfo) -> Result<Self> {
        Self::begin(path, info, Existing::Replace)
    }

    fn begin(path: &Path, info: &FileInfo, existing: Existing) -> Result<Self> {
        let layout = FileLayout::new(info.kind);
        let name = NewFile::begin(path, IN_PROGRESS, existing)?;
        let attributes = info.to_attributes(&layout);
        let file = Writer::on(name.handle()?, &name.temporary_path(), &attributes)?;
        let (kind, end_unix_ms) = (info.kind, info.taken_at.end_unix_ms);
        Ok(Self { file, name, kind, layout, end_unix_ms, recorded_size: 0, records: 0 })
    }

    /// Writes a record: its header in the stored form, and its fragments.
    ///
    /// Returns the bytes by which the file grew. A record that failed is not in the file and may
    /// be tried again.
    ///
    /// # Errors
    /// When the header is not one of the file's kind, two parts have one source, the record is in
    /// the file already, or writing fails.
    pub fn write_record(&mut self, header: &[u8], fragments: &[FragmentParts<'_>]) -> Result<u64> {
        let Identity { number, source_id, header_len } = self.identify(header)?;
        let header = &header[..header_len];
        let record = self.layout.record_name(number);
        let header_name = self.layout.header_name(source_id);
        let names: Vec<_> = fragments.iter().map(|fragment| self.name(fragment)).collect();
        let maps = self.maps(&record, source_id, &header_name, fragments, &names)?;

        let headers: Vec<_> = fragments.iter().map(stored_header).collect();
        let parts: Vec<Vec<&[u8]>> =
            headers.iter().zip(fragments).map(|(header, f)| parts(header, f)).collect();
        let header_parts = [header];
        let mut raw_data = Group::new();
        raw_data.data_set(&header_name, &header_parts);
        for (name, parts) in names.iter().zip(&parts) {
            raw_data.data_set(name, parts);
        }
        let mut group = Group::new();
        for (name, text) in maps.to_attributes() {
            group.attribute(name, Value::from(text));
        }
        group.group(&self.layout.raw_data_group_name, raw_data);

        let grown = self.file.append(&record, &group)?;
        self.recorded_size += header.len() as u64 + parts.iter().map(|p| total(p)).sum::<u64>();
        self.records += 1;
        Ok(grown)
    }

    /// Writes a trigger record; see [`write_record`](Self::write_record).
    ///
    /// # Errors
    /// As [`write_record`](Self::write_record).
    pub fn write_trigger_record(&mut self, record: &TriggerRecord) -> Result<u64> {
        let payloads: Vec<[&[u8]; 1]> =
            record.fragments.iter().map(|fragment| [&fragment.payload[..]]).collect();
        let parts = record.fragments.iter().zip(&payloads);
        let fragments: Vec<_> =
            parts.map(|(f, payload)| FragmentParts { header: f.header, payload }).collect();
        self.write_record(&record.header_bytes(), &fragments)
    }

    /// Writes a time slice; see [`write_record`](Self::write_record).
    ///
    /// # Errors
    /// As [`write_record`](Self::write_record).
    pub fn write_time_slice(&mut self, slice: &TimeSlice) -> Result<u64> {
        let mut header = [0; TimeSliceHeader::LEN];
        slice.header.emit(&mut header);
        let payload = [&slice.fragment.payload[..]];
        let fragment = FragmentParts { header: slice.fragment.header, payload: &payload };
        self.write_record(&header, &[fragment])
    }

    /// Writes a record from its stored form, as the log keeps it: the header, then each fragment
    /// with its header, whose size says where the next one begins.
    ///
    /// # Errors
    /// When a fragment does not end where the bytes do, and as
    /// [`write_record`](Self::write_record).
    pub fn write_stored(&mut self, record: &[u8]) -> Result<u64> {
        let stored = match self.kind {
            RecordKind::TriggerRecord => StoredRecord::trigger_record(record),
            RecordKind::TimeSlice => StoredRecord::time_slice(record),
        };
        let stored = stored.map_err(|source| self.wrong(source))?;
        let fragments: gannet_wire::Result<Vec<_>> = stored.fragments().collect();
        let fragments = fragments.map_err(|source| self.wrong(source))?;
        let payloads: Vec<[&[u8]; 1]> = fragments.iter().map(|f| [f.payload()]).collect();
        let parts = fragments.iter().zip(&payloads);
        let parts: Vec<_> =
            parts.map(|(f, payload)| FragmentParts { header: f.header(), payload }).collect();
        self.write_record(stored.header(), &parts)
    }

    /// Number of records written.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Bytes of the file so far.
    pub fn file_len(&self) -> u64 {
        self.file.file_len()
    }

    /// Ends the file, puts it on the disk and gives it its name, which is returned.
    ///
    /// # Errors
    /// When writing or renaming fails; the `.part` file is removed then.
    pub fn close(self) -> Result<PathBuf> {
        let end_unix_ms = self.end_unix_ms;
        self.close_at(end_unix_ms)
    }

    /// Like [`close`](Self::close), with data that turned out to end at another time, in
    /// milliseconds since 1970, than was said at first.
    ///
    /// # Errors
    /// As [`close`](Self::close).
    pub fn close_at(self, end_unix_ms: u64) -> Result<PathBuf> {
        let closing = [
            ("recorded_size", Value::U64(self.recorded_size)),
            ("closing_timestamp", unix_ms(end_unix_ms)),
        ];
        self.file.close(&closing)?;
        Ok(self.name.publish()?)
    }

    /// What the header at the start of a record tells.
    fn identify(&self, record: &[u8]) -> Result<Identity> {
        let identity = match self.kind {
            RecordKind::TriggerRecord => TriggerRecordHeader::new_checked(record).map(|record| {
                let header = record.header();
                let (number, sequence) = (header.trigger_number, header.sequence_number);
                let header_len = trigger_record::buffer_len(record.component_requests().len());
                let number = RecordNumber { number, sequence };
                Identity { number, source_id: header.source_id, header_len }
            }),
            RecordKind::TimeSlice => TimeSliceHeader::parse(record).map(|header| Identity {
                number: RecordNumber { number: header.number, sequence: 0 },
                source_id: header.source_id,
                header_len: TimeSliceHeader::LEN,
            }),
        };
        identity.map_err(|source| self.wrong(source))
    }

    fn wrong(&self, source: gannet_wire::Error) -> Error {
        Error::Header {
            place: format!("record {} of {}", self.records, self.name.path().display()),
            source,
        }
    }

    fn name(&self, fragment: &FragmentParts<'_>) -> String {
        self.layout.fragment_name(fragment.header.source_id, fragment.header.fragment_type)
    }

    fn maps(
        &self,
        record: &str,
        source_id: SourceId,
        header_name: &str,
        fragments: &[FragmentParts<'_>],
        names: &[String],
    ) -> Result<RecordMaps> {
        let mut maps = RecordMaps::new(source_id, self.layout.path(record, header_name));
        for (FragmentParts { header, .. }, name) in fragments.iter().zip(names) {
            let path = self.layout.path(record, name);
            if !maps.add(header.source_id, header.fragment_type, header.detector_id, path) {
                let (record, source_id) = (record.to_owned(), header.source_id);
                return Err(Error::DuplicateSource { record, source_id });
            }
        }
        Ok(maps)
    }
}

/// What a record header tells about its record.
struct Identity {
    number: RecordNumber,
    source_id: SourceId,
    header_len: usize,
}

fn stored_header(fragment: &FragmentParts<'_>) -> [u8; FragmentRepr::LEN] {
    let mut bytes = [0; FragmentRepr::LEN];
    let payload_len = fragment.payload.iter().map(|piece| piece.len()).sum();
    fragment.header.with_payload_len(payload_len).emit(&mut bytes);
    bytes
}

fn parts<'a>(header: &'a [u8], fragment: &FragmentParts<'a>) -> Vec<&'a [u8]> {
    [header].into_iter().chain(fragment.payload.iter().copied()).collect()
}

fn total(parts: &[&[u8]]) -> u64 {
    parts.iter().map(|part| part.len() as u64).sum()
}
