//! Indentation of what is inside something else.

use core::fmt;

/// A writer that puts two spaces before each line.
pub(super) struct Indented<'a> {
    out: &'a mut dyn fmt::Write,
    at_line_start: bool,
}

impl<'a> Indented<'a> {
    /// Indents what goes to `out`, which stands at the start of a line.
    pub(super) fn new(out: &'a mut dyn fmt::Write) -> Self {
        Self { out, at_line_start: true }
    }
}

impl fmt::Write for Indented<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for line in text.split_inclusive('\n') {
            if self.at_line_start {
                self.out.write_str("  ")?;
            }
            self.out.write_str(line)?;
            self.at_line_start = line.ends_with('\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::fmt::Write;

    #[test]
    fn every_line_is_indented_once() {
        let mut text = String::new();
        let mut out = Indented::new(&mut text);
        write!(out, "a{:?}c\nd", 0).unwrap();
        writeln!(Indented::new(&mut out), "e").unwrap();
        assert_eq!(text, "  a0c\n  d  e\n");
    }
}
