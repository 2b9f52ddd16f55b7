//! Imports between rooms go strictly down.
//!
//! The compiler forbids a ring of crates; this forbids the stairs that lead up or sideways.

use std::collections::BTreeMap;

use toml::{Table, Value};

use super::Finding;
use super::tree::{File, Tree};

const RULE: &str = "floors";
/// Rooms are the crates whose names begin so.
const ROOM: &str = "gannet-";

/// Every room states its floor, and depends only on rooms of lower floors, in tests too.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests: Vec<&File> = tree
        .with_extension("toml")
        .filter(|file| file.path.starts_with("crates") && file.path.ends_with("Cargo.toml"))
        .collect();
    let (mut findings, mut rooms) = (Vec::new(), Vec::new());
    for manifest in manifests {
        match room(manifest) {
            Ok(room) => rooms.push(room),
            Err(message) => findings.push(Finding::new(&manifest.path, 1, RULE, message)),
        }
    }
    let floors: BTreeMap<&str, i64> =
        rooms.iter().map(|room| (room.name.as_str(), room.floor)).collect();
    findings.extend(rooms.iter().flat_map(|room| imports_not_down(room, &floors)));
    findings
}

struct Room<'a> {
    manifest: &'a File,
    name: String,
    floor: i64,
    imports: Vec<String>,
}

fn room(manifest: &File) -> Result<Room<'_>, String> {
    let table: Table = manifest.text.parse().map_err(|error| format!("not TOML: {error}"))?;
    let package = table.get("package").ok_or("no [package]")?;
    let name = package.get("name").and_then(Value::as_str).ok_or("the package has no name")?;
    let floor = package.get("metadata").and_then(|metadata| metadata.get("floor"));
    let floor = floor.and_then(Value::as_integer).ok_or_else(|| {
        format!("{name} states no floor; add `[package.metadata]` with `floor = N`")
    })?;
    let mut imports = Vec::new();
    collect_imports(&table, &mut imports);
    Ok(Room { manifest, name: name.to_owned(), floor, imports })
}

/// Finds rooms in all tables of dependencies: normal, of tests, of build scripts, of one target.
fn collect_imports(table: &Table, imports: &mut Vec<String>) {
    for (key, value) in table {
        let Some(inner) = value.as_table() else { continue };
        if key.ends_with("dependencies") {
            let package = |value: &Value| Some(value.get("package")?.as_str()?.to_owned());
            let names = inner.iter().map(|(key, value)| package(value).unwrap_or(key.clone()));
            imports.extend(names.filter(|name| name.starts_with(ROOM)));
        } else {
            collect_imports(inner, imports);
        }
    }
}

fn imports_not_down(room: &Room, floors: &BTreeMap<&str, i64>) -> Vec<Finding> {
    let (name, floor) = (&room.name, room.floor);
    let refuse = |import: &String| {
        let message = match floors.get(import.as_str()) {
            Some(other) if *other < floor => return None,
            Some(other) => format!(
                "{name} (floor {floor}) imports {import} (floor {other}); imports go strictly \
                 down: move what both need to a lower room, or pass it in through a trait"
            ),
            None => format!("{name} imports {import}, which is not under crates/"),
        };
        Some(Finding::new(&room.manifest.path, line_of(room.manifest, import), RULE, message))
    };
    room.imports.iter().filter_map(refuse).collect()
}

fn line_of(manifest: &File, import: &str) -> usize {
    let mut lines = manifest.lines().filter(|(_, text)| !text.starts_with("name"));
    lines.find(|(_, text)| text.contains(import)).map_or(1, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::findings_in;

    const LOW: (&str, &str) = (
        "crates/gannet-low/Cargo.toml",
        "[package]\nname = \"gannet-low\"\n[package.metadata]\nfloor = 1\n",
    );

    fn high(floor: &str, dependencies: &str) -> Vec<(String, String)> {
        let manifest = format!("[package]\nname = \"gannet-high\"\n{floor}\n{dependencies}");
        findings_in(check, &[LOW, ("crates/gannet-high/Cargo.toml", &manifest)])
    }

    #[test]
    fn imports_that_go_down_are_welcome() {
        let below = "[dependencies]\nserde = \"1\"\ngannet-low = { workspace = true }";
        assert_eq!(high("metadata = { floor = 2 }", below), []);
    }

    #[test]
    fn imports_on_the_same_floor_are_refused_in_every_table() {
        for table in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
            let dependencies = format!("[{table}]\ngannet-low.workspace = true");
            let found = high("metadata = { floor = 1 }", &dependencies);
            assert_eq!(found.len(), 1, "{table}");
            assert_eq!(found[0].0, "crates/gannet-high/Cargo.toml:5");
        }
    }

    #[test]
    fn another_name_does_not_hide_a_room() {
        let renamed = "[dependencies]\nlow = { package = \"gannet-low\" }";
        assert_eq!(high("metadata = { floor = 0 }", renamed).len(), 1);
    }

    #[test]
    fn a_room_without_a_floor_and_an_unknown_room_are_refused() {
        assert!(high("", "")[0].1.contains("states no floor"));
        let unknown = high("metadata = { floor = 3 }", "[dependencies]\ngannet-attic = \"1\"");
        assert!(unknown[0].1.contains("not under crates/"));
    }
}
