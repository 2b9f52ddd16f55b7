//! `gannet find` as a user runs it, on logs, raw files and captures of known frames.

mod equality;
mod losses;
pub mod recordings;
mod refusals;
mod windows;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use gannet_dune::raw_file::RawFileReader;
use gannet_wire::{Fragment, TriggerPrimitive, trigger_primitive};
use serde_json::Value;

/// Runs the binary to its end.
fn gannet(arguments: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gannet"));
    command.args(arguments.iter().map(|argument| argument.as_ref()));
    command.output().expect("the binary starts")
}

/// Runs `gannet find --json` on files and expects success; the report.
fn find(files: &[PathBuf], options: &[&dyn AsRef<OsStr>]) -> Value {
    let (code, report, errors) = find_told(files, options);
    assert_eq!(code, Some(0), "{errors}");
    report
}

/// Runs `gannet find --json` on files: exit code, report and what it said.
fn find_told(files: &[PathBuf], options: &[&dyn AsRef<OsStr>]) -> (Option<i32>, Value, String) {
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"find", &"--json"];
    arguments.extend(files.iter().map(|file| file as &dyn AsRef<OsStr>));
    arguments.extend(options);
    let output = gannet(&arguments);
    let report = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output.status.code(), report, errors(&output))
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The bytes of the header of a time slice, and its primitives.
type Slice = (Vec<u8>, Vec<TriggerPrimitive>);

/// The time slices of a raw file.
fn slices_in(path: &Path) -> Vec<Slice> {
    let file = RawFileReader::open(path).unwrap();
    let slice = |record: &gannet_dune::raw_file::RecordReader| {
        let mut found = Vec::new();
        for entry in record.entries().unwrap() {
            let bytes = entry.bytes().unwrap();
            if let Ok(fragment) = Fragment::new_checked(&bytes) {
                found.extend(trigger_primitive::primitives(fragment.payload()).unwrap());
            }
        }
        (record.header().unwrap(), found)
    };
    file.records().iter().map(slice).collect()
}

/// All primitives of a raw file.
fn primitives_in(path: &Path) -> Vec<TriggerPrimitive> {
    slices_in(path).into_iter().flat_map(|(_, found)| found).collect()
}
