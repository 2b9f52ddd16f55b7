//! How far a drain has come, and how it is cut short.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_log::RecorderHandle;

/// Time between two looks at whether a thread has ended.
const LOOK: Duration = Duration::from_millis(10);

/// What a drain waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing: the run goes on, or has ended.
    #[default]
    None,
    /// Frames that wait in the sockets.
    Sockets,
    /// The trigger, and the records that it asked for.
    Records,
    /// The builder of another process, which takes the last primitives and windows.
    Builder,
    /// The commands to modules at stop.
    Commands,
    /// The recorder.
    Log,
    /// Exports of finished logs.
    Exports,
    /// The log of an earlier run that is being recovered.
    Recovery,
}

impl Stage {
    fn words(self) -> &'static str {
        match self {
            Self::None => "nothing any more",
            Self::Sockets => "frames that wait in the sockets",
            Self::Records => "the trigger, and the records that it asked for",
            Self::Builder => {
                "the builder, which takes the last primitives and may ask for windows; it lets a readout go after \
                 `gather` in [builder]"
            }
            Self::Commands => "modules, which are to acknowledge the commands at stop",
            Self::Log => "the recorder, which finalises the log",
            Self::Exports => "exports of finished logs (`gannet export` can make them later)",
            Self::Recovery => "the recovery of an earlier run's log",
        }
    }
}

/// Where a drain stands.
#[derive(Debug, Default)]
pub(super) struct DrainState {
    stage: Mutex<Stage>,
    cut_short: AtomicBool,
}

impl DrainState {
    /// Notes what the drain waits for from now on.
    pub fn wait_for(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
    }

    fn stage(&self) -> Stage {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Leaves out all that can be done later.
    pub fn cut_short(&self) {
        self.cut_short.store(true, Ordering::Release);
    }

    /// Whether to leave out all that can be done later.
    pub fn is_cut_short(&self) -> bool {
        self.cut_short.load(Ordering::Acquire)
    }

    /// Waits for a thread whose work can be done later, unless the drain is cut short.
    pub fn join(&self, thread: JoinHandle<()>) -> thread::Result<()> {
        while !thread.is_finished() {
            if self.is_cut_short() {
                return Ok(());
            }
            thread::sleep(LOOK);
        }
        thread.join()
    }
}

/// Watches the drain of a run from another thread.
#[derive(Clone)]
pub struct Drain {
    state: Arc<DrainState>,
    recorder: RecorderHandle,
}

impl Drain {
    pub(super) fn new(state: Arc<DrainState>, recorder: RecorderHandle) -> Self {
        Self { state, recorder }
    }

    /// What the drain waits for, in words.
    pub fn waits_for(&self) -> String {
        let mut text = self.state.stage().words().to_owned();
        let status = self.recorder.status();
        if status.queue_bytes > 0 {
            let mib = status.queue_bytes as f64 / f64::from(1 << 20);
            text += &format!("; {mib:.1} MiB are still to be written");
        }
        text
    }

    /// Has the drain close the log with what is written, count the rest as lost, and leave out what
    /// can be done later.
    pub fn cut_short(&self) {
        self.recorder.abandon();
        self.state.cut_short();
    }
}
