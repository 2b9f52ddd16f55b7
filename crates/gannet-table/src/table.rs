//! Writing a table.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use gannet_log::FileHeader;
use gannet_log::files::{self, Existing, NewFile};
use gannet_log::name::PART;
use parquet::basic::{Compression, Encoding};
use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::column::Column;
use crate::digest;

/// Why a table could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the Parquet library says.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ParquetError,
    },
    /// The file cannot be made or get its name.
    #[error(transparent)]
    File(#[from] files::Error),
}

impl Error {
    fn write(path: &Path) -> impl Fn(ParquetError) -> Self {
        move |source| Self::Write { path: path.to_owned(), source }
    }
}

/// What a table is called, what its columns are, and what it says about itself.
#[derive(Debug)]
pub struct Form<R: 'static> {
    /// Name of what a row is, in the plural.
    pub name: &'static str,
    /// The columns in their order.
    pub columns: &'static [Column<R>],
    /// A column whose values hardly ever repeat, and rise by small steps: it is stored as differences.
    pub rising: Option<&'static str>,
    /// Most rows of a row group, the part of the table that a reader takes in at once.
    pub rows_per_group: usize,
}

/// A table in progress, under a name ending in `.part`. Dropped before it is closed, it is removed.
///
/// Memory: one row group, and some 5 kB of directory per row group written.
#[derive(Debug)]
pub struct Table<R: 'static> {
    file: SerializedFileWriter<File>,
    name: NewFile,
    form: &'static Form<R>,
    rows: Vec<R>,
}

impl<R> Table<R> {
    /// Begins a table, which takes the place of `path` when it is closed. `about` are pairs that are stored with it.
    ///
    /// # Errors
    /// When the `.part` file of `path` exists, `path` is no file of this user, or the file cannot be written.
    pub fn replace(
        path: &Path,
        form: &'static Form<R>,
        about: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Error> {
        let name = NewFile::begin(path, PART, Existing::Replace)?;
        let file = name.handle()?;
        let start = |schema| {
            let properties = Arc::new(properties(form, about));
            SerializedFileWriter::new(file, schema, properties)
        };
        let file = schema(form).and_then(start).map_err(Error::write(path))?;
        Ok(Self { file, name, form, rows: Vec::new() })
    }

    /// Appends a row.
    ///
    /// # Errors
    /// When a row group is full and cannot be written.
    pub fn push(&mut self, row: R) -> Result<(), Error> {
        self.rows.push(row);
        if self.rows.len() == self.form.rows_per_group { self.flush() } else { Ok(()) }
    }

    /// Ends the table, puts it on the disk and gives it its name, which is returned.
    ///
    /// # Errors
    /// When writing or renaming fails; the `.part` file is removed then.
    pub fn close(mut self) -> Result<PathBuf, Error> {
        if !self.rows.is_empty() {
            self.flush()?;
        }
        let file = self.file.into_inner().map_err(Error::write(self.name.path()))?;
        let path = self.name.temporary_path();
        digest::seal(&file).map_err(|source| files::Error { doing: "seal", path, source })?;
        Ok(self.name.publish()?)
    }

    /// Writes the gathered rows as a row group.
    fn flush(&mut self) -> Result<(), Error> {
        let Self { file, rows, form, .. } = self;
        let mut write = || {
            let mut group = file.next_row_group()?;
            for column in form.columns {
                let missing =
                    || ParquetError::General("the schema has fewer columns than the table".into());
                column.write(rows, group.next_column()?.ok_or_else(missing)?)?;
            }
            group.close().map(|_| ())
        };
        write().map_err(Error::write(self.name.path()))?;
        self.rows.clear();
        Ok(())
    }
}

/// What the header of a log says, and how many chunks were lost from it: pairs for a table made of the log.
pub fn about_log(log: &FileHeader, chunks_missing: u64) -> Vec<(String, String)> {
    let pairs = [
        ("run", log.run.to_string()),
        ("file_index", log.file_index.to_string()),
        ("application", log.application.clone()),
        ("host", log.host.clone()),
        ("config_digest", log.config_digest.clone()),
        ("created_unix_ns", log.created_unix_ns.to_string()),
        ("run_started_unix_ns", log.run_started_unix_ns.to_string()),
        ("ticks_hz", log.ticks_hz.to_string()),
        ("log_chunks_missing", chunks_missing.to_string()),
    ];
    pairs.map(|(key, value)| (key.to_owned(), value)).into()
}

/// The columns as Parquet describes them.
fn schema<R>(form: &Form<R>) -> ParquetResult<Arc<Type>> {
    let fields = form.columns.iter().map(Column::schema).collect::<ParquetResult<_>>()?;
    Type::group_type_builder(form.name).with_fields(fields).build().map(Arc::new)
}

/// How the table is stored, and what it says about itself.
fn properties<R>(
    form: &Form<R>,
    about: impl IntoIterator<Item = (String, String)>,
) -> WriterProperties {
    let units = form.columns.iter().map(|it| (format!("unit.{}", it.name), it.unit.to_owned()));
    let pairs = about.into_iter().chain(units).map(|(key, value)| KeyValue::new(key, value));
    let properties = WriterProperties::builder()
        .set_created_by(format!("gannet version {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(pairs.chain([digest::entry()]).collect()))
        .set_compression(Compression::SNAPPY);
    let Some(rising) = form.rising.map(ColumnPath::from) else { return properties.build() };
    let properties = properties.set_column_dictionary_enabled(rising.clone(), false);
    properties.set_column_encoding(rising, Encoding::DELTA_BINARY_PACKED).build()
}

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;
    use crate::{Text, Values, verify};

    struct Row(u32);

    static FORM: Form<Row> = Form {
        name: "rows",
        columns: &[
            Column::narrow("narrow", 16, "things", |row| row.0 % 65_536),
            Column::wide("time", "ns", |row| u64::from(row.0) * 1000),
            Column::real("real", "mm", |row| row.0 as f32 / 2.0),
            Column { name: "double", unit: "mm", values: Values::Double(|row| row.0.into()) },
            Column {
                name: "flag",
                unit: "whether odd",
                values: Values::Flag(|row| row.0 % 2 == 1),
            },
            Column {
                name: "optional",
                unit: "absent where odd",
                values: Values::Optional(|row| (row.0 % 2 == 0).then_some(row.0.into())),
            },
            Column {
                name: "text",
                unit: "a name",
                values: Values::Text(|row| Text::from(row.0.to_string().as_str())),
            },
        ],
        rising: Some("time"),
        rows_per_group: 100,
    };

    #[test]
    fn every_kind_of_value_is_read_back_and_a_flipped_bit_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("rows.parquet");
        let about = [("run".to_owned(), "7".to_owned())];
        let mut table = Table::replace(&path, &FORM, about).unwrap();
        (0..250).for_each(|number| table.push(Row(number)).unwrap());
        assert!(!path.exists());
        assert_eq!(table.close().unwrap(), path);
        let summary = verify(&path).unwrap();
        assert_eq!((summary.rows, summary.columns), (250, 7));
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        assert_eq!(reader.num_row_groups(), 3);
        let pairs = reader.metadata().file_metadata().key_value_metadata().unwrap();
        let value = |key: &str| pairs.iter().find(|pair| pair.key == key).unwrap().value.as_deref();
        assert_eq!((value("run"), value("unit.real")), (Some("7"), Some("mm")));
        let row = reader.get_row_iter(None).unwrap().nth(201).unwrap().unwrap();
        let fields: Vec<_> = row.get_column_iter().map(|(_, field)| field.to_string()).collect();
        assert_eq!(fields, ["201", "201000", "100.5", "201.0", "true", "null", "\"201\""]);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[500] ^= 4;
        std::fs::write(&path, bytes).unwrap();
        assert!(verify(&path).is_err());
    }
}
