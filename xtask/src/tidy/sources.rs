//! Every byte format says where it is defined.

use std::path::Path;

use super::Finding;
use super::tree::{File, Tree};

const FORMATS: &str = "crates/gannet-wire/src";
/// Modules of the formats' room that serve formats and are none themselves.
const NOT_FORMATS: [&str; 15] = [
    "lib",
    "capture",
    "capture_file",
    "copy",
    "error",
    "frame_format",
    "inspect",
    "layout",
    "big_endian",
    "little_endian",
    "network",
    "noise",
    "numbered",
    "record",
    "tpc_streams",
];

/// Each module of a format cites its source, itself or in the module above it.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let formats = tree.with_extension("rs").filter(|file| file.path.starts_with(FORMATS));
    let without = formats.filter(|file| !is_exempt(&file.path) && !cites(tree, file));
    without.map(|file| Finding::new(&file.path, 1, "no source", ADVICE)).collect()
}

const ADVICE: &str = "write a `Source: ` line in the doc comment of the format: repository and path, \
                    or standard and section; a module that is no format goes in \
                    xtask/src/tidy/sources.rs";

/// Whether the module, or the one whose directory it lies in, is no format.
fn is_exempt(path: &Path) -> bool {
    let below = path.strip_prefix(FORMATS).unwrap_or(path).with_extension("");
    let top = below.iter().next().and_then(|name| name.to_str()).unwrap_or_default();
    NOT_FORMATS.contains(&top)
}

fn cites(tree: &Tree, file: &File) -> bool {
    let here = file.lines().any(|(_, text)| {
        text.trim_start()
            .trim_start_matches("//")
            .trim_start_matches(['/', '!'])
            .trim_start()
            .starts_with("Source: ")
    });
    let above = file.path.parent().map(|directory| directory.with_extension("rs"));
    here || above.and_then(|path| tree.file(&path)).is_some_and(|above| cites(tree, above))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::places;

    const CITED: &str = "//! A header.\n//!\n//! Source: RFC 768.\n";
    const BARE: &str = "//! A header; Source: somewhere.\n";

    #[test]
    fn a_format_without_source_is_found() {
        let files = [
            ("crates/gannet-wire/src/udp.rs", CITED),
            ("crates/gannet-wire/src/wib.rs", BARE),
            ("crates/gannet-wire/src/error.rs", BARE),
            ("crates/gannet-wire/tests/wib.rs", BARE),
            ("crates/gannet-kernels/src/tpg/scalar.rs", BARE),
        ];
        assert_eq!(places(check, &files), ["crates/gannet-wire/src/wib.rs:1"]);
    }

    #[test]
    fn the_module_above_may_cite_for_its_parts() {
        let part = ("crates/gannet-wire/src/pcapng/reader.rs", BARE);
        assert_eq!(places(check, &[part, ("crates/gannet-wire/src/pcapng.rs", CITED)]), [""; 0]);
        assert_eq!(places(check, &[part, ("crates/gannet-wire/src/udp.rs", CITED)]).len(), 1);
    }
}
