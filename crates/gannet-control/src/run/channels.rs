//! The thread that looks at the channels twice a second, and keeps a table of them in a file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_log::RecorderHandle;

use super::RunError;
use super::life::{Life, spawn};
use crate::channels::{ChannelFigures, ChannelSummary, Condition, count, file, loudest};
use crate::config::ChannelsConfig;
use crate::detector::ChannelSurvey;
use crate::snapshot::ChannelsSnapshot;

/// Time between two looks.
const LOOK: Duration = Duration::from_millis(500);

/// What the thread shares with whoever watches it.
#[derive(Debug)]
pub(super) struct ChannelStatus {
    last: Mutex<Last>,
    /// No frame will come any more.
    complete: AtomicBool,
}

/// The last look.
#[derive(Clone, Debug, Default)]
struct Last {
    channels: ChannelsSnapshot,
    /// By stream.
    summaries: Vec<ChannelSummary>,
}

impl ChannelStatus {
    /// Nothing is known yet of the channels of `streams` streams.
    pub fn new(streams: usize) -> Self {
        let summaries = vec![ChannelSummary::default(); streams];
        let last = Last { summaries, ..Last::default() };
        Self { last: Mutex::new(last), complete: AtomicBool::new(false) }
    }

    /// The last look at all channels, and at those of each stream.
    pub fn now(&self) -> (ChannelsSnapshot, Vec<ChannelSummary>) {
        let Last { channels, summaries } = self.lock().clone();
        (channels, summaries)
    }

    fn lock(&self) -> MutexGuard<'_, Last> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at the channels until told that the run is over.
pub(super) struct ChannelMonitor {
    status: Arc<ChannelStatus>,
    thread: JoinHandle<()>,
}

impl ChannelMonitor {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system gives none.
    pub fn start(
        survey: Box<dyn ChannelSurvey>,
        config: ChannelsConfig,
        status: &Arc<ChannelStatus>,
        recorder: &RecorderHandle,
        life: &Arc<Life>,
    ) -> Result<Self, RunError> {
        let monitor = Monitor {
            survey,
            config,
            status: Arc::clone(status),
            recorder: recorder.clone(),
            begin: Instant::now(),
            written: Instant::now(),
            table: None,
        };
        let thread = spawn("channels", life, move || monitor.run())?;
        Ok(Self { status: Arc::clone(status), thread })
    }

    /// Takes a last look; to be called when no frame will come any more. A disk that does not take
    /// the table is waited for no longer than the time `within`.
    pub fn finish(self, within: Duration) {
        self.status.complete.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let until = Instant::now() + within;
        while !self.thread.is_finished() && Instant::now() < until {
            thread::sleep(Duration::from_millis(1));
        }
        if self.thread.is_finished() {
            // If it panicked, the run has failed.
            let _panic = self.thread.join();
        } else {
            let trouble = "the disk does not answer";
            self.status.lock().channels.trouble = Some(trouble.into());
        }
    }
}

struct Monitor {
    survey: Box<dyn ChannelSurvey>,
    config: ChannelsConfig,
    status: Arc<ChannelStatus>,
    recorder: RecorderHandle,
    begin: Instant,
    /// When the table was written last.
    written: Instant,
    /// The table, beside the first file of the log; none while there is no log.
    table: Option<PathBuf>,
}

impl Monitor {
    fn run(mut self) {
        let mut next = self.begin + LOOK;
        loop {
            let wait = next.saturating_duration_since(Instant::now());
            let complete = self.status.complete.load(Ordering::Acquire);
            if !complete && !wait.is_zero() {
                thread::park_timeout(wait);
                continue;
            }
            self.look(complete);
            if complete {
                return;
            }
            next = Instant::now() + LOOK;
        }
    }

    fn look(&mut self, complete: bool) {
        let channels = Arc::new(self.survey.look(self.begin.elapsed()));
        let status = Arc::clone(&self.status);
        self.tell(&mut status.lock(), &channels);
        if self.table.is_none() {
            let recorder = self.recorder.status();
            let log = recorder.finished.front().or(recorder.present_file.as_ref());
            self.table = log.and_then(|log| file::beside(log));
        }
        let is_due = complete || self.written.elapsed() >= self.config.file_every.duration();
        let is_begun = channels.iter().any(|channel| channel.pedestal.is_some());
        if self.config.file && is_due && is_begun {
            self.written = Instant::now();
            let written = self.write(&channels);
            let mut last = status.lock();
            match written {
                Ok(file) => (last.channels.file, last.channels.trouble) = (file, None),
                Err(trouble) => {
                    // What was written before may be gone with its directory.
                    last.channels.file.take_if(|file| !file.exists());
                    last.channels.trouble = Some(trouble);
                }
            }
        }
    }

    fn tell(&self, last: &mut Last, channels: &Arc<Vec<ChannelFigures>>) {
        let ranked = loudest(channels, ChannelsSnapshot::LOUDEST);
        last.channels.noisy = count(channels, Condition::Noisy);
        last.channels.dead = count(channels, Condition::Dead);
        last.channels.masked = count(channels, Condition::Masked);
        last.channels.loudest = ranked.into_iter().cloned().collect();
        last.channels.all = Arc::clone(channels);
        last.channels.in_metrics = self.config.metrics;
        last.summaries = self.survey.summaries(channels);
    }

    /// Writes the table.
    fn write(&self, channels: &[ChannelFigures]) -> Result<Option<PathBuf>, String> {
        let Some(path) = &self.table else { return Ok(None) };
        file::write(path, channels).map_err(|error| error.to_string())?;
        Ok(Some(path.clone()))
    }
}
