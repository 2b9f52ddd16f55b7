//! Rows of tables.

use std::io::{self, Write};

/// A row of cells, the first of them wide.
pub fn line(out: &mut impl Write, cells: impl Iterator<Item = String>) -> io::Result<()> {
    for (at, cell) in cells.enumerate() {
        let width = if at == 0 { 18 } else { 11 };
        write!(out, "{cell:>width$}")?;
    }
    writeln!(out)
}
