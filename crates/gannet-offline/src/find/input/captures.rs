//! Packet captures: frames in the order in which they came.

use std::fs;
use std::path::PathBuf;

use gannet_log::{FileHeader, RunInfo};
use gannet_wire::tpc_frame::FRAME_LEN;

use super::{InputContents, Part, Parts, Skipped};
use crate::find::config::FrameSource;
use crate::find::error::FindError;
use crate::find::streams::{BATCH_BYTES, FrameBatch, Streams};
use crate::recording::{Capture, Packets, RecordingError};

/// Longest time that a stream may be behind another in a capture, in ticks: 1 s.
const BEHIND_MAX: u64 = 62_500_000;

/// Captures in the order in which they were named.
struct Captures {
    files: Vec<Capture>,
    damaged: u64,
    other: u64,
}

/// Opens the captures; nothing in them says what is to come.
pub(super) fn survey(paths: &[PathBuf]) -> Result<InputContents, FindError> {
    let (mut files, mut parts) = (Vec::new(), Vec::new());
    for (file, path) in paths.iter().enumerate() {
        let len = fs::metadata(path).map_err(FindError::io("read", path))?.len();
        files.push(Capture::open(path)?);
        parts.push(Part { file, place: 0, first: 0, len });
    }
    Ok(InputContents {
        input: Box::new(Captures { files, damaged: 0, other: 0 }),
        parts,
        source: FrameSource::Capture,
        header: FileHeader::new(&RunInfo::default(), 0, 0),
        chunks_missing: 0,
        frames_missing: 0,
        start: None,
        from_start: false,
        unfinished: Vec::new(),
        breaks: Vec::new(),
    })
}

impl Parts for Captures {
    fn read(
        &mut self,
        part: &Part,
        batch: &mut FrameBatch,
        streams: &mut Streams<'_>,
    ) -> Result<bool, FindError> {
        let capture = &mut self.files[part.file];
        let (buffer, memory) = batch.buffer();
        memory.clear();
        let mut is_over = false;
        while memory.len() < BATCH_BYTES as usize {
            match capture.advance() {
                Ok(true) => {}
                Ok(false) => {
                    is_over = true;
                    break;
                }
                // What stands before the damage is searched.
                Err(damage @ RecordingError::Capture { .. }) => {
                    tracing::warn!("{damage}; the rest of the file is not searched");
                    self.damaged += 1;
                    is_over = true;
                    break;
                }
                Err(error) => return Err(error.into()),
            }
            let bytes = capture.packet().bytes;
            match bytes.len() {
                FRAME_LEN => memory.extend_from_slice(bytes),
                _ => self.other += 1,
            }
        }
        let end = memory.len();
        batch.add_rows(buffer, 0..end, None, streams);
        if !batch.is_empty() {
            batch.complete_to = batch.first.saturating_sub(BEHIND_MAX);
        }
        Ok(!is_over)
    }

    fn skipped(&self) -> Skipped {
        let packets: u64 = self.files.iter().map(|file| file.skipped().packets).sum();
        Skipped { damaged: self.damaged, other: self.other + packets }
    }
}
