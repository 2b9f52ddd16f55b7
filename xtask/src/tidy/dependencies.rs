//! Each dependency has its reason.

use std::path::Path;

use toml::Table;

use super::Finding;
use super::tree::Tree;

const RULE: &str = "dependency";
const MANIFEST: &str = "Cargo.toml";
const DECISION: &str = "docs/decisions/0002-dependencies.md";
/// Rooms of the workspace itself.
const ROOM: &str = "gannet-";

/// Every dependency of the workspace is the first column of a line in the decision about them.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(manifest) = tree.file(Path::new(MANIFEST)) else { return Vec::new() };
    let reasons = tree.file(Path::new(DECISION)).map_or("", |file| file.text.as_str());
    let mut findings = Vec::new();
    for name in dependencies(&manifest.text) {
        if !reasons.lines().any(|line| line.starts_with(&format!("| `{name}` |"))) {
            let line = manifest.lines().find(|(_, text)| text.starts_with(&name));
            let message = format!("{name} has no line in {DECISION}: say what it saves us");
            findings.push(Finding::new(&manifest.path, line.map_or(1, |it| it.0), RULE, message));
        }
    }
    findings
}

fn dependencies(manifest: &str) -> Vec<String> {
    let table: Table = manifest.parse().unwrap_or_default();
    let workspace = table.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let names = workspace.and_then(|table| table.as_table()).into_iter().flatten();
    names.map(|(name, _)| name.clone()).filter(|name| !name.starts_with(ROOM)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn a_dependency_without_a_reason_is_found() {
        let manifest = "[workspace.dependencies]\ngannet-wire = { path = \"w\" }\nlibc = \"0.2\"\n\
                        serde = \"1\"\n";
        let decision = (DECISION, "| `libc` | `memory` | system calls; `serde` is not meant |\n");
        assert_eq!(places(check, &[(MANIFEST, manifest), decision]), ["Cargo.toml:4"]);
        assert_eq!(places(check, &[(MANIFEST, manifest)]).len(), 2);
    }
}
