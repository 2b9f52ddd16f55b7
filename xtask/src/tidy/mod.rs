//! The rules of the house, each one a small function from the tree to what it found.
//!
//! Rules speak about what compiler and clippy cannot see: which room may know which, where
//! `unsafe` may live, what a document points to.

mod code;
mod dependencies;
mod detectors;
mod floors;
mod leftovers;
mod links;
mod names;
mod size;
mod sources;
mod tree;
mod unsafe_places;
mod whitespace;

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;

use tree::Tree;

type Rule = fn(&Tree) -> Vec<Finding>;

const RULES: [Rule; 10] = [
    floors::check,
    dependencies::check,
    detectors::check,
    unsafe_places::check,
    sources::check,
    links::check,
    size::check,
    leftovers::check,
    whitespace::check,
    names::check,
];

/// Checks all rules, prints what breaks them, and says whether nothing does.
///
/// # Errors
/// When the tree cannot be read.
pub fn run(root: &Path) -> Result<bool> {
    let tree = Tree::read(root)?;
    let findings: Vec<Finding> = RULES.iter().flat_map(|rule| rule(&tree)).collect();
    findings.iter().for_each(|finding| println!("{finding}"));
    println!("tidy: {} files, {} rules, {} to fix", tree.len(), RULES.len(), findings.len());
    Ok(findings.is_empty())
}

/// A place that breaks a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: PathBuf,
    /// Counted from 1.
    line: usize,
    /// The rule in two words.
    rule: &'static str,
    /// What is there, and how to fix it.
    message: String,
}

impl Finding {
    fn new(path: &Path, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.to_path_buf(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.path.display(), self.line, self.rule, self.message)
    }
}

/// Findings of `rule` in a tree of the given files, as `path:line` and message.
#[cfg(test)]
fn findings_in(rule: Rule, files: &[(&str, &str)]) -> Vec<(String, String)> {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let findings = rule(&Tree::read(root.path()).unwrap());
    let place = |finding: &Finding| format!("{}:{}", finding.path.display(), finding.line);
    findings.into_iter().map(|finding| (place(&finding), finding.message)).collect()
}

/// Places, as `path:line`, where `rule` finds something in a tree of the given files.
#[cfg(test)]
fn places(rule: Rule, files: &[(&str, &str)]) -> Vec<String> {
    findings_in(rule, files).into_iter().map(|(place, _)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_names_file_line_and_rule() {
        let finding = Finding::new(Path::new("a/b.rs"), 7, "long file", "split it");
        assert_eq!(finding.to_string(), "a/b.rs:7: long file: split it");
    }

    #[test]
    fn a_tree_that_breaks_a_rule_is_not_tidy() {
        let root = tempfile::tempdir().unwrap();
        assert!(run(root.path()).unwrap());
        std::fs::write(root.path().join("a.md"), "trailing \n").unwrap();
        assert!(!run(root.path()).unwrap());
    }
}
