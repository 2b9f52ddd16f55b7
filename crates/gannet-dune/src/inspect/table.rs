//! Listing a Parquet file.

use std::path::Path;

use parquet::basic::LogicalType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;

use super::entry::{ColumnEntry, Entry, RowEntry, TableEntry};
use super::error::Error;
use gannet_log::files::open_input;

/// Rows that are listed; a table may have billions.
const ROWS: usize = 10;

/// The table, then its first rows.
pub(super) fn list(
    path: &Path,
) -> Result<impl Iterator<Item = Result<Entry, Error>> + use<>, Error> {
    let wrong = |source: ParquetError| Error::Parquet { file: path.to_owned(), source };
    let file = open_input(path).map_err(Error::io("open", path))?;
    let reader = SerializedFileReader::new(file).map_err(wrong)?;
    let about = reader.metadata().file_metadata();
    let columns = about
        .schema_descr()
        .columns()
        .iter()
        .map(|column| ColumnEntry { name: column.path().string(), kind: kind(column) });
    let pairs = about.key_value_metadata().into_iter().flatten();
    let table = TableEntry {
        rows: about.num_rows().max(0) as u64,
        columns: columns.collect(),
        attributes: pairs
            .map(|pair| (pair.key.clone(), pair.value.clone().unwrap_or_default().into()))
            .collect(),
    };
    let rows = reader.get_row_iter(None).map_err(wrong)?.take(ROWS);
    let rows = rows.zip(0..).map(|(row, number)| {
        let row = row.map_err(wrong)?;
        let values = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
        Ok(Entry::Row(RowEntry { row: number, values: values.collect() }))
    });
    let rows: Vec<_> = rows.collect();
    Ok([Ok(Entry::Table(table))].into_iter().chain(rows))
}

/// The type that readers see.
fn kind(column: &ColumnDescriptor) -> String {
    match column.logical_type_ref() {
        Some(LogicalType::Integer(kind)) if kind.is_signed => format!("int{}", kind.bit_width),
        Some(LogicalType::Integer(kind)) => format!("uint{}", kind.bit_width),
        Some(kind) => format!("{kind:?}").to_lowercase(),
        None => column.physical_type().to_string().to_lowercase(),
    }
}

/// A field as JSON has it; what JSON has no type for is text.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(value) => (*value).into(),
        Field::Byte(value) => (*value).into(),
        Field::Short(value) => (*value).into(),
        Field::Int(value) => (*value).into(),
        Field::Long(value) => (*value).into(),
        Field::UByte(value) => (*value).into(),
        Field::UShort(value) => (*value).into(),
        Field::UInt(value) => (*value).into(),
        Field::ULong(value) => (*value).into(),
        Field::Float(value) => (*value).into(),
        Field::Double(value) => (*value).into(),
        Field::Str(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}
