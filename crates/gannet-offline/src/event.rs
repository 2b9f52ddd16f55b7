//! Single events of recordings, as their detector shows them.

use std::fs;
use std::path::Path;

use gannet_control::detector::Detector;
use gannet_control::event::{Content, EventView, NoEvent, Recording, RunStart};
use gannet_log::files::open_input;
use gannet_log::format::MAGIC;
use gannet_log::name::EXTENSION;
use gannet_wire::inspect::{Format, identify};

use crate::recording::{Capture, Packets as _};

/// Most bytes of a file that is no log, as these are read at once.
const BYTES_MAX: u64 = 1 << 30;

/// Event `number` of the file `path`, from 0: of the detector that its log names, else of the first of `detectors`
/// whose events it holds.
///
/// # Errors
/// When the file cannot be read, is of a detector that the program does not know, or has no such event.
pub fn event(path: &Path, number: u64, detectors: &[&dyn Detector]) -> Result<EventView, NoEvent> {
    let recording = open(path)?;
    let file = path.display();
    let named = recording.start.as_ref().map(|start| start.detector.as_str());
    if named.is_some() || matches!(recording.content, Content::Log) {
        let name = named.unwrap_or_default();
        let detector = detectors.iter().find(|detector| detector.name() == name);
        return detector.ok_or_else(|| unknown(path, name, detectors))?.event(&recording, number);
    }
    let mut refusals = Vec::new();
    for detector in detectors {
        match detector.event(&recording, number) {
            Err(NoEvent::NotKept(why)) => refusals.push(format!("{}: {why}", detector.name())),
            found => return found,
        }
    }
    Err(NoEvent::NotKept(format!(
        "{file} holds events of no detector\n  {}",
        refusals.join("\n  ")
    )))
}

fn unknown(path: &Path, name: &str, detectors: &[&dyn Detector]) -> NoEvent {
    let (file, known) = (path.display(), detectors.iter().map(|detector| detector.name()));
    let known = known.collect::<Vec<_>>().join(", ");
    NoEvent::NotKept(match name {
        "" => format!("{file} does not tell which detector it is of"),
        name => format!("{file} is of the detector {name}; this program has {known}"),
    })
}

/// Opens a file, and looks what is known of its run: in it, or in the log of the same name beside it.
fn open(path: &Path) -> Result<Recording, NoEvent> {
    let unreadable = |cause: String| NoEvent::Unreadable(cause);
    let cannot_read = |error| unreadable(format!("cannot read {}: {error}", path.display()));
    let len = open_input(path).and_then(|file| file.metadata()).map_err(cannot_read)?.len();
    let is_log = path.extension().is_some_and(|extension| extension == EXTENSION);
    if is_log || begins_as_log(path).map_err(cannot_read)? {
        return Recording::of_log(path);
    }
    if len > BYTES_MAX {
        let file = path.display();
        return Err(unreadable(format!("{file} has {len} bytes and would be read at once")));
    }
    let beside = path.with_extension(EXTENSION);
    let start = if beside.exists() { RunStart::of_log(&beside)? } else { None };
    let bytes = fs::read(path).map_err(cannot_read)?;
    let content = match identify(&bytes) {
        Some(Format::Pcap | Format::Pcapng) => Content::Datagrams(datagrams(path)?),
        _ => Content::Bytes(bytes),
    };
    Ok(Recording { path: path.to_owned(), content, start })
}

fn begins_as_log(path: &Path) -> std::io::Result<bool> {
    use std::io::Read;
    let mut begin = Vec::new();
    open_input(path)?.take(MAGIC.len() as u64).read_to_end(&mut begin)?;
    Ok(begin == MAGIC)
}

/// The datagrams of a capture.
fn datagrams(path: &Path) -> Result<Vec<Vec<u8>>, NoEvent> {
    let unreadable =
        |error: crate::recording::RecordingError| NoEvent::Unreadable(error.to_string());
    let mut capture = Capture::open(path).map_err(unreadable)?;
    let mut datagrams = Vec::new();
    while capture.advance().map_err(unreadable)? {
        datagrams.push(capture.packet().bytes.to_vec());
    }
    Ok(datagrams)
}
