//! Columns of numbers as an Arrow IPC stream, which pyarrow and others read without a parser of their own.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use arrow_schema::{ArrowError, Field, Schema};
use axum::http::StatusCode;
use axum::http::header::{HeaderValue, VARY};

use crate::calls::Reply;
use crate::problem::Problem;

/// What clients ask for in `Accept` to get one.
pub(crate) const KIND: &str = "application/vnd.apache.arrow.stream";

/// The table with these columns, all of one length, and what is to be known beside them as metadata of its schema.
pub(crate) fn table<T>(
    columns: Vec<(&str, ArrayRef)>,
    known: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Reply<T>, Problem> {
    let bytes = stream(columns, known).map_err(|error| {
        tracing::error!(%error, "HTTP: a table could not be made: internal error; please report it");
        let detail = "internal error; please report it";
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "defect", detail)
    })?;
    Ok(Reply::bytes(KIND, bytes).with(VARY, HeaderValue::from_static("accept")))
}

fn stream(
    columns: Vec<(&str, ArrayRef)>,
    known: impl IntoIterator<Item = (&'static str, String)>,
) -> Result<Vec<u8>, ArrowError> {
    let fields = columns
        .iter()
        .map(|(name, column)| Field::new(*name, column.data_type().clone(), column.is_nullable()));
    let known: HashMap<_, _> =
        known.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()).with_metadata(known));
    let columns = columns.into_iter().map(|(_, column)| column).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns)?;
    let mut writer = StreamWriter::try_new(Vec::new(), &schema)?;
    writer.write(&batch)?;
    writer.into_inner()
}
