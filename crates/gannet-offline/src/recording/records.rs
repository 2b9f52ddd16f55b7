//! Records of a file, one after the other, as a row of packets.

use gannet_emulate::replay::Packet;

use super::frames::Frames;
use super::{Packets, RecordingError, Skipped};

/// Records of a file in their order.
pub(super) trait RecordSource: Send {
    /// Puts what the next record holds into `frames`; false after the last record.
    fn next(&mut self, frames: &mut Frames) -> Result<bool, RecordingError>;

    /// Goes back to the first record.
    fn rewind(&mut self) -> Result<(), RecordingError>;
}

/// The frames of all records; it holds one record in memory.
pub(super) struct Records<S> {
    source: S,
    frames: Frames,
}

impl<S> Records<S> {
    pub fn new(source: S) -> Self {
        Self { source, frames: Frames::default() }
    }
}

impl<S: RecordSource> Packets for Records<S> {
    fn advance(&mut self) -> Result<bool, RecordingError> {
        self.frames.advance();
        while self.frames.is_empty() {
            if !self.source.next(&mut self.frames)? {
                return Ok(false);
            }
            self.frames.sort();
        }
        Ok(true)
    }

    fn packet(&self) -> Packet<'_> {
        self.frames.packet()
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.frames.clear();
        self.source.rewind()
    }

    fn skipped(&self) -> Skipped {
        self.frames.skipped()
    }
}
