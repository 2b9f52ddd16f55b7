//! No attic: a room or module is named after its idea.

use std::path::Path;

use super::Finding;
use super::code::code_only;
use super::tree::Tree;

/// Names that say nothing about what is inside.
const ATTIC: [&str; 7] = ["util", "utils", "common", "misc", "helper", "helpers", "core"];

/// No crate, directory, file or inline module has a name of the attic.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in tree.with_extension("rs") {
        if let Some(name) = attic_in_path(&file.path) {
            findings.push(finding(&file.path, 1, name));
        }
        for (line, code) in (1..).zip(code_only(&file.text).lines()) {
            if let Some(name) = inline_module(code).and_then(attic) {
                findings.push(finding(&file.path, line, name));
            }
        }
    }
    findings
}

fn finding(path: &Path, line: usize, name: &str) -> Finding {
    let message = format!("`{name}` says nothing; if two rooms need it, name the idea");
    Finding::new(path, line, "attic", message)
}

fn attic_in_path(path: &Path) -> Option<&'static str> {
    let path = path.with_extension("");
    let names = path.iter().filter_map(|name| name.to_str());
    names.map(|name| name.strip_prefix("gannet-").unwrap_or(name)).find_map(attic)
}

fn attic(name: &str) -> Option<&'static str> {
    ATTIC.into_iter().find(|attic| *attic == name)
}

/// The name in `mod name {`; a module in a file of its own is found by its path.
fn inline_module(code: &str) -> Option<&str> {
    let (before, after) = code.split_once("mod ")?;
    let is_item = before.is_empty() || before.ends_with([' ', ')']);
    after.trim_end().strip_suffix('{').map(str::trim).filter(|_| is_item)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn attics_are_found_by_crate_file_directory_and_module() {
        let files = [
            ("crates/gannet-core/src/lib.rs", ""),
            ("crates/gannet-a/src/util.rs", ""),
            ("crates/gannet-a/tests/common/mod.rs", ""),
            ("crates/gannet-a/src/score.rs", "use core::fmt;\npub(crate) mod misc {\n}\n"),
        ];
        let expected = [
            "crates/gannet-a/src/score.rs:2",
            "crates/gannet-a/src/util.rs:1",
            "crates/gannet-a/tests/common/mod.rs:1",
            "crates/gannet-core/src/lib.rs:1",
        ];
        assert_eq!(places(check, &files), expected);
    }

    #[test]
    fn a_word_within_a_name_is_no_attic() {
        let files = [("crates/gannet-a/src/core_affinity.rs", "mod tests {\n// mod util {\n}\n")];
        assert_eq!(places(check, &files), [""; 0]);
    }
}
