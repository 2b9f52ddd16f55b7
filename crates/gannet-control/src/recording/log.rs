//! Records of a Gannet log.

use std::fs::File;
use std::path::{Path, PathBuf};

use gannet_readout::log::{Error, Kind, Reader};
use gannet_readout::record::StoredRecord;

use super::RecordingError;
use super::frames::Frames;
use super::records::RecordSource;

/// Trigger records and raw frames of a log; damaged chunks are stepped over.
pub(super) struct LogRecords {
    path: PathBuf,
    reader: Reader<File>,
}

impl LogRecords {
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self { path: path.to_owned(), reader: Reader::open(path)? })
    }
}

impl RecordSource for LogRecords {
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError> {
        let damage = match self.reader.next_chunk() {
            Ok(None) => return Ok(false),
            Ok(Some(chunk)) => {
                match chunk.header.label.kind {
                    Kind::TRIGGER_RECORD => add_record(chunk.payload, frames),
                    Kind::RAW_FRAMES => frames.add_rows(chunk.payload.to_vec(), 0),
                    _ => {}
                }
                return Ok(true);
            }
            Err(damage @ Error::Damaged { .. }) => damage,
            Err(error) => return Err(error.into()),
        };
        tracing::warn!("{damage}; going on behind it");
        frames.add_damage();
        Ok(self.reader.resync()?.is_some())
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.reader = Reader::open(&self.path)?;
        Ok(())
    }
}

/// Takes the fragments of a record in its stored form.
fn add_record(record: &[u8], frames: &mut Frames) {
    let Ok(record) = StoredRecord::trigger_record(record) else { return frames.add_damage() };
    for fragment in record.fragments() {
        match fragment.map(|fragment| (fragment.header().fragment_type, fragment.payload())) {
            Ok((kind, payload)) => frames.add_payload(kind, payload.to_vec(), 0),
            Err(_) => frames.add_damage(),
        }
    }
}
