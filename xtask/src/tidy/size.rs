//! A file is one idea.

use super::Finding;
use super::tree::Tree;

const LINES_MAX: usize = 1000;

/// No Rust file is longer than [`LINES_MAX`].
pub fn check(tree: &Tree) -> Vec<Finding> {
    let long = tree.with_extension("rs").filter(|file| file.text.lines().count() > LINES_MAX);
    let found = |file: &super::tree::File| {
        let message = format!("over {LINES_MAX} lines: which two ideas does it hold? split them");
        Finding::new(&file.path, LINES_MAX + 1, "long file", message)
    };
    long.map(found).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn a_long_file_is_found() {
        let (full, over) = ("x\n".repeat(LINES_MAX), "x\n".repeat(LINES_MAX + 1));
        assert_eq!(places(check, &[("a.rs", &full), ("b.rs", &over)]), ["b.rs:1001"]);
    }
}
