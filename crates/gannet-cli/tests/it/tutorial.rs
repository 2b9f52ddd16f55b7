//! The tutorial works, and so do guides: what `docs/tutorial.md` and `docs/roce.md` tell people to type is run, in
//! its order.
//!
//! Conventions of the tutorial:
//!
//! * Blocks marked `sh` are run by one `bash` in an empty directory; blocks marked `python` are run
//!   between them by the Python of `GANNET_JUDGE_PYTHON`, or skipped loudly. Other blocks are for
//!   reading only.
//! * Those of the chapter on a detector of one's own, marked `sh hodoscope`, are run by the test of
//!   that detector.
//! * What stands for what in commands, `typed` tells.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use gannet_measure::testing::skipped;

use crate::typed::{Block, PRELUDE, add_commands, blocks, run};

const TUTORIAL: &str = include_str!("../../../../docs/tutorial.md");
const ROCE: &str = include_str!("../../../../docs/roce.md");

/// Adds a block of Python to a script.
fn add_python(script: &mut String, block: &Block<'_>) {
    let code = block.code.join("\n");
    writeln!(script, "line={}\n\"$GANNET_JUDGE_PYTHON\" - <<'END_OF_PYTHON'", block.line).unwrap();
    writeln!(script, "{code}\nEND_OF_PYTHON").unwrap();
}

/// A whole document as a script.
fn script(document: &str) -> String {
    let mut script = PRELUDE.to_owned();
    for block in blocks(document) {
        match block.language {
            "sh" => add_commands(&mut script, &block),
            "python" if std::env::var_os("GANNET_JUDGE_PYTHON").is_some() => {
                add_python(&mut script, &block);
            }
            "python" => {
                skipped("the Python of the tutorial", "set GANNET_JUDGE_PYTHON to one with h5py")
            }
            _ => (),
        }
    }
    script
}

/// The directory of the binary under test: that which the check names, or the one built with the tests.
fn binaries() -> PathBuf {
    let binary = std::env::var_os("GANNET_BIN").unwrap_or(env!("CARGO_BIN_EXE_gannet").into());
    Path::new(&binary).parent().unwrap().to_path_buf()
}

/// Runs the script of a document, and returns what it printed.
fn does_what_it_says(script: &str, name: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let script = script.replace("tutorial.md:", &format!("{name}:"));
    let output = run(&script, directory.path(), &binaries());
    let (out, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // First what failed: a long output may be cut where it is read.
    let culprit = errors.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    assert!(output.status.success(), "{culprit} ({})\n{errors}\n{out}", output.status);
    out.into_owned()
}

#[test]
fn every_command_of_the_tutorial_does_what_it_says() {
    does_what_it_says(&script(TUTORIAL), "tutorial.md");
}

#[test]
fn every_command_of_the_guide_to_roce_does_what_it_says() {
    let out = does_what_it_says(&script(ROCE), "roce.md");
    let delivered = out.lines().find_map(|line| line.split_once("\"delivered\": "));
    let (_, frames) = delivered.unwrap_or_else(|| panic!("no ledger in {out}"));
    let frames: u64 = frames.trim_end_matches(',').parse().unwrap();
    assert!(frames > 1000, "{frames} frames");
}

#[test]
fn a_command_that_ends_otherwise_is_found() {
    let directory = tempfile::tempdir().unwrap();
    let cases = [
        ("true\nfalse", "tutorial.md:2: exit code 1"),
        ("false            # exit code 3", "tutorial.md:1: exit code 1 in place of 3"),
        ("true   # exit code 3", "tutorial.md:1: exit code 0 in place of 3"),
        ("cat > a <<'END'\nfalse\nEND\ntest $(cat a) = true", "tutorial.md:4: exit code 1"),
    ];
    for (place, (code, message)) in cases.into_iter().enumerate() {
        let mut script = PRELUDE.to_owned();
        let block = Block { language: "sh", line: 1, code: code.lines().collect() };
        add_commands(&mut script, &block);
        let directory = directory.path().join(place.to_string());
        std::fs::create_dir(&directory).unwrap();
        let output = run(&script, &directory, &binaries());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && errors.contains(message), "{code}: {errors}");
    }
    let mut script = PRELUDE.to_owned();
    let code = vec!["(exit 3)   # exit code 3", "cat <<'END'", "false", "END"];
    add_commands(&mut script, &Block { language: "sh", line: 1, code });
    let directory = directory.path().join("good");
    std::fs::create_dir(&directory).unwrap();
    assert!(run(&script, &directory, &binaries()).status.success());
}
