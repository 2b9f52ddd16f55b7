//! Packets of a capture file.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

use gannet_emulate::replay::Packet;
use gannet_wire::capture::{self, Event, LINK_TYPE_ETHERNET, LINK_TYPE_IPV4, LINK_TYPE_RAW};
use gannet_wire::capture_file::{Reader, Window};
use gannet_wire::network::{Checksums, from_ethernet, from_ipv4};

use super::{Packets, RecordingError, Skipped};

/// UDP payloads of a capture file; it holds a window of the file and one packet in memory.
pub(crate) struct Capture {
    path: PathBuf,
    file: File,
    reader: Reader,
    window: Window,
    payload: Vec<u8>,
    time_ns: u64,
    skipped: Skipped,
}

impl Capture {
    /// Opens the file; what is in it is looked at when packets are asked for.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let path = path.to_owned();
        let file = File::open(&path).map_err(|cause| io_error(&path, cause))?;
        Ok(Self {
            path,
            file,
            reader: Reader::new(),
            window: Window::new(),
            payload: Vec::new(),
            time_ns: 0,
            skipped: Skipped::default(),
        })
    }

    fn damaged(&self, cause: gannet_wire::Error) -> RecordingError {
        let (path, position) = (self.path.clone(), self.reader.position());
        RecordingError::Capture { path, position, cause }
    }

    /// Looks at the next part of the window.
    fn step(&mut self) -> Result<Step, RecordingError> {
        let progress = self.reader.next(self.window.bytes());
        let progress = progress.map_err(|cause| self.damaged(cause))?;
        let step = match progress.event {
            None => Step::WantsMore,
            Some(Event::Statistics(_)) => Step::Passed,
            Some(Event::Packet(packet)) => {
                let taken = take(&packet, &mut self.payload);
                let is_taken = taken.map_err(|got| {
                    let path = self.path.clone();
                    RecordingError::LinkType { path, got }
                })?;
                // A packet without time leaves together with the one before it.
                self.time_ns = packet.timestamp_ns.unwrap_or(self.time_ns);
                self.skipped.packets += u64::from(!is_taken);
                if is_taken { Step::Packet } else { Step::Passed }
            }
        };
        self.window.consume(progress.consumed);
        Ok(step)
    }
}

/// What the next part of the file was.
enum Step {
    Packet,
    Passed,
    WantsMore,
}

/// Copies the payload of a packet, if it has one; an unknown link type is an error.
fn take(packet: &capture::Packet<'_>, payload: &mut Vec<u8>) -> Result<bool, u16> {
    let found = match packet.link_type {
        LINK_TYPE_ETHERNET => from_ethernet(packet.data, Checksums::Trust),
        LINK_TYPE_RAW | LINK_TYPE_IPV4 => from_ipv4(packet.data, Checksums::Trust),
        unknown => return Err(unknown),
    };
    payload.clear();
    payload.extend_from_slice(found.as_ref().map_or(&[], |found| found.payload));
    Ok(found.is_ok())
}

fn io_error(path: &Path, cause: io::Error) -> RecordingError {
    RecordingError::Io { path: path.to_owned(), cause }
}

impl Packets for Capture {
    fn advance(&mut self) -> Result<bool, RecordingError> {
        loop {
            match self.step()? {
                Step::Packet => return Ok(true),
                Step::Passed => continue,
                Step::WantsMore => {}
            }
            let len = self.file.read(self.window.spare());
            let len = len.map_err(|cause| io_error(&self.path, cause))?;
            if len > 0 {
                self.window.fill(len);
                continue;
            }
            let end = self.reader.finish(self.window.bytes());
            return end.map(|()| false).map_err(|cause| self.damaged(cause));
        }
    }

    fn packet(&self) -> Packet<'_> {
        Packet { time_ns: self.time_ns, bytes: &self.payload }
    }

    fn rewind(&mut self) -> Result<(), RecordingError> {
        self.file.rewind().map_err(|cause| io_error(&self.path, cause))?;
        (self.reader, self.window) = (Reader::new(), Window::new());
        Ok(())
    }

    fn skipped(&self) -> Skipped {
        self.skipped
    }
}
