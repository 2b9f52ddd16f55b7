//! Triggers as a Parquet table.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use gannet_trigger::module_level::Decision;
use parquet::basic::{Compression, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;

use super::error::Error;
use crate::parquet_file;
use gannet_log::files::{self, Existing, NewFile};
use gannet_log::name::PART;

/// Rows of a row group.
const ROWS_PER_GROUP_MAX: usize = 1 << 16;

/// A row of the table: a trigger decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TriggerRow {
    /// Number in the run, from 1.
    pub number: u64,
    /// Time of the earliest candidate, ticks.
    pub time: u64,
    /// First tick that is read out.
    pub window_begin: u64,
    /// First tick that is not.
    pub window_end: u64,
    /// Bit `n` is set for candidates of type number `n`.
    pub trigger_type: u64,
    /// Candidates.
    pub candidates: u64,
    /// Activities of all candidates.
    pub activities: u64,
    /// Charge of all activities, ADC counts summed over samples.
    pub charge: u64,
    /// Least offline channel number; absent without activities.
    pub channel_first: Option<u64>,
    /// Greatest offline channel number; absent without activities.
    pub channel_last: Option<u64>,
    /// Names of the candidates' types, with commas.
    pub kind: String,
    /// Names of the algorithms that made the candidates, with commas.
    pub algorithm: String,
}

impl TriggerRow {
    /// The row of a decision.
    pub fn of(decision: &Decision) -> Self {
        let candidates = || decision.candidates.iter().map(|candidate| &candidate.data);
        let activities = || decision.candidates.iter().flat_map(|candidate| &candidate.inputs);
        let names = |names: BTreeSet<&str>| names.into_iter().collect::<Vec<_>>().join(",");
        Self {
            number: decision.trigger_number,
            time: decision.timestamp,
            window_begin: decision.window_begin,
            window_end: decision.window_end,
            trigger_type: decision.trigger_type,
            candidates: decision.candidates.len() as u64,
            activities: activities().count() as u64,
            charge: activities().map(|activity| activity.adc_integral).sum(),
            channel_first: activities().map(|activity| activity.channel_start.into()).min(),
            channel_last: activities().map(|activity| activity.channel_end.into()).max(),
            kind: names(candidates().map(|data| data.candidate_type.name()).collect()),
            algorithm: names(candidates().map(|data| data.algorithm.name()).collect()),
        }
    }
}

/// How a column reads a row.
#[derive(Clone, Copy)]
enum Values {
    Number(fn(&TriggerRow) -> u64),
    Optional(fn(&TriggerRow) -> Option<u64>),
    Text(fn(&TriggerRow) -> &str),
}

/// Names and meanings of the columns, in their order; the meaning is stored in the file under the
/// key `unit.` and the name.
pub const TRIGGER_COLUMNS: [(&str, &str); 12] = [
    ("number", "number of the trigger in the run, from 1"),
    ("time", "ticks of the detector clock: earliest candidate"),
    ("window_begin", "ticks: first that is read out"),
    ("window_end", "ticks: first that is not read out"),
    ("trigger_type", "bit n is set for candidates of type number n"),
    ("type", "names of the candidates' types, with commas"),
    ("algorithm", "names of the algorithms that made the candidates, with commas"),
    ("candidates", "number"),
    ("activities", "number"),
    ("channel_first", "least offline channel number; absent without activities"),
    ("channel_last", "greatest offline channel number; absent without activities"),
    ("charge", "ADC counts above pedestal, summed over the samples of all activities"),
];

const VALUES: [Values; TRIGGER_COLUMNS.len()] = [
    Values::Number(|row| row.number),
    Values::Number(|row| row.time),
    Values::Number(|row| row.window_begin),
    Values::Number(|row| row.window_end),
    Values::Number(|row| row.trigger_type),
    Values::Text(|row| &row.kind),
    Values::Text(|row| &row.algorithm),
    Values::Number(|row| row.candidates),
    Values::Number(|row| row.activities),
    Values::Optional(|row| row.channel_first),
    Values::Optional(|row| row.channel_last),
    Values::Number(|row| row.charge),
];

/// A table in progress, under a name ending in `.part`. Dropped before it is closed, it is removed.
#[derive(Debug)]
pub struct TriggerTable {
    file: SerializedFileWriter<File>,
    name: NewFile,
    rows: Vec<TriggerRow>,
}

impl TriggerTable {
    /// Begins the table of run `run`, which takes the place of `path` when it is closed.
    ///
    /// # Errors
    /// When the `.part` file of `path` exists, `path` is no file of this user, or the file cannot be
    /// written.
    pub fn replace(path: &Path, run: u32) -> Result<Self, Error> {
        let name = NewFile::begin(path, PART, Existing::Replace)?;
        let file = name.handle()?;
        let start = |schema| SerializedFileWriter::new(file, schema, Arc::new(properties(run)));
        let file = schema().and_then(start).map_err(Error::table(path))?;
        Ok(Self { file, name, rows: Vec::new() })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When a row group is full and cannot be written.
    pub fn push(&mut self, row: TriggerRow) -> Result<(), Error> {
        self.rows.push(row);
        if self.rows.len() == ROWS_PER_GROUP_MAX { self.flush() } else { Ok(()) }
    }

    /// Ends the table, puts it on the disk and gives it its name.
    ///
    /// # Errors
    /// When writing or renaming fails.
    pub fn close(mut self) -> Result<(), Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let file = self.file.into_inner().map_err(Error::table(self.name.path()))?;
        let path = self.name.temporary_path();
        parquet_file::seal(&file).map_err(|source| files::Error { doing: "seal", path, source })?;
        self.name.publish()?;
        Ok(())
    }

    /// Writes the gathered rows as a row group.
    fn flush(&mut self) -> Result<(), Error> {
        let Self { file, rows, .. } = self;
        let mut write = || {
            let mut group = file.next_row_group()?;
            VALUES.iter().try_for_each(|values| write_column(&mut group, rows, *values))?;
            group.close().map(|_| ())
        };
        write().map_err(Error::table(self.name.path()))?;
        self.rows.clear();
        Ok(())
    }
}

/// Writes the next column of a row group.
fn write_column(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[TriggerRow],
    values: Values,
) -> ParquetResult<()> {
    let missing = || ParquetError::General("the schema has fewer columns than the table".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    match values {
        Values::Number(value) => {
            let values: Vec<i64> = rows.iter().map(|row| value(row) as i64).collect();
            column.typed::<Int64Type>().write_batch(&values, None, None)?;
        }
        Values::Optional(value) => {
            let values: Vec<i64> = rows.iter().filter_map(value).map(|v| v as i64).collect();
            let is_there: Vec<i16> = rows.iter().map(|row| value(row).is_some().into()).collect();
            column.typed::<Int64Type>().write_batch(&values, Some(&is_there), None)?;
        }
        Values::Text(value) => {
            let values: Vec<ByteArray> = rows.iter().map(|row| value(row).into()).collect();
            column.typed::<ByteArrayType>().write_batch(&values, None, None)?;
        }
    }
    column.close()
}

/// The columns as Parquet describes them.
fn schema() -> ParquetResult<Arc<Type>> {
    let field = |((name, _), values): (&(&str, &str), &Values)| {
        let (stored, repetition, logical) = match values {
            Values::Number(_) => {
                (PhysicalType::INT64, Repetition::REQUIRED, LogicalType::integer(64, false))
            }
            Values::Optional(_) => {
                (PhysicalType::INT64, Repetition::OPTIONAL, LogicalType::integer(64, false))
            }
            Values::Text(_) => {
                (PhysicalType::BYTE_ARRAY, Repetition::REQUIRED, LogicalType::String)
            }
        };
        let field = Type::primitive_type_builder(name, stored)
            .with_repetition(repetition)
            .with_logical_type(Some(logical));
        field.build().map(Arc::new)
    };
    let fields = TRIGGER_COLUMNS.iter().zip(&VALUES).map(field).collect::<ParquetResult<_>>()?;
    Type::group_type_builder("triggers").with_fields(fields).build().map(Arc::new)
}

/// How the table is stored, and what it says about itself.
fn properties(run: u32) -> WriterProperties {
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let units = TRIGGER_COLUMNS.iter().map(|(name, unit)| (format!("unit.{name}"), *unit));
    let about = units.map(|(key, unit)| entry(&key, unit.into()));
    WriterProperties::builder()
        .set_created_by(format!("gannet version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(
            about.chain([entry("run", run.to_string()), parquet_file::entry()]).collect(),
        ))
        .set_compression(Compression::SNAPPY)
        .build()
}
