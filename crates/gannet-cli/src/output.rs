//! Printing for programs.

use std::io::{self, Write};

use serde::Serialize;

/// Prints `value` as one JSON document on standard output.
///
/// # Errors
/// When standard output cannot be written.
pub fn json(value: &impl Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    writeln!(out)?;
    Ok(())
}
