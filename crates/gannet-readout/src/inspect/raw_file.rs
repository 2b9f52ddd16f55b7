//! Listing a raw file, and printing a record of it.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use gannet_hdf5::Value;
use gannet_wire::inspect::{Format, describe};

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
    let mut found = false;
    for record in reader.records().iter().filter(|record| record.number().number == number) {
        found = true;
        describe_one(record, reader.kind(), out)?;
    }
    if found { Ok(()) } else { Err(Error::NoRecord { file: path.to_owned(), wanted: number }) }
}

fn describe_one(record: &RecordReader, kind: RecordKind, out: &mut dyn Write) -> Result<(), Error> {
    write!(out, "{}", record.name())?;
    attributes(&values(&record.attributes()?), out)?;
    writeln!(out)?;
    let header = match kind {
        RecordKind::TriggerRecord => Format::TriggerRecord,
        RecordKind::TimeSlice => Format::TimeSlice,
    };
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
