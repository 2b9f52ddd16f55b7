//! A page on a terminal that takes the place of the one before.

use crossterm::terminal;

use crate::output;

/// Columns and lines of a terminal that does not tell its own.
const SIZE: (u16, u16) = (80, 24);

/// Columns of the terminal, and rows that it shows without scrolling; one stays for the cursor.
pub fn room() -> (usize, usize) {
    let (columns, lines) = terminal::size().unwrap_or(SIZE);
    (columns.into(), usize::from(lines.max(2) - 1))
}

/// A line in rows of at most so many columns, as far as its words allow that; `indent` columns are free before all but the first.
pub fn wrapped(line: &str, columns: usize, indent: usize) -> Vec<String> {
    let mut rows = Vec::new();
    let mut row = String::new();
    for word in line.split_inclusive(' ') {
        let width = row.chars().count() + word.trim_end().chars().count();
        if width > columns && !row.trim().is_empty() {
            rows.push(row.trim_end().to_owned());
            row = " ".repeat(indent);
        }
        row += word;
    }
    rows.push(row.trim_end().to_owned());
    rows
}

/// Shows rows in the place of those that are there, each as far as it goes into `columns`; `is_first` clears what others have left.
///
/// # Errors
/// When standard output cannot be written.
pub fn show(rows: &[String], columns: usize, is_first: bool) -> anyhow::Result<()> {
    let clear = if is_first { "\x1b[2J" } else { "" };
    let fitting = rows.iter().map(|row| row.chars().take(columns).collect::<String>());
    let rows = fitting.collect::<Vec<_>>().join("\x1b[K\n");
    output::text(&format!("{clear}\x1b[H{rows}\x1b[K\n\x1b[J"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_between_words() {
        assert_eq!(wrapped("  1 s  a cable is cut", 80, 7), ["  1 s  a cable is cut"]);
        assert_eq!(wrapped("  1 s  a cable is cut", 15, 7), ["  1 s  a cable", "       is cut"]);
        assert_eq!(wrapped("thïrd", 5, 7), ["thïrd"]);
        assert_eq!(wrapped("long words stay", 2, 1), ["long", " words", " stay"]);
        assert_eq!(wrapped("", 80, 7), [""]);
    }
}
