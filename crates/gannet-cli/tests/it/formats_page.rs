//! The diagrams of the page about formats are those of the modules that read and write the bytes.

use std::fs;
use std::path::Path;

use gannet_table::{Column, Values};

const PAGE: &str = include_str!("../../../../docs/reference/formats.md");

/// The lines of doc comments of a source file, without their marks.
fn documentation(source: &str) -> String {
    let marks = ["//! ", "/// ", "//!", "///"];
    let text = |line: &str| {
        let line = line.trim_start();
        marks.iter().find_map(|mark| line.strip_prefix(mark)).map(|text| text.trim_end().to_owned())
    };
    source.lines().filter_map(text).collect::<Vec<_>>().join("\n")
}

#[test]
fn every_diagram_is_that_of_the_module_named_above_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut diagrams = 0;
    for part in PAGE.split("Defined in `").skip(1) {
        let (path, rest) = part.split_once('`').unwrap();
        let source = fs::read_to_string(root.join(path)).unwrap_or_else(|_| panic!("{path}"));
        let Some(block) = rest.strip_prefix(".\n\n```text\n") else { continue };
        let diagram = block.split_once("\n```").unwrap().0;
        let holds = documentation(&source).contains(&format!("```text\n{diagram}\n```"));
        assert!(holds, "the diagram of {path} has changed; copy it to docs/reference/formats.md");
        diagrams += 1;
    }
    assert!(diagrams > 15, "{diagrams} diagrams");
}

/// Every column has its row in the page.
fn are_told<R>(columns: &[Column<R>]) {
    for column in columns {
        let bits = match column.values {
            Values::Narrow(bits, _) => bits.to_string(),
            Values::Wide(_) | Values::Optional(_) => "64".to_owned(),
            Values::Real(_) => "float32".to_owned(),
            Values::Double(_) => "float64".to_owned(),
            Values::Flag(_) => "bool".to_owned(),
            Values::Text(_) => "text".to_owned(),
        };
        let row = format!("| `{}` | {bits} | {} |", column.name, column.unit);
        assert!(PAGE.contains(&row), "{row} is missing in docs/reference/formats.md");
    }
}

#[test]
fn the_columns_of_the_tables_are_those_that_are_written() {
    are_told(&gannet_dune::export::COLUMNS);
    are_told(&gannet_rich::export::COLUMNS);
    are_told(&gannet_km3::hits_table::COLUMNS);
}

#[test]
fn every_kind_of_chunk_is_told() {
    use gannet_log::Kind;
    for kind in (0..=u16::MAX).map(Kind).filter(|kind| kind.name().is_some()) {
        let row = format!("| {} | {kind} |", kind.0);
        assert!(PAGE.contains(&row), "{row} is missing in docs/reference/formats.md");
    }
}
