//! No invisible differences.

use super::Finding;
use super::tree::Tree;

/// No line ends in white space, none holds a tab, and a file ends with a line end.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.files() {
        let mut found = |line, message| {
            findings.push(Finding::new(&file.path, line, "white space", message));
        };
        for (line, text) in file.lines() {
            if text.ends_with(char::is_whitespace) {
                found(line, "delete the white space at the end of the line");
            }
            if text.contains('\t') {
                found(line, "write spaces for the tab");
            }
        }
        if !file.text.is_empty() && !file.text.ends_with('\n') {
            found(file.text.lines().count(), "end the last line");
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn invisible_differences_are_found() {
        let files =
            [("a.rs", "a \nb\n"), ("b.md", "a\n\tb\n"), ("c.toml", "a\r\n"), ("d.py", "a\nb")];
        assert_eq!(places(check, &files), ["a.rs:1", "b.md:2", "c.toml:1", "d.py:2"]);
        assert_eq!(places(check, &[("a.rs", "a\n\nb\n"), ("b.rs", "")]), [""; 0]);
    }
}
