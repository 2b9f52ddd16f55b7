//! Trigger primitives as a Parquet table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gannet_wire::{TriggerPrimitive, trigger_primitive};
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::ColumnReader;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type};

use super::error::Error;
use super::places::{ChannelPlaces, Place};
use crate::parquet_file;
use gannet_log::files::open_input;
use gannet_log::files::{self, Existing, NewFile};
use gannet_log::name::PART;
use gannet_log::{FileHeader, RunInfo};

/// Most rows of a row group, the part of the table that a reader takes in at once: some 8 MB.
pub const ROWS_PER_GROUP_MAX: usize = 1 << 18;

/// A primitive, and where its channel is.
#[derive(Clone, Debug)]
pub struct Row {
    tp: TriggerPrimitive,
    place: Place,
}

/// How a column reads a row, by the type that Parquet stores it in.
#[derive(Clone, Copy, Debug)]
pub enum Values {
    /// A whole number of at most so many bits, no more than 32, as bits of a signed number.
    Narrow(i8, fn(&Row) -> i32),
    /// A whole number of 64 bits, as bits of a signed number.
    Wide(fn(&Row) -> i64),
    /// A short text.
    Text(fn(&Row) -> ByteArray),
}

/// A column of the table. Numbers are unsigned and whole, and no value is ever missing.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Name of the column, for most that of a field of a [`TriggerPrimitive`].
    pub name: &'static str,
    /// Unit and meaning, stored in the file under the key `unit.` and the name.
    pub unit: &'static str,
    /// How to read a row.
    pub values: Values,
}

const fn narrow(
    name: &'static str,
    bits: i8,
    unit: &'static str,
    value: fn(&Row) -> i32,
) -> Column {
    Column { name, unit, values: Values::Narrow(bits, value) }
}

/// The column that is compressed as differences of one row from the one before.
const TIME_START: &str = "time_start";

/// The columns, in their order: the fields of DUNE's trigger primitive, version 2, then where its
/// channel is.
pub const COLUMNS: [Column; 11] = [
    narrow("version", 8, "layout of the primitive, always 2", |row| row.tp.version().into()),
    narrow("flag", 8, "flag bits, 0 unless a producer sets them", |row| row.tp.flag().into()),
    narrow("detid", 8, "number of the detector", |row| row.tp.detid().into()),
    narrow("channel", 32, "offline channel number, of 24 bits", |row| row.tp.channel() as i32),
    Column {
        name: TIME_START,
        unit: "ticks of the detector clock at ticks_hz: first sample over threshold",
        values: Values::Wide(|row| row.tp.time_start() as i64),
    },
    narrow("samples_over_threshold", 16, "samples", |row| row.tp.samples_over_threshold().into()),
    narrow("samples_to_peak", 16, "samples from the start to the peak", |row| {
        row.tp.samples_to_peak().into()
    }),
    narrow("adc_integral", 32, "ADC counts above pedestal, summed over the samples", |row| {
        row.tp.adc_integral() as i32
    }),
    narrow("adc_peak", 16, "ADC counts above pedestal", |row| row.tp.adc_peak().into()),
    narrow("plane", 8, "plane of the channel's wire; 255 if unknown", |row| row.place.plane.into()),
    Column {
        name: "stream",
        unit: "stream of the channel, as detector/crate/slot/stream; empty if unknown",
        values: Values::Text(|row| row.place.stream.clone()),
    },
];

/// A table in progress, under a name ending in `.part`. Dropped before it is closed, it is removed.
///
/// Memory: one row group, and some 5 kB of directory per row group written.
#[derive(Debug)]
pub struct PrimitiveTable {
    file: SerializedFileWriter<File>,
    name: NewFile,
    places: ChannelPlaces,
    unknown: Place,
    rows: Vec<Row>,
}

impl PrimitiveTable {
    /// Begins the table of a log, which takes the place of `path` when it is closed.
    ///
    /// What the log's header says is stored with it, and `chunks_missing`, the number of chunks
    /// that were lost from the log. `places` tells plane and stream of the channels.
    ///
    /// # Errors
    /// When the `.part` file of `path` exists, `path` is no file of this user, or the file cannot be
    /// written.
    pub fn replace(
        path: &Path,
        log: &FileHeader,
        chunks_missing: u64,
        places: ChannelPlaces,
    ) -> Result<Self, Error> {
        let name = NewFile::begin(path, PART, Existing::Replace)?;
        let file = name.handle()?;
        let start = |schema| {
            let properties = Arc::new(properties(log, chunks_missing));
            SerializedFileWriter::new(file, schema, properties)
        };
        let file = schema().and_then(start).map_err(Error::table(path))?;
        let rows = Vec::with_capacity(ROWS_PER_GROUP_MAX);
        Ok(Self { file, name, places, unknown: Place::unknown(), rows })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When a row group is full and cannot be written.
    pub fn push(&mut self, primitive: TriggerPrimitive) -> Result<(), Error> {
        let place = self.places.of(primitive.channel()).unwrap_or(&self.unknown).clone();
        self.rows.push(Row { tp: primitive, place });
        if self.rows.len() == ROWS_PER_GROUP_MAX { self.flush() } else { Ok(()) }
    }

    /// Ends the table, puts it on the disk and gives it its name, which is returned.
    ///
    /// # Errors
    /// When writing or renaming fails; the `.part` file is removed then.
    pub fn close(mut self) -> Result<PathBuf, Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let file = self.file.into_inner().map_err(Error::table(self.name.path()))?;
        let path = self.name.temporary_path();
        parquet_file::seal(&file).map_err(|source| files::Error { doing: "seal", path, source })?;
        Ok(self.name.publish()?)
    }

    /// Writes the gathered rows as a row group.
    fn flush(&mut self) -> Result<(), Error> {
        let write = |file: &mut SerializedFileWriter<File>, rows: &[Row]| {
            let mut group = file.next_row_group()?;
            for column in &COLUMNS {
                match column.values {
                    Values::Narrow(_, value) => write_column::<Int32Type>(&mut group, rows, value)?,
                    Values::Wide(value) => write_column::<Int64Type>(&mut group, rows, value)?,
                    Values::Text(value) => write_column::<ByteArrayType>(&mut group, rows, value)?,
                }
            }
            group.close().map(|_| ())
        };
        write(&mut self.file, &self.rows).map_err(Error::table(self.name.path()))?;
        self.rows.clear();
        Ok(())
    }
}

/// Writes the next column of a row group.
fn write_column<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, File>,
    rows: &[Row],
    value: fn(&Row) -> T::T,
) -> ParquetResult<()> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    let missing = || ParquetError::General("the schema has fewer columns than the table".into());
    let mut column = group.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(&values, None, None)?;
    column.close()
}

/// The columns as Parquet describes them.
fn schema() -> ParquetResult<Arc<Type>> {
    let field = |column: &Column| {
        let (stored, logical) = match column.values {
            Values::Narrow(bits, _) => (PhysicalType::INT32, LogicalType::integer(bits, false)),
            Values::Wide(_) => (PhysicalType::INT64, LogicalType::integer(64, false)),
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, LogicalType::String),
        };
        let field = Type::primitive_type_builder(column.name, stored)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(logical));
        field.build().map(Arc::new)
    };
    let fields = COLUMNS.iter().map(field).collect::<ParquetResult<_>>()?;
    Type::group_type_builder("trigger_primitives").with_fields(fields).build().map(Arc::new)
}

/// How the table is stored, and what it says about itself.
fn properties(log: &FileHeader, chunks_missing: u64) -> WriterProperties {
    let entry = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    let about = [
        entry("run", log.run.to_string()),
        entry("file_index", log.file_index.to_string()),
        entry("application", log.application.clone()),
        entry("host", log.host.clone()),
        entry("config_digest", log.config_digest.clone()),
        entry("created_unix_ns", log.created_unix_ns.to_string()),
        entry("run_started_unix_ns", log.run_started_unix_ns.to_string()),
        entry("ticks_hz", log.ticks_hz.to_string()),
        entry("log_chunks_missing", chunks_missing.to_string()),
    ];
    let units =
        COLUMNS.iter().map(|column| entry(&format!("unit.{}", column.name), column.unit.into()));
    let digest = parquet_file::entry();
    let time_start = ColumnPath::from(TIME_START);
    WriterProperties::builder()
        .set_created_by(format!("gannet version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(about.into_iter().chain(units).chain([digest]).collect()))
        .set_compression(Compression::SNAPPY)
        // Times hardly ever repeat, and rise by small steps.
        .set_column_dictionary_enabled(time_start.clone(), false)
        .set_column_encoding(time_start, Encoding::DELTA_BINARY_PACKED)
        .build()
}

/// Reads a table back, row group by row group.
pub struct TableReader {
    file: SerializedFileReader<File>,
    path: PathBuf,
    next: usize,
}

impl TableReader {
    /// Opens the table `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or is no Parquet table.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let file = open_input(path).map_err(|cause| Error::read(path)(cause.into()))?;
        let file = SerializedFileReader::new(file).map_err(Error::read(path))?;
        Ok(Self { file, path: path.to_owned(), next: 0 })
    }

    /// What the header of the log said, as far as the table repeats it; `run` is the number of the
    /// run if it does not tell one.
    pub fn header(&self, run: u32) -> FileHeader {
        let about = self.file.metadata().file_metadata().key_value_metadata();
        let text = |key: &str| {
            let entry = about.into_iter().flatten().find(|entry| entry.key == key);
            entry.and_then(|entry| entry.value.clone()).unwrap_or_default()
        };
        let number = |key| text(key).parse().unwrap_or(0);
        let info = RunInfo {
            run: text("run").parse().unwrap_or(run),
            application: text("application"),
            host: text("host"),
            config_digest: text("config_digest"),
            ticks_hz: number("ticks_hz"),
            started_unix_ns: number("run_started_unix_ns"),
        };
        FileHeader::new(&info, number("file_index") as u32, number("created_unix_ns"))
    }

    /// The primitives of the next row group; `None` behind the last.
    ///
    /// # Errors
    /// When the file cannot be read, or lacks a field of a primitive.
    pub fn next_group(&mut self) -> Result<Option<Vec<TriggerPrimitive>>, Error> {
        if self.next == self.file.num_row_groups() {
            return Ok(None);
        }
        self.next += 1;
        let read = || -> ParquetResult<Vec<TriggerPrimitive>> {
            let group = self.file.get_row_group(self.next - 1)?;
            let column = |name: &str| read_column(&*group, name);
            let [flag, detid, channel] = [column("flag")?, column("detid")?, column("channel")?];
            let [start, samples, peak_at] = [
                column("time_start")?,
                column("samples_over_threshold")?,
                column("samples_to_peak")?,
            ];
            let [integral, peak] = [column("adc_integral")?, column("adc_peak")?];
            let primitive = |row: usize| {
                TriggerPrimitive::new(trigger_primitive::Repr {
                    flag: flag[row] as u8,
                    detid: detid[row] as u8,
                    channel: channel[row] as u32,
                    samples_over_threshold: samples[row] as u16,
                    time_start: start[row],
                    samples_to_peak: peak_at[row] as u16,
                    adc_integral: integral[row] as u32,
                    adc_peak: peak[row] as u16,
                })
            };
            Ok((0..start.len()).map(primitive).collect())
        };
        read().map(Some).map_err(Error::read(&self.path))
    }
}

/// All values of the column `name` of a row group, as bits.
fn read_column(group: &dyn RowGroupReader, name: &str) -> ParquetResult<Vec<u64>> {
    let rows = group.metadata().num_rows() as usize;
    let columns = group.metadata().schema_descr().columns();
    let place = columns.iter().position(|column| column.name() == name);
    let place = place.ok_or_else(|| ParquetError::General(format!("it has no column {name}")))?;
    let wide: Vec<u64> = match group.get_column_reader(place)? {
        ColumnReader::Int32ColumnReader(mut column) => {
            let mut values = Vec::new();
            column.read_records(rows, None, None, &mut values)?;
            values.into_iter().map(|value| u64::from(value as u32)).collect()
        }
        ColumnReader::Int64ColumnReader(mut column) => {
            let mut values = Vec::new();
            column.read_records(rows, None, None, &mut values)?;
            values.into_iter().map(|value| value as u64).collect()
        }
        _ => Vec::new(),
    };
    match wide.len() == rows {
        true => Ok(wide),
        false => Err(ParquetError::General(format!("column {name} does not hold {rows} numbers"))),
    }
}
