//! Rooms that serve any detector know none by name.

use std::path::Path;

use super::Finding;
use super::code::code_only;
use super::tree::Tree;

/// Rooms that serve any detector.
const ROOMS: [&str; 5] = ["ingest", "memory", "log", "readout", "control"];
/// Words of names that belong to one detector or to its formats.
const WORDS: [&str; 13] = [
    "dune",
    "protodune",
    "wib",
    "wibeth",
    "protowib",
    "tde",
    "tdeeth",
    "tpc",
    "rich",
    "km3",
    "clb",
    "mgp",
    "m2egp",
];
/// Types of one detector that are named with ordinary words.
const TYPES: [&str; 4] = ["GeoId", "SourceId", "FragmentType", "TriggerPrimitive"];

/// No identifier in the source of such a room names a detector or its formats.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let sources = tree.with_extension("rs").filter(|file| serves_any_detector(&file.path));
    let mut findings = Vec::new();
    for file in sources {
        for (line, code) in (1..).zip(code_only(&file.text).lines()) {
            let mut names = code.split(|c: char| !c.is_alphanumeric() && c != '_');
            if let Some(name) = names.find(|name| is_of_one_detector(name)) {
                let message = format!(
                    "`{name}` belongs to one detector; this room serves any: ask for it by a trait, \
                     or move this to the detector's room"
                );
                findings.push(Finding::new(&file.path, line, "detector", message));
            }
        }
    }
    findings
}

fn serves_any_detector(path: &Path) -> bool {
    ROOMS.iter().any(|room| path.starts_with(format!("crates/gannet-{room}/src")))
}

fn is_of_one_detector(name: &str) -> bool {
    TYPES.contains(&name)
        || TYPES.iter().any(|ty| words(ty) == words(name))
        || words(name).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// The words of a name in snake or camel case, in small letters.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut was_small = false;
    for part in name.split('_').filter(|part| !part.is_empty()) {
        for (place, c) in part.chars().enumerate() {
            if place == 0 || (c.is_uppercase() && was_small) {
                words.push(String::new());
            }
            words.last_mut().into_iter().for_each(|word| word.extend(c.to_lowercase()));
            was_small = !c.is_uppercase();
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    #[test]
    fn names_of_a_detector_are_found_in_rooms_that_serve_any() {
        let code = "use gannet_wire::wibeth;\nfn f(key: GeoId, geo_id: u64) {}\nlet x: TpcFormat;\n\
                    // as DUNE does\nlet text = \"tpc\";\nlet enriched = contribute;\n";
        let file = |room: &str| format!("crates/gannet-{room}/src/a.rs");
        for room in ROOMS {
            let (path, at) = (file(room), |line: u32| format!("{}:{line}", file(room)));
            assert_eq!(places(check, &[(&path, code)]), [at(1), at(2), at(3)]);
        }
        for path in ["crates/gannet-dune/src/a.rs", "crates/gannet-ingest/tests/it/a.rs"] {
            assert_eq!(places(check, &[(path, code)]), [""; 0]);
        }
    }

    #[test]
    fn names_are_taken_apart_in_either_case() {
        assert_eq!(words("DUNE_CLOCK"), ["dune", "clock"]);
        assert_eq!(words("TpcFormat"), ["tpc", "format"]);
        assert_eq!(words("stream_key2"), ["stream", "key2"]);
    }
}
