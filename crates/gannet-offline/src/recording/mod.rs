//! Files of recorded frames, read packet by packet with bounded memory.
//!
//! * a packet capture, pcap or pcapng: the payload of every UDP datagram;
//! * a DUNE raw file of trigger records (HDF5), of any writer;
//! * a Gannet log: its trigger records and raw frames. Between the first and the last raw frame of a
//!   stream, only raw frames of it are given.
//!
//! Records are read one at a time; the frames of all its fragments come in the order of their
//! time stamps, and a frame that several records hold comes once.

mod capture;
mod frames;
mod records;

use std::fmt;
use std::io::{self, Read};
use std::ops::AddAssign;
use std::path::{Path, PathBuf};

use gannet_dune::raw_file;
use gannet_emulate::replay::{Packet, Recording};
use gannet_log::files::open_input;
use gannet_wire::inspect::{Format, identify};
use serde::{Deserialize, Serialize};

pub(crate) use capture::Capture;
use records::{LogRecords, RawFileRecords, Records};

/// How an HDF5 file begins.
const HDF5_MAGIC: [u8; 8] = *b"\x89HDF\r\n\x1a\n";
/// Bytes by which any kind is known: the file header of pcap.
const MAGIC_LEN: usize = 24;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The system refused.
    #[error("cannot read {}: {cause}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// The file is of no kind that can be replayed.
    #[error(
        "{} is neither a packet capture (pcap, pcapng) nor a DUNE raw file (HDF5) nor a Gannet log",
        .0.display()
    )]
    Unknown(PathBuf),
    /// A packet capture is not as its format requires.
    #[error("{} at byte {position}: {cause}", path.display())]
    Capture {
        /// The file.
        path: PathBuf,
        /// Bytes of the file before the place of the error.
        position: u64,
        /// What is wrong there.
        #[source]
        cause: gannet_wire::Error,
    },
    /// A capture was made on a kind of link whose headers are not known here.
    #[error(
        "{}: packets of link type {got} cannot be read; capture on one Ethernet interface \
         instead of \"any\"",
        path.display()
    )]
    LinkType {
        /// The file.
        path: PathBuf,
        /// Number of the link type.
        got: u16,
    },
    /// A DUNE raw file cannot be read.
    #[error(transparent)]
    RawFile(#[from] raw_file::Error),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] gannet_log::Error),
}

/// What a recording holds beside the frames that were replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Skipped {
    /// Captured packets that carry no whole UDP datagram over IPv4.
    pub packets: u64,
    /// Fragments of other types than WIBEth and TDEEth.
    pub fragments: u64,
    /// Records, fragments or chunks that are damaged, or do not end with a whole frame; the
    /// whole frames before the damage are replayed.
    pub damaged: u64,
    /// Frames that an earlier record holds too.
    pub repeated: u64,
}

impl AddAssign for Skipped {
    fn add_assign(&mut self, other: Self) {
        self.packets += other.packets;
        self.fragments += other.fragments;
        self.damaged += other.damaged;
        self.repeated += other.repeated;
    }
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, fragments, damaged, repeated } = self;
        write!(
            f,
            "{packets} other packets, {fragments} fragments of other types, \
             {damaged} damaged parts, {repeated} repeated frames"
        )
    }
}

/// Packets of a file in the order in which they are to be replayed.
pub(crate) trait Packets: Send {
    /// Goes to the next packet, or from the start to the first; false after the last.
    fn advance(&mut self) -> Result<bool, RecordingError>;

    /// The packet that the last [`advance`](Self::advance) went to.
    fn packet(&self) -> Packet<'_>;

    /// Goes back before the first packet.
    fn rewind(&mut self) -> Result<(), RecordingError>;

    /// What was passed over since the file was opened.
    fn skipped(&self) -> Skipped;
}

/// A file of recorded frames, as a recording.
///
/// When it cannot be read any further it ends there, and [`failure`](Self::failure) says why.
pub struct RecordedFile {
    packets: Box<dyn Packets>,
    is_present: bool,
    failure: Option<RecordingError>,
}

impl RecordedFile {
    /// Opens a file of any known kind and goes to its first frame.
    ///
    /// # Errors
    /// When the file cannot be opened, is of no known kind, or is damaged before its first frame.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let mut packets = open(path)?;
        let is_present = packets.advance()?;
        Ok(Self { packets, is_present, failure: None })
    }

    /// Whether it has no frame at the present place: none at all, when it was just opened.
    pub fn is_empty(&self) -> bool {
        !self.is_present
    }

    /// What was passed over so far, over all passes.
    pub fn skipped(&self) -> Skipped {
        self.packets.skipped()
    }

    /// Why the file could not be read to its end.
    pub fn failure(&self) -> Option<&RecordingError> {
        self.failure.as_ref()
    }

    fn settle(&mut self, moved: Result<bool, RecordingError>) {
        match moved {
            Ok(is_present) => self.is_present = is_present,
            Err(failure) => (self.is_present, self.failure) = (false, Some(failure)),
        }
    }
}

impl Recording for RecordedFile {
    fn packet(&self) -> Option<Packet<'_>> {
        self.is_present.then(|| self.packets.packet())
    }

    fn advance(&mut self) {
        if self.is_present {
            let moved = self.packets.advance();
            self.settle(moved);
        }
    }

    fn rewind(&mut self) {
        // A pass that broke off is not repeated.
        if self.failure.is_none() {
            let moved = self.packets.rewind().and_then(|()| self.packets.advance());
            self.settle(moved);
        }
    }
}

/// The kinds of files that frames are recorded in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    RawFile,
    Log,
    Capture,
}

impl FileKind {
    /// The kind of a file, by what it begins with.
    pub fn of(path: &Path) -> Result<Self, RecordingError> {
        let io = |cause| RecordingError::Io { path: path.to_owned(), cause };
        let mut magic = Vec::with_capacity(MAGIC_LEN);
        let file = open_input(path).map_err(io)?;
        file.take(MAGIC_LEN as u64).read_to_end(&mut magic).map_err(io)?;
        if magic.starts_with(&HDF5_MAGIC) {
            return Ok(Self::RawFile);
        }
        if magic.starts_with(&gannet_log::format::MAGIC) {
            return Ok(Self::Log);
        }
        match identify(&magic) {
            Some(Format::Pcap | Format::Pcapng) => Ok(Self::Capture),
            _ => Err(RecordingError::Unknown(path.to_owned())),
        }
    }
}

fn open(path: &Path) -> Result<Box<dyn Packets>, RecordingError> {
    Ok(match FileKind::of(path)? {
        FileKind::RawFile => Box::new(Records::new(RawFileRecords::open(path)?)),
        FileKind::Log => Box::new(Records::new(LogRecords::open(path)?)),
        FileKind::Capture => Box::new(Capture::open(path)?),
    })
}
