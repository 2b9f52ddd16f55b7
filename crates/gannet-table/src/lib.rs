//! Tables of rows as Parquet files, for other people's tools.
//!
//! A [`Table`] is written row by row; its [`Column`]s tell their unit and meaning in the file. The digest of a whole
//! file stands in it, and [`verify`] compares it.
#![forbid(unsafe_code)]

mod column;
mod digest;
mod file;
mod table;

pub use column::{Column, Text, Values};
pub use digest::DIGEST_KEY;
pub use file::{MAGIC, Summary, VerifyError, verify};
pub use table::{Error, Form, Table, about_log};
