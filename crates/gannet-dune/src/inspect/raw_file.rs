//! Listing a raw file, and printing a record of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use gannet_hdf5::Value;
use gannet_wire::inspect::{Format, describe};

use super::detail::{RecordContent, RecordDetail};
use super::entry::{DataSetEntry, Entry, FileEntry, RecordEntry, attributes};
use super::error::Error;
use super::log_file::said;
use crate::raw_file::{RawFileReader, RecordKind, RecordReader, Role};

/// The file, then its records.
pub(super) fn list(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Entry, Error>> + use<>, Error> {
    let reader = RawFileReader::open(path)?;
    let file = Entry::File(FileEntry {
        record_type: reader.kind().name(),
        records: reader.records().len() as u64,
        attributes: values(reader.attributes()),
    });
    let records = reader.into_records().into_iter();
    let records = records.map(|record| Ok(Entry::Record(entry(&record)?)));
    Ok([Ok(file)].into_iter().chain(records))
}

fn entry(record: &RecordReader) -> Result<RecordEntry, Error> {
    let data_sets = record.entries()?.into_iter().map(|entry| {
        let bytes = entry.len_bytes()?;
        Ok(DataSetEntry { name: entry.name, bytes })
    });
    Ok(RecordEntry {
        name: record.name().to_owned(),
        number: record.number().number,
        sequence: record.number().sequence,
        attributes: values(&record.attributes()?),
        data_sets: data_sets.collect::<Result<_, Error>>()?,
    })
}

/// Prints the records of the number `number` in the raw file `path`, with all that is in them.
///
/// # Errors
/// When there is no such record, or the file is damaged. A data set that is not what its name says
/// is no error: what is wrong with it is printed.
pub fn describe_record(path: &Path, number: u64, out: &mut dyn Write) -> Result<(), Error> {
    let reader = RawFileReader::open(path)?;
    for record in numbered(&reader, number)? {
        describe_one(record, reader.kind(), out)?;
    }
    Ok(())
}

/// The records of the number `number` in the raw file `path`, with all that is in them.
///
/// # Errors
/// As [`describe_record`]; what is wrong with a data set stands among the problems of its record.
pub fn record_details(path: &Path, number: u64) -> Result<Vec<RecordDetail>, Error> {
    let reader = RawFileReader::open(path)?;
    let header = header_format(reader.kind());
    let detail = |record: &RecordReader| {
        let mut content = RecordContent::default();
        for entry in record.entries()? {
            match entry.role {
                Role::Header(_) => content.add_header(header, &entry.bytes()?),
                Role::Fragment(..) => content.add_fragment(&entry.bytes()?),
                Role::Other => {}
            }
        }
        Ok(RecordDetail { record: self::entry(record)?, content })
    };
    numbered(&reader, number)?.into_iter().map(detail).collect()
}

/// The records of a number: one for each of its sequence numbers.
fn numbered(reader: &RawFileReader, number: u64) -> Result<Vec<&RecordReader>, Error> {
    let records = reader.records().iter().filter(|record| record.number().number == number);
    let records: Vec<_> = records.collect();
    let none = || Error::NoRecord { file: reader.path().to_owned(), wanted: number };
    if records.is_empty() { Err(none()) } else { Ok(records) }
}

/// The format of record headers.
fn header_format(kind: RecordKind) -> Format {
    match kind {
        RecordKind::TriggerRecord => Format::TriggerRecord,
        RecordKind::TimeSlice => Format::TimeSlice,
    }
}

fn describe_one(record: &RecordReader, kind: RecordKind, out: &mut dyn Write) -> Result<(), Error> {
    write!(out, "{}", record.name())?;
    attributes(&values(&record.attributes()?), out)?;
    writeln!(out)?;
    let header = header_format(kind);
    for entry in record.entries()? {
        let bytes = entry.bytes()?;
        writeln!(out, "{}, {} bytes", entry.name, bytes.len())?;
        match entry.role {
            Role::Header(_) => said(describe(header, &bytes, out), out)?,
            Role::Fragment(..) => said(describe(Format::Fragment, &bytes, out), out)?,
            Role::Other => {}
        }
    }
    Ok(())
}

/// Attributes as JSON has them.
fn values(attributes: &BTreeMap<String, Value<'static>>) -> BTreeMap<String, serde_json::Value> {
    let value = |value: &Value<'_>| match value {
        Value::U32(number) => (*number).into(),
        Value::U64(number) => (*number).into(),
        Value::I64(number) => (*number).into(),
        Value::Text(text) => text.as_ref().into(),
    };
    attributes.iter().map(|(name, stored)| (name.clone(), value(stored))).collect()
}
