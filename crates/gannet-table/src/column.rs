//! What a column holds, and how it is stored.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type,
};
use parquet::errors::Result;
use parquet::file::writer::SerializedColumnWriter;
use parquet::schema::types::Type;

/// A short text, cheap to copy.
pub use parquet::data_type::ByteArray as Text;

/// How a column reads a row.
#[derive(Debug)]
pub enum Values<R> {
    /// A whole number of at most so many bits, no more than 32.
    Narrow(i8, fn(&R) -> u32),
    /// A whole number of 64 bits.
    Wide(fn(&R) -> u64),
    /// The same, which may be missing.
    Optional(fn(&R) -> Option<u64>),
    /// A number of 32 bits with a fraction.
    Real(fn(&R) -> f32),
    /// A number of 64 bits with a fraction.
    Double(fn(&R) -> f64),
    /// True or false.
    Flag(fn(&R) -> bool),
    /// A short text.
    Text(fn(&R) -> Text),
}

/// A column of a table. Whole numbers are unsigned.
#[derive(Debug)]
pub struct Column<R: 'static> {
    /// Name of the column.
    pub name: &'static str,
    /// Unit and meaning, stored in the file under the key `unit.` and the name.
    pub unit: &'static str,
    /// How to read a row.
    pub values: Values<R>,
}

impl<R> Column<R> {
    /// A column of whole numbers of at most `bits` bits, no more than 32.
    pub const fn narrow(
        name: &'static str,
        bits: i8,
        unit: &'static str,
        value: fn(&R) -> u32,
    ) -> Self {
        Self { name, unit, values: Values::Narrow(bits, value) }
    }

    /// A column of whole numbers of 64 bits.
    pub const fn wide(name: &'static str, unit: &'static str, value: fn(&R) -> u64) -> Self {
        Self { name, unit, values: Values::Wide(value) }
    }

    /// A column of numbers with a fraction.
    pub const fn real(name: &'static str, unit: &'static str, value: fn(&R) -> f32) -> Self {
        Self { name, unit, values: Values::Real(value) }
    }

    /// The column as Parquet describes it.
    pub(crate) fn schema(&self) -> Result<Arc<Type>> {
        let integer = |bits| Some(LogicalType::integer(bits, false));
        let (stored, logical) = match self.values {
            Values::Narrow(bits, _) => (PhysicalType::INT32, integer(bits)),
            Values::Wide(_) | Values::Optional(_) => (PhysicalType::INT64, integer(64)),
            Values::Real(_) => (PhysicalType::FLOAT, None),
            Values::Double(_) => (PhysicalType::DOUBLE, None),
            Values::Flag(_) => (PhysicalType::BOOLEAN, None),
            Values::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String)),
        };
        let repetition = match self.values {
            Values::Optional(_) => Repetition::OPTIONAL,
            _ => Repetition::REQUIRED,
        };
        let field = Type::primitive_type_builder(self.name, stored);
        let field = field.with_repetition(repetition).with_logical_type(logical);
        field.build().map(Arc::new)
    }

    /// Writes what it reads of `rows`.
    pub(crate) fn write(&self, rows: &[R], mut to: SerializedColumnWriter<'_>) -> Result<()> {
        match self.values {
            Values::Narrow(_, value) => all::<Int32Type, R>(rows, |row| value(row) as i32, &mut to),
            Values::Wide(value) => all::<Int64Type, R>(rows, |row| value(row) as i64, &mut to),
            Values::Real(value) => all::<FloatType, R>(rows, value, &mut to),
            Values::Double(value) => all::<DoubleType, R>(rows, value, &mut to),
            Values::Flag(value) => all::<BoolType, R>(rows, value, &mut to),
            Values::Text(value) => all::<ByteArrayType, R>(rows, value, &mut to),
            Values::Optional(value) => {
                let values: Vec<i64> = rows.iter().filter_map(value).map(|v| v as i64).collect();
                let is_there: Vec<i16> =
                    rows.iter().map(|row| value(row).is_some().into()).collect();
                to.typed::<Int64Type>().write_batch(&values, Some(&is_there), None).map(|_| ())
            }
        }?;
        to.close()
    }
}

fn all<T: DataType, R>(
    rows: &[R],
    value: impl Fn(&R) -> T::T,
    to: &mut SerializedColumnWriter<'_>,
) -> Result<()> {
    let values: Vec<T::T> = rows.iter().map(value).collect();
    to.typed::<T>().write_batch(&values, None, None).map(|_| ())
}
