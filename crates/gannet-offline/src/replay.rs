//! The frames of a recording, sent again when they are due.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use gannet_control::emulation::{EmulationError, Outlets, Progress, Receiver, Running, wait};
use gannet_emulate::replay::{Next, Replay, ReplayCounts, ReplayPace};
use gannet_emulate::{BURST_FRAMES_MAX, ConfigError};
use gannet_ingest::Datagram;
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::histogram::Summary;
use gannet_wire::{FrameFormat, StreamKey};
use serde::Serialize;

use crate::recording::{RecordedFile, RecordingError, Skipped};

/// Why a recording is not replayed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The rate asked for cannot be kept.
    #[error("{0}")]
    Pace(ConfigError),
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// The recording holds nothing to replay.
    #[error("{} holds no front-end frames ({skipped})", path.display())]
    NoFrames {
        /// The file.
        path: PathBuf,
        /// What it holds instead.
        skipped: Skipped,
    },
    /// Frames cannot be sent.
    #[error(transparent)]
    Sending(#[from] EmulationError),
}

/// Who takes the frames of a recording.
#[derive(Clone, Debug)]
pub enum Takers {
    /// One takes all datagrams.
    One(Receiver),
    /// Each stream has its own. What is of no stream that is listed, is not sent.
    Streams(HashMap<StreamKey, Receiver>),
}

impl Takers {
    /// Sockets for them.
    fn connect(self, progress: Arc<Progress>) -> Result<Ways, EmulationError> {
        match self {
            Self::One(receiver) => {
                let (outlets, _) = Outlets::connect(&[receiver], progress)?;
                Ok(Ways { outlets, of_streams: None })
            }
            Self::Streams(streams) => {
                let (keys, receivers): (Vec<_>, Vec<_>) = streams.into_iter().unzip();
                let (outlets, numbers) = Outlets::connect(&receivers, progress)?;
                Ok(Ways { outlets, of_streams: Some(keys.into_iter().zip(numbers).collect()) })
            }
        }
    }
}

/// Sockets, and by which of them each stream leaves.
struct Ways {
    outlets: Outlets,
    /// None if there is but one.
    of_streams: Option<HashMap<StreamKey, usize>>,
}

impl Ways {
    /// Number of the outlet of a stream, if it has one.
    fn of(&self, stream: Option<StreamKey>) -> Option<usize> {
        match &self.of_streams {
            None => Some(0),
            Some(streams) => streams.get(&stream?).copied(),
        }
    }
}

/// What a replay did.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// What was handed to the network, and in how many passes.
    #[serde(flatten)]
    pub counts: ReplayCounts,
    /// Datagrams that the network did not take; they are in `datagrams` too.
    pub unsent: u64,
    /// Datagrams that are of no stream of a receiver, and were not sent; they are in `datagrams` too.
    pub untaken: u64,
    /// Reports of the network that nobody listens.
    pub refused: u64,
    /// What the file holds and was not replayed, over all passes.
    pub skipped: Skipped,
    /// Time from start to end, in nanoseconds.
    pub elapsed_ns: u64,
    /// Datagrams per second that the network took.
    pub reached_hz: f64,
    /// How late datagrams were handed out, in nanoseconds; of none when unpaced.
    pub lateness_ns: Summary,
    /// Why the file could not be read to its end, if it could not.
    pub failure: Option<String>,
}

/// Starts to send the frames in the file `path` to `takers`. The format of each is told by `format_of`.
///
/// # Errors
/// When the pace cannot be kept, the file holds no frames or its first ones cannot be read, or a
/// socket cannot be had.
pub fn replay<T: FrameFormat>(
    path: &Path,
    format_of: impl Fn(&[u8]) -> T + Send + 'static,
    takers: Takers,
    pace: ReplayPace,
) -> Result<Running<ReplayReport>, ReplayError> {
    pace.check().map_err(ReplayError::Pace)?;
    let recording = RecordedFile::open(path)?;
    if recording.is_empty() {
        let (path, skipped) = (path.to_owned(), recording.skipped());
        return Err(ReplayError::NoFrames { path, skipped });
    }
    let clock = SystemClock::start();
    let replay = Replay::new(recording, format_of, pace, clock.now_ns());
    let progress = Arc::new(Progress { lateness_ns: replay.lateness(), ..Progress::default() });
    let ways = takers.connect(Arc::clone(&progress))?;
    let sender = Sender { replay, ways, message: Message::default(), unsent: 0, untaken: 0 };
    Ok(Running::spawn("replay", progress, move |stop| sender.run(&clock, stop))?)
}

/// Datagrams that are sent together.
#[derive(Default)]
struct Message {
    bytes: Vec<u8>,
    /// Where each ends, and its stream.
    ends: [(usize, Option<StreamKey>); BURST_FRAMES_MAX],
    count: usize,
}

impl Message {
    fn push(&mut self, bytes: &[u8], stream: Option<StreamKey>) {
        self.bytes.extend_from_slice(bytes);
        self.ends[self.count] = (self.bytes.len(), stream);
        self.count += 1;
    }

    fn is_full(&self) -> bool {
        self.count == BURST_FRAMES_MAX
    }

    fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sends all and is empty then; returns how many the network did not take, and how many nobody.
    fn send(&mut self, ways: &mut Ways) -> Result<(u64, u64), EmulationError> {
        let (mut begin, mut unsent, mut untaken) = (0, 0, 0);
        // Frames of several streams in one message would all come by one socket of the receiver.
        for of_one_stream in self.ends[..self.count].chunk_by(|one, next| one.1 == next.1) {
            let mut datagrams = [Datagram { header: &[], body: &[] }; BURST_FRAMES_MAX];
            for (datagram, &(end, _)) in datagrams.iter_mut().zip(of_one_stream) {
                datagram.body = &self.bytes[begin..end];
                begin = end;
            }
            let datagrams = &datagrams[..of_one_stream.len()];
            match ways.of(of_one_stream[0].1) {
                Some(outlet) => unsent += ways.outlets.send(outlet, datagrams)?,
                None => untaken += datagrams.len() as u64,
            }
        }
        self.bytes.clear();
        self.count = 0;
        Ok((unsent, untaken))
    }
}

/// The state of the sending thread.
struct Sender<F> {
    replay: Replay<RecordedFile, F>,
    ways: Ways,
    message: Message,
    unsent: u64,
    untaken: u64,
}

impl<F: Fn(&[u8]) -> T, T: FrameFormat> Sender<F> {
    fn run(
        mut self,
        clock: &SystemClock,
        stop: &AtomicBool,
    ) -> Result<ReplayReport, EmulationError> {
        while !stop.load(Ordering::Relaxed) {
            match self.replay.next(clock.now_ns()) {
                Next::Send { bytes, stream } => {
                    self.message.push(bytes, stream);
                    if self.message.is_full() {
                        self.flush()?;
                    }
                }
                // What was due leaves before anything is waited for.
                Next::Wait(_) if !self.message.is_empty() => self.flush()?,
                Next::Wait(due_ns) => wait(clock, due_ns),
                Next::Done => break,
            }
        }
        self.flush()?;
        Ok(self.report(clock.now_ns()))
    }

    fn flush(&mut self) -> Result<(), EmulationError> {
        if !self.message.is_empty() {
            let (unsent, untaken) = self.message.send(&mut self.ways)?;
            self.unsent += unsent;
            self.untaken += untaken;
        }
        Ok(())
    }

    fn report(&self, elapsed_ns: u64) -> ReplayReport {
        let counts = self.replay.counts();
        let taken = (counts.datagrams - self.unsent - self.untaken) as f64;
        ReplayReport {
            counts,
            unsent: self.unsent,
            untaken: self.untaken,
            refused: self.ways.outlets.refused(),
            skipped: self.replay.recording().skipped(),
            elapsed_ns,
            reached_hz: taken / (elapsed_ns.max(1) as f64 * 1e-9),
            lateness_ns: self.replay.lateness().summary(),
            failure: self.replay.recording().failure().map(ToString::to_string),
        }
    }
}
