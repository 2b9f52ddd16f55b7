//! Reads a whole file back and reports everything that is wrong with it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::error::Error;
use super::file::{join, times};
use super::format::{Header, Kind};
use super::metadata::{EndCause, EndOfFile, FileHeader, ItemAccount};
use super::reader::{ChunkView, Reader};

/// Most problems that a report lists; further ones are counted only.
pub const PROBLEMS_MAX: usize = 100;

/// Totals of the chunks of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct KindTotal {
    /// Name of the kind.
    pub name: String,
    /// Chunks.
    pub chunks: u64,
    /// Items in them.
    pub items: u64,
    /// Items that were known to be missing when the chunks were written.
    pub items_missing: u64,
    /// Payload bytes.
    pub payload_bytes: u64,
}

/// What a whole file holds, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The file.
    pub file: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its header, if that could be read.
    pub header: Option<FileHeader>,
    /// Its end chunk, if that could be read.
    pub end: Option<EndOfFile>,
    /// Sound data chunks.
    pub data_chunks: u64,
    /// Data chunks that are known to be missing between the first and the last.
    pub chunks_missing: u64,
    /// Number in the run of the first data chunk, and of the one that would follow the last.
    pub sequence: Option<(u64, u64)>,
    /// Earliest and latest time stamp, ticks.
    pub times: Option<(u64, u64)>,
    /// Totals by number of the kind.
    pub kinds: BTreeMap<u16, KindTotal>,
    /// What became of the items of the run up to the end of this file, as its end chunk tells. A file
    /// may be as it was written although the run lost data.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub account: Vec<ItemAccount>,
    /// What is wrong, the first [`PROBLEMS_MAX`] of it.
    pub problems: Vec<String>,
    /// How many things are wrong.
    pub problem_count: u64,
}

impl Report {
    /// Whether every byte of the file is as written, the end included.
    pub fn is_sound(&self) -> bool {
        self.problem_count == 0
    }

    /// Whether the file is sound and no chunk is known to be missing.
    pub fn is_complete(&self) -> bool {
        self.is_sound() && self.chunks_missing == 0
    }

    /// Tests that anything of a log is in the file.
    ///
    /// # Errors
    /// [`Error::Empty`] and [`Error::NotALog`].
    pub fn check_is_log(&self) -> Result<(), Error> {
        match (self.bytes, self.sequence) {
            (0, _) => Err(Error::Empty(self.file.clone())),
            (_, None) => Err(Error::NotALog(self.file.clone())),
            _ => Ok(()),
        }
    }

    /// Whether the run is known to have lost items up to the end of this file.
    pub fn run_lost_items(&self) -> bool {
        self.account.iter().any(|item| item.missing_total() > 0)
    }

    /// What is missing from the files of the run, as the end chunk tells.
    fn write_account(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(end) = &self.end else { return Ok(()) };
        let when = match end.cause {
            EndCause::Closed => "of the run",
            EndCause::Rotated | EndCause::Failed => "of the run up to here",
            EndCause::Recovered => {
                let why = "the recording program did not end this file";
                return writeln!(f, "  {why}: what of the run is missing is not known");
            }
        };
        for item in self.account.iter().filter(|item| item.missing_total() > 0) {
            writeln!(f, "  {when}: {item}")?;
        }
        Ok(())
    }

    fn empty(file: &Path, bytes: u64) -> Self {
        Self {
            file: file.to_owned(),
            bytes,
            header: None,
            end: None,
            data_chunks: 0,
            chunks_missing: 0,
            sequence: None,
            times: None,
            kinds: BTreeMap::new(),
            account: Vec::new(),
            problems: Vec::new(),
            problem_count: 0,
        }
    }

    fn note(&mut self, problem: String) {
        self.problem_count += 1;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(problem);
        }
    }

    fn count(&mut self, header: &Header) {
        let label = &header.label;
        if label.kind == Kind::GAP {
            self.chunks_missing += u64::from(label.items_missing);
        }
        if !label.kind.is_data() {
            return;
        }
        let total = self.kinds.entry(label.kind.0).or_default();
        if total.chunks == 0 {
            total.name = label.kind.to_string();
        }
        total.chunks += 1;
        total.items += u64::from(label.items);
        total.items_missing += u64::from(label.items_missing);
        total.payload_bytes += u64::from(header.payload_len);
        self.data_chunks += 1;
        self.times = join(self.times, times(label));
    }
}

/// Reads all of the file `path` and checks every bit of it.
///
/// # Errors
/// What the system says. Damage is no error: it stands in the report.
pub fn verify(path: &Path) -> Result<Report, Error> {
    verify_source(Reader::open(path)?, path)
}

/// Reads all that `reader` has; `file` is its name in the report.
///
/// # Errors
/// What the system says.
pub fn verify_source<R: Read + Seek>(reader: Reader<R>, file: &Path) -> Result<Report, Error> {
    verify_seeing(reader, file, |_| ())
}

/// [`verify_source`] that shows every sound chunk to `see`, for who has to look at them anyway.
///
/// # Errors
/// What the system says.
pub fn verify_seeing<R: Read + Seek>(
    mut reader: Reader<R>,
    file: &Path,
    mut see: impl FnMut(&ChunkView<'_>),
) -> Result<Report, Error> {
    let mut report = Report::empty(file, reader.file_len());
    loop {
        match reader.next_chunk() {
            Ok(Some(chunk)) => {
                let header = chunk.header;
                report.sequence.get_or_insert((header.sequence, header.sequence));
                report.count(&header);
                see(&chunk);
            }
            Ok(None) => break,
            Err(error @ Error::Damaged { .. }) => {
                report.note(error.to_string());
                let expected = reader.sequence();
                if reader.resync()?.is_none() {
                    break;
                }
                if let (Some(expected), Some(found)) = (expected, reader.sequence()) {
                    report.chunks_missing += found - expected;
                }
            }
            Err(error) => return Err(error),
        }
    }
    if let (Some(range), Some(next)) = (&mut report.sequence, reader.sequence()) {
        range.1 = next;
    }
    report.header = reader.file_header().cloned();
    report.end = reader.end().cloned();
    report.account = report.end.as_ref().map(|end| end.account.clone()).unwrap_or_default();
    check_end(&mut report);
    Ok(report)
}

/// Compares what the end chunk says with what was read.
fn check_end(report: &mut Report) {
    let file = report.file.display().to_string();
    match &report.end {
        None => report.note(format!("{file}: no end chunk; run recover on a .part file")),
        Some(end)
            if (end.data_chunks, end.chunks_missing)
                != (report.data_chunks, report.chunks_missing) =>
        {
            let problem = format!(
                "{file}: {} data chunks found and {} missing, the end chunk counts {} and {}",
                report.data_chunks, report.chunks_missing, end.data_chunks, end.chunks_missing
            );
            report.note(problem);
        }
        Some(_) => {}
    }
}

/// A few lines for people.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.is_sound(), self.chunks_missing) {
            (true, 0) => "verified".into(),
            (true, missing) => format!("sound, {missing} chunks were lost before"),
            (false, _) => format!("DAMAGED, {} problems", self.problem_count),
        };
        writeln!(
            f,
            "{}: {verdict}: {} bytes, {} data chunks",
            self.file.display(),
            self.bytes,
            self.data_chunks
        )?;
        for total in self.kinds.values() {
            writeln!(
                f,
                "  {}: {} chunks, {} items, {} missing, {} bytes",
                total.name, total.chunks, total.items, total.items_missing, total.payload_bytes
            )?;
        }
        self.write_account(f)?;
        for problem in &self.problems {
            writeln!(f, "  {problem}")?;
        }
        Ok(())
    }
}
