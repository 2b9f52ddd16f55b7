//! The files to be searched: looked through once for what they hold, then read part by part.

mod captures;
mod logs;
mod raw_files;

use std::path::{Path, PathBuf};

use gannet_dune::run_start::RunStart;
use gannet_log::FileHeader;
use gannet_log::files::is_same_file;

use super::config::{FindConfig, FrameSource, Progress};
use super::error::FindError;
use super::origin::Told;
use super::report::Break;
use super::streams::{FrameBatch, Streams};
use crate::recording::FileKind;

/// A piece of a file that is read at once: a chunk, a record, or the whole of a capture.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Number of the file.
    file: usize,
    /// Where in the file, as its kind counts.
    place: u64,
    /// Time of its first frame as far as known, ticks; never after it.
    first: u64,
    /// Bytes, for the progress.
    len: u64,
}

/// How the parts of one kind of files are read.
trait Parts {
    /// Puts frames of a part into the batch. False when all of the part was read, true when it is
    /// to be read on with the next batch.
    fn read(
        &mut self,
        part: &Part,
        batch: &mut FrameBatch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError>;

    /// Parts that could not be read, and parts of other content.
    fn skipped(&self) -> Skipped;
}

/// What was passed over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Skipped {
    /// Chunks, records or fragments that are damaged.
    pub damaged: u64,
    /// Fragments or packets that hold no frames.
    pub other: u64,
}

/// What looking through the files gave.
struct InputContents {
    input: Box<dyn Parts>,
    parts: Vec<Part>,
    source: FrameSource,
    /// Name of the run in outputs.
    header: FileHeader,
    /// Chunks known to be lost.
    chunks_missing: u64,
    /// Frames that the run searched and could not record.
    frames_missing: u64,
    start: Option<(PathBuf, RunStart)>,
    /// Whether the frames go back to the start of the run.
    from_start: bool,
    /// Logs without end that nobody writes.
    unfinished: Vec<PathBuf>,
    /// Where files are missing.
    breaks: Vec<Break>,
}

/// The files to be searched.
pub(super) struct Recording {
    survey: InputContents,
    kind: FileKind,
    first_file: PathBuf,
    next: usize,
    /// Earliest time of each part and all after it.
    complete_to: Vec<u64>,
    bytes_done: u64,
    damaged_frames: u64,
}

impl Recording {
    /// Looks the files of `config` through.
    pub fn open(config: &FindConfig, progress: &mut Progress<'_>) -> Result<Self, FindError> {
        let files = &config.files;
        let first_file = files.first().ok_or(FindError::NoFiles)?;
        for (place, path) in files.iter().enumerate() {
            if files[..place].iter().any(|other| is_same_file(path, other)) {
                return Err(FindError::NamedTwice(path.clone()));
            }
        }
        let kind = FileKind::of(first_file)?;
        for other in &files[1..] {
            if FileKind::of(other)? != kind {
                let (first, other) = (first_file.clone(), other.clone());
                return Err(FindError::Kinds { first, other });
            }
        }
        let survey = match kind {
            FileKind::Log => logs::survey(files, config.frames, progress)?,
            FileKind::RawFile => raw_files::survey(files)?,
            FileKind::Capture => captures::survey(files)?,
        };
        let mut complete_to: Vec<u64> = survey.parts.iter().map(|part| part.first).collect();
        complete_to.push(u64::MAX);
        for index in (0..survey.parts.len()).rev() {
            complete_to[index] = complete_to[index].min(complete_to[index + 1]);
        }
        let first_file = first_file.clone();
        Ok(Self {
            survey,
            kind,
            first_file,
            next: 0,
            complete_to,
            bytes_done: 0,
            damaged_frames: 0,
        })
    }

    /// Fills an empty batch; false when there are no more frames.
    pub fn fill(
        &mut self,
        batch: &mut FrameBatch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError> {
        while !batch.is_full() {
            let Some(part) = self.survey.parts.get(self.next) else { break };
            if self.survey.input.read(part, batch, streams)? {
                break;
            }
            self.bytes_done += part.len;
            self.next += 1;
        }
        if self.source() == FrameSource::Records {
            batch.sort();
        }
        // A capture is read on where it was left, and says itself how far it is.
        batch.complete_to = batch.complete_to.max(self.complete_to[self.next]);
        self.damaged_frames += batch.damaged;
        Ok(!batch.is_empty() || self.next < self.survey.parts.len())
    }

    /// Bytes read so far, and bytes to be read in total.
    pub fn progress(&self) -> (u64, u64) {
        (self.bytes_done, self.survey.parts.iter().map(|part| part.len).sum())
    }

    /// Which frames are searched.
    pub fn source(&self) -> FrameSource {
        self.survey.source
    }

    /// Whether the frames go back to the start of the run.
    pub fn is_from_start(&self) -> bool {
        self.survey.from_start
    }

    /// What the files tell about the start of the run, and the file that does.
    pub fn start(&self) -> Option<(&Path, &RunStart)> {
        self.survey.start.as_ref().map(|(path, start)| (path.as_path(), start))
    }

    /// The first file named.
    pub fn first_file(&self) -> &Path {
        &self.first_file
    }

    /// What the files tell of their run.
    pub fn told(&self) -> Told<'_> {
        let is_log = self.kind == FileKind::Log;
        Told { first_file: &self.first_file, is_log, start: self.start() }
    }

    /// The run as a log names it.
    pub fn header(&self) -> &FileHeader {
        &self.survey.header
    }

    /// Chunks known to be lost from the logs.
    pub fn chunks_missing(&self) -> u64 {
        self.survey.chunks_missing
    }

    /// Logs without end that nobody writes.
    pub fn unfinished(&self) -> &[PathBuf] {
        &self.survey.unfinished
    }

    /// Where files of the run are missing.
    pub fn breaks(&self) -> &[Break] {
        &self.survey.breaks
    }

    /// Frames that the run searched and could not record.
    pub fn frames_missing(&self) -> u64 {
        self.survey.frames_missing
    }

    /// What was passed over so far.
    pub fn skipped(&self) -> Skipped {
        let skipped = self.survey.input.skipped();
        Skipped { damaged: skipped.damaged + self.damaged_frames, ..skipped }
    }
}
