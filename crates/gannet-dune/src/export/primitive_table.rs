//! Trigger primitives as a Parquet table.

use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_log::files::open_input;
use gannet_log::{FileHeader, RunInfo};
use gannet_table::{Column, Form, Table, Values, about_log};
use gannet_wire::{TriggerPrimitive, trigger_primitive};
use parquet::column::reader::ColumnReader;
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;

use super::error::Error;
use super::places::{ChannelPlaces, Place};

/// Most rows of a row group, the part of the table that a reader takes in at once: some 8 MB.
pub const ROWS_PER_GROUP_MAX: usize = 1 << 18;

/// A primitive, and where its channel is.
#[derive(Clone, Debug)]
pub struct Row {
    tp: TriggerPrimitive,
    place: Place,
}

/// The column that is compressed as differences of one row from the one before.
const TIME_START: &str = "time_start";

/// The columns, in their order: the fields of DUNE's trigger primitive, version 2, then where its
/// channel is.
pub const COLUMNS: [Column<Row>; 11] = [
    Column::narrow("version", 8, "layout of the primitive, always 2", |row| {
        row.tp.version().into()
    }),
    Column::narrow("flag", 8, "flag bits, 0 unless a producer sets them", |row| {
        row.tp.flag().into()
    }),
    Column::narrow("detid", 8, "number of the detector", |row| row.tp.detid().into()),
    Column::narrow("channel", 32, "offline channel number, of 24 bits", |row| row.tp.channel()),
    Column::wide(
        TIME_START,
        "ticks of the detector clock at ticks_hz: first sample over threshold",
        |row| row.tp.time_start(),
    ),
    Column::narrow("samples_over_threshold", 16, "samples", |row| {
        row.tp.samples_over_threshold().into()
    }),
    Column::narrow("samples_to_peak", 16, "samples from the start to the peak", |row| {
        row.tp.samples_to_peak().into()
    }),
    Column::narrow(
        "adc_integral",
        32,
        "ADC counts above pedestal, summed over the samples",
        |row| row.tp.adc_integral(),
    ),
    Column::narrow("adc_peak", 16, "ADC counts above pedestal", |row| row.tp.adc_peak().into()),
    Column::narrow("plane", 8, "plane of the channel's wire; 255 if unknown", |row| {
        row.place.plane.into()
    }),
    Column {
        name: "stream",
        unit: "stream of the channel, as detector/crate/slot/stream; empty if unknown",
        values: Values::Text(|row| row.place.stream.clone()),
    },
];

static FORM: Form<Row> = Form {
    name: "trigger_primitives",
    columns: &COLUMNS,
    rising: Some(TIME_START),
    rows_per_group: ROWS_PER_GROUP_MAX,
};

/// A table in progress, under a name ending in `.part`. Dropped before it is closed, it is removed.
#[derive(Debug)]
pub struct PrimitiveTable {
    table: Table<Row>,
    places: ChannelPlaces,
    unknown: Place,
}

impl PrimitiveTable {
    /// Begins the table of a log, which takes the place of `path` when it is closed.
    ///
    /// What the log's header says is stored with it, and `chunks_missing`, the number of chunks
    /// that were lost from the log. `places` tells plane and stream of the channels.
    ///
    /// # Errors
    /// As [`Table::replace`].
    pub fn replace(
        path: &Path,
        log: &FileHeader,
        chunks_missing: u64,
        places: ChannelPlaces,
    ) -> Result<Self, Error> {
        let table = Table::replace(path, &FORM, about_log(log, chunks_missing))?;
        Ok(Self { table, places, unknown: Place::unknown() })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// As [`Table::push`].
    pub fn push(&mut self, primitive: TriggerPrimitive) -> Result<(), Error> {
        let place = self.places.of(primitive.channel()).unwrap_or(&self.unknown).clone();
        Ok(self.table.push(Row { tp: primitive, place })?)
    }

    /// Ends the table, puts it on the disk and gives it its name, which is returned.
    ///
    /// # Errors
    /// As [`Table::close`].
    pub fn close(self) -> Result<PathBuf, Error> {
        Ok(self.table.close()?)
    }
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
