//! What a log tells of its run at the start.

use std::fs::File;
use std::path::Path;

use super::error::Error;
use super::format::Kind;
use super::name::siblings;
use super::reader::Reader;

/// Chunks among which the start of a run is looked for.
const CHUNKS: usize = 16;

/// What was known at the start of the run that `log` is of: the text of its chunk of kind
/// [`Kind::RUN_START`], or of that in the first file of the run, if it lies beside it.
///
/// # Errors
/// When `log` cannot be read. Damage ends the search, and is no error.
pub fn run_start(log: &Path) -> Result<Option<String>, Error> {
    let mut reader = Reader::open(log)?;
    if let Some(start) = among_first(&mut reader) {
        return Ok(Some(start));
    }
    let Some(own) = reader.file_header().cloned() else { return Ok(None) };
    let of_run = |file: &Path| {
        let mut reader = Reader::open(file).ok()?;
        let start = among_first(&mut reader)?;
        let first = reader.file_header()?;
        let same = (first.run, first.run_started_unix_ns) == (own.run, own.run_started_unix_ns);
        same.then_some(start)
    };
    Ok(siblings(log).iter().find_map(|file| of_run(file)))
}

fn among_first(reader: &mut Reader<File>) -> Option<String> {
    for _ in 0..CHUNKS {
        let chunk = reader.next_chunk().ok()??;
        if chunk.header.label.kind == Kind::RUN_START {
            return String::from_utf8(chunk.payload.to_vec()).ok();
        }
    }
    None
}
