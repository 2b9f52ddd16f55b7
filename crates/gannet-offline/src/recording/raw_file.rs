//! Records of a DUNE raw file.

use std::path::Path;

use gannet_readout::raw_file::{RawFileReader, Role};

use super::RecordingError;
use super::frames::Frames;
use super::records::RecordSource;

/// Records of a DUNE raw file by rising number.
pub(super) struct RawFileRecords {
    file: RawFileReader,
    next: usize,
}

impl RawFileRecords {
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        Ok(Self { file: RawFileReader::open(path)?, next: 0 })
    }
}

impl RecordSource for RawFileRecords {
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError> {
        let Some(record) = self.file.records().get(self.next) else { return Ok(false) };
        self.next += 1;
        for entry in record.entries()? {
            // The header of a fragment says what it is, whatever the data set is called.
            if !matches!(entry.role, Role::Header(_)) {
                frames.add_fragment(entry.bytes()?);
            }
        }
        Ok(true)
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.next = 0;
        Ok(())
    }
}
