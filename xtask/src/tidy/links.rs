//! What documents point to exists.

use std::path::{Component, Path, PathBuf};

use super::Finding;
use super::tree::{File, Tree};

/// First directories of the paths that documents name in code spans.
const ROOTS: [&str; 9] =
    ["crates/", "xtask/", "docs/", "fuzz/", "tests/", "examples/", "results/", "deploy/", ".ci/"];
/// Tells of what was, so its paths may be gone.
const HISTORY: &str = "CHANGELOG.md";

/// Every link to a local file resolves, and every `path` and `path::function` that a document
/// names in code exists.
pub fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("md").flat_map(|file| check_document(tree, file)).collect()
}

fn check_document(tree: &Tree, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut is_code = false;
    for (line, text) in file.lines() {
        if text.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code {
            continue;
        }
        for target in link_targets(text).filter(|target| !resolves(tree, file, target)) {
            let message = format!("{target} does not exist; name the file from this one's place");
            findings.push(Finding::new(&file.path, line, "dead link", message));
        }
        if !file.path.ends_with(HISTORY) {
            let wrong = code_spans(text).filter_map(|span| missing_in_span(tree, span));
            findings.extend(wrong.map(|it| Finding::new(&file.path, line, "dead path", it)));
        }
    }
    findings
}

/// Targets of `[text](target)` and `[text]: target`.
fn link_targets(text: &str) -> impl Iterator<Item = &str> {
    let inline = text.split("](").skip(1).filter_map(|rest| rest.split([')', ' ']).next());
    let reference = text.strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline.chain(reference.map(|(_, target)| target.trim()))
}

/// Whether `target` is not a local file, or one that exists.
fn resolves(tree: &Tree, from: &File, target: &str) -> bool {
    let path = target.split('#').next().unwrap_or_default();
    if path.is_empty() || path.contains("://") || path.starts_with("mailto:") {
        return true;
    }
    let directory = from.path.parent().unwrap_or(Path::new(""));
    normal(&directory.join(path)).is_some_and(|path| tree.contains(&path))
}

/// `path` without `..`; none if it leaves the tree.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => normal.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(normal)
}

fn code_spans(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// What is wrong with a code span that names a path; paths with `<name>` or `*` are patterns.
fn missing_in_span(tree: &Tree, span: &str) -> Option<String> {
    let names_path = ROOTS.iter().any(|root| span.starts_with(root));
    if !names_path || span.contains(['<', '*', ' ', '{']) {
        return None;
    }
    let (path, function) = match span.split_once("::") {
        Some((path, function)) => (path, Some(function)),
        None => (span, None),
    };
    if !tree.contains(Path::new(path)) {
        return Some(format!("{path} does not exist"));
    }
    let function = function?.rsplit("::").next()?;
    let file = tree.file(Path::new(path));
    let is_there = file.is_some_and(|file| file.text.contains(&format!("fn {function}(")));
    (!is_there).then(|| format!("{path} has no function {function}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_in;

    fn messages(text: &str) -> Vec<String> {
        let code = ("crates/a/src/b.rs", "fn known() {}\n");
        let files = [("docs/page.md", text), ("README.md", "read"), code];
        findings_in(check, &files).into_iter().map(|(_, message)| message).collect()
    }

    #[test]
    fn links_that_resolve_are_welcome() {
        let text = "[a](../README.md#top) [b](https://a.b/c) [c](#here) [d](../crates/a)\n\
                    [e]: page.md\n```\n[f](nowhere.md)\n```\n";
        assert_eq!(messages(text), [""; 0]);
    }

    #[test]
    fn dead_links_are_found() {
        assert_eq!(messages("see [a](b.md) and [c](../README.md)").len(), 1);
        assert_eq!(messages("[a]: /etc/passwd").len(), 1);
        assert_eq!(messages("[a](../../outside.md)").len(), 1);
    }

    #[test]
    fn paths_in_code_exist_and_their_functions_too() {
        assert_eq!(
            messages("`crates/a/src/b.rs` `crates/a/src/b.rs::known` `crates/<x>`"),
            [""; 0]
        );
        assert_eq!(messages("`crates/a/src/c.rs`"), ["crates/a/src/c.rs does not exist"]);
        let unknown = ["crates/a/src/b.rs has no function unknown"];
        assert_eq!(messages("`crates/a/src/b.rs::unknown`"), unknown);
    }

    #[test]
    fn history_may_name_what_is_gone() {
        let files = [("CHANGELOG.md", "`crates/a/src/gone.rs`")];
        assert_eq!(findings_in(check, &files), []);
    }
}
