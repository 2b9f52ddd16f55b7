//! A run: the threads between the sockets and the files, and what they share.
//!
//! ```text
//! receiving threads ──primitives──▶ deciding thread ──decisions──▶ building thread ──▶ recorder
//!   one a socket                       merge, trigger                latency buffers     log files
//! ```
//!
//! Receiving never waits for anything behind it. At the end each thread finishes when the one
//! before it is gone, so that a drain loses nothing.

mod apart;
mod basis;
mod build;
mod channels;
mod connections;
mod decide;
mod drain;
mod exports;
mod flows;
mod frames;
mod lag;
mod launch;
mod life;
mod observe;
mod parts;
mod placement;
mod raw;
mod receive;
mod recorded;
mod recovery;
mod setup;
mod slow_control;
mod views;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use gannet_log::Recorder;

use crate::config::{Plan, Role};
use crate::detector::Pipeline;
use crate::emulation::{EmulationError, Faults, FlowControl};
use crate::figures::Figures;
use crate::finds::Finds;
use crate::run_control::{Event, State};
use crate::snapshot::{Snapshot, SnapshotSource};
use crate::waveform::Waveforms;
pub use basis::Basis;
use channels::ChannelMonitor;
pub use decide::Pauser;
pub use drain::Drain;
use drain::Stage;
use exports::Exporter;
#[cfg(test)]
pub(crate) use frames::SentDrop;
use observe::Observed;
use receive::Gate;
use recorded::last_words;
use recovery::Recovery;
use slow_control::SlowControl;
pub use views::{Present, Views};

/// Kernel memory that one frame takes while it waits in a socket, with a margin, in bytes.
const KERNEL_BYTES_PER_FRAME: u64 = 16 << 10;

/// Time between two looks at whether the receiving threads are still there.
const LOOK: Duration = Duration::from_millis(20);

/// Why a run cannot be set up or started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// A source cannot be had.
    #[error("source \"{source_name}\": {cause}")]
    Source {
        /// Name of the source.
        source_name: String,
        /// What went wrong.
        #[source]
        cause: gannet_ingest::Error,
    },
    /// A source was made and does not start.
    #[error("a source does not start: {0}")]
    Start(#[source] gannet_ingest::Error),
    /// The front end of this process cannot be played.
    #[error(transparent)]
    FrontEnd(#[from] EmulationError),
    /// The search of a stream cannot be set up.
    #[error("search of stream {stream}: {cause}")]
    Finder {
        /// The stream.
        stream: String,
        /// What went wrong.
        cause: String,
    },
    /// The trigger cannot be set up.
    #[error("{0}")]
    Trigger(String),
    /// Answers cannot be sent.
    #[error("answers: {0}")]
    Answers(#[source] gannet_ingest::Error),
    /// The run cannot be counted.
    #[error("{0}; or give the run a number by --run")]
    Number(#[source] gannet_log::files::Error),
    /// The recorder cannot be set up.
    #[error("recorder: {0}")]
    Recorder(#[from] gannet_log::Error),
    /// Nothing can be recorded.
    #[error(
        "recorder: {0}; `--no-record` takes data without recording, and `required = false` in [recorder] starts and records as soon as it can"
    )]
    NotRecorded(#[source] gannet_log::Error),
    /// A processor for a receiving thread cannot be had.
    #[error("run.receive_cpus: {0}")]
    Cpus(String),
    /// Readout and builder of the run cannot be two processes, or cannot meet.
    #[error("builder: {0}")]
    Builder(String),
    /// The sockets of slow control cannot be had.
    #[error("slow control: {0}")]
    SlowControlSocket(#[source] std::io::Error),
    /// The socket for requests of other processes cannot be had.
    #[error("slow_control.socket: {}: {cause}; give the run another path for it", path.display())]
    ControlSocket {
        /// Where it was to be.
        path: std::path::PathBuf,
        /// What went wrong.
        #[source]
        cause: std::io::Error,
    },
    /// A command to a module failed.
    #[error(
        "slow control at {when}: {why}; `required = false` in [slow_control] goes on without it"
    )]
    SlowControl {
        /// Which list of commands it was.
        when: &'static str,
        /// What went wrong.
        why: String,
    },
    /// The system gave no thread.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] std::io::Error),
    /// A receiving thread panicked.
    #[error("a receiving thread stopped on an internal error; please report it")]
    Defect,
}

/// A run that is set up, running or draining. Dropping it drains it.
pub struct Run {
    observed: Arc<Observed>,
    figures: Arc<Figures>,
    /// Samples of the channels, where frames have some.
    waveforms: Option<Arc<Waveforms>>,
    /// What was found and decided, where this process decides and it can be shown.
    finds: Option<Arc<Finds>>,
    faults: Option<Arc<Faults>>,
    /// What pauses its decisions, where this process decides and its trigger can.
    pauser: Option<Pauser>,
    /// What it rests on, as it may be shown.
    basis: Option<Arc<Basis>>,
    gate: Arc<Gate>,
    /// What lets the streams expect frames from a time on, in nanoseconds.
    expect: Vec<Box<dyn Fn(u64) + Send + Sync>>,
    receivers: Vec<JoinHandle<()>>,
    starts: mpsc::Receiver<Result<(), gannet_ingest::Error>>,
    threads: Vec<JoinHandle<()>>,
    recorder: Option<Recorder>,
    channels: Option<ChannelMonitor>,
    exports: Option<Exporter>,
    recovery: Option<Recovery>,
    slow_control: Option<SlowControl>,
    /// Whether the other process of the run is there, if there is to be one.
    joined: Option<Arc<AtomicBool>>,
}

impl Run {
    /// Sets everything up that `plan` asks for: memory, sockets, files, threads. Its sockets have
    /// their ports then, so it is to be started at once: what comes before is only counted.
    ///
    /// # Errors
    /// The first thing that could not be had; what was set up before is given back.
    pub fn configure(plan: &Plan) -> Result<Self, RunError> {
        plan.detector.configure(plan)
    }

    /// The same with the stages of `pipeline`, for detectors.
    ///
    /// # Errors
    /// As [`configure`](Self::configure).
    pub fn of<P: Pipeline>(plan: &Plan, pipeline: P) -> Result<Self, RunError> {
        let mut run = setup::configure(plan, pipeline)?;
        run.basis = Some(Arc::new(Basis::of(plan)));
        run.observed.life.on(Event::Configure);
        Ok(run)
    }

    /// A run without threads yet.
    fn new(
        observed: Arc<Observed>,
        starts: mpsc::Receiver<Result<(), gannet_ingest::Error>>,
        recorder: Recorder,
    ) -> Self {
        let figures = Arc::new(Figures::new(snapshot_source(&observed)));
        Self {
            observed,
            figures,
            waveforms: None,
            finds: None,
            faults: None,
            pauser: None,
            basis: None,
            gate: Arc::default(),
            expect: Vec::new(),
            receivers: Vec::new(),
            starts,
            threads: Vec::new(),
            recorder: Some(recorder),
            channels: None,
            exports: None,
            recovery: None,
            slow_control: None,
            joined: None,
        }
    }

    /// Takes frames: every frame that comes after this call has returned is taken or counted. Then sends
    /// the commands at start, and waits until they have ended.
    ///
    /// # Errors
    /// When a source does not start or a command fails; the run is in the state `error` then.
    pub fn start(&self) -> Result<(), RunError> {
        let now_ns = self.observed.clock.now_ns();
        self.expect.iter().for_each(|expect| expect(now_ns));
        self.open_gate();
        for _ in &self.receivers {
            if let Err(error) = self.next_start()? {
                self.observed.life.fail(error.to_string());
                return Err(RunError::Start(error));
            }
        }
        let bound_for_ns = self.observed.life.bound_for_ns(self.observed.clock.now_ns());
        let ms = bound_for_ns as f64 * 1e-6;
        tracing::debug!("frames are taken {ms:.1} ms after the ports were");
        self.observed.life.mark_start(now_ns);
        self.observed.life.on(Event::Start);
        match self.slow_control.as_ref().and_then(SlowControl::at_start) {
            None => Ok(()),
            Some(why) => {
                let error = RunError::SlowControl { when: "start", why };
                self.observed.life.fail(error.to_string());
                Err(error)
            }
        }
    }

    /// Whether the next source has started; a thread that is gone does not say.
    fn next_start(&self) -> Result<Result<(), gannet_ingest::Error>, RunError> {
        loop {
            match self.starts.recv_timeout(LOOK) {
                Ok(start) => return Ok(start),
                Err(RecvTimeoutError::Timeout) if self.state() != State::Error => {}
                Err(_) => return Err(RunError::Defect),
            }
        }
    }

    /// The run at this very moment. Those who look on ask its [`figures`](Self::figures).
    pub fn snapshot(&self) -> Snapshot {
        self.observed.snapshot()
    }

    /// Its figures, for all who look on.
    pub fn figures(&self) -> Arc<Figures> {
        Arc::clone(&self.figures)
    }

    /// What pages and programs show of it.
    pub fn views(&self) -> Views {
        let (waveforms, finds) = (self.waveforms.clone(), self.finds.clone());
        let (faults, basis) = (self.faults.clone(), self.basis.clone());
        Views { figures: self.figures(), waveforms, finds, faults, watched: None, basis }
    }

    /// What pauses its decisions; absent where its trigger cannot pause, or another process decides.
    pub fn pauser(&self) -> Option<Pauser> {
        self.pauser.clone()
    }

    /// What puts faults into this run, if its front end is emulated in its process.
    pub fn faults(&self) -> Option<Arc<Faults>> {
        self.faults.clone()
    }

    /// Addresses at which the sockets of the sources listen, in their order.
    pub fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.observed.sources.iter().filter_map(|source| source.facts.address).collect()
    }

    /// Where other processes may ask the run, if they may.
    pub fn control_socket(&self) -> Option<&std::path::Path> {
        self.slow_control.as_ref().map(SlowControl::socket)
    }

    /// Flow control for a front end in the same process that sends to the sockets of this run.
    pub fn flow_control(&self) -> FlowControl {
        let buffers = self.observed.sources.iter().filter_map(|source| source.facts.kernel_buffer);
        let room = buffers.map(|buffer| buffer.obtained / KERNEL_BYTES_PER_FRAME).min();
        let observed = Arc::clone(&self.observed);
        let taken = move || observed.sources.iter().map(|source| source.seen()).sum();
        FlowControl { taken: Arc::new(taken), in_flight_max: room.unwrap_or(0).max(16) }
    }

    /// Number of the run; zero in a readout without files until it has joined, as the builder counts runs.
    pub fn number(&self) -> u32 {
        self.observed.run.load(Ordering::Acquire)
    }

    /// Whether readout and builder are joined; nothing where they are one process.
    pub fn joined(&self) -> Option<bool> {
        self.joined.as_ref().map(|joined| joined.load(Ordering::Acquire))
    }

    /// The same for those who go on looking.
    pub(crate) fn joining(&self) -> Option<Arc<AtomicBool>> {
        self.joined.clone()
    }

    /// Whether every source has ended by itself, as capture files do, or has failed.
    pub fn is_exhausted(&self) -> bool {
        self.gate.at_work.load(Ordering::Acquire) == 0
    }

    /// State of the run.
    pub fn state(&self) -> State {
        self.observed.life.control().state()
    }

    /// Watches the drain to come.
    pub fn watch_drain(&self) -> Drain {
        Drain::new(Arc::clone(&self.observed.drain), self.observed.recorder.clone())
    }

    /// Stops taking frames, processes what was taken to the end, closes the files, and gives the
    /// final snapshot.
    pub fn drain(mut self) -> Snapshot {
        self.finish()
    }

    /// Asks for the end without waiting for it.
    pub fn request_stop(&self) {
        self.observed.life.on(Event::Stop);
        self.gate.stop.store(true, Ordering::Release);
        self.open_gate();
    }

    fn open_gate(&self) {
        self.gate.go.store(true, Ordering::Release);
        self.receivers.iter().for_each(|receiver| receiver.thread().unpark());
    }

    fn finish(&mut self) -> Snapshot {
        let drain = &self.observed.drain;
        drain.wait_for(Stage::Sockets);
        self.request_stop();
        self.observed.recorder.begin_drain();
        // A thread that panicked has said so: the run has failed.
        self.receivers.drain(..).for_each(|thread| _ = thread.join());
        let is_readout = self.observed.role == Role::Readout;
        drain.wait_for(if is_readout { Stage::Builder } else { Stage::Records });
        self.threads.drain(..).for_each(|thread| _ = thread.join());
        self.observed.life.mark_end(self.observed.clock.now_ns());
        if let Some(slow_control) = &self.slow_control {
            drain.wait_for(Stage::Commands);
            slow_control.at_stop(drain);
        }
        let within = self.observed.recorder.drain_within();
        self.channels.take().into_iter().for_each(|channels| channels.finish(within));
        if let Some(recorder) = self.recorder.take() {
            drain.wait_for(Stage::Log);
            let ended = recorder.finish(|| last_words(self.observed.snapshot()));
            if ended.stuck {
                // Exports and recovery need the disk that does not answer.
                drain.cut_short();
            }
            drain.wait_for(Stage::Exports);
            self.exports.take().into_iter().for_each(|exports| exports.finish(drain));
            self.observed.life.on(Event::Drained);
        }
        drain.wait_for(Stage::Recovery);
        self.recovery.take().into_iter().for_each(|recovery| recovery.finish(drain));
        self.slow_control = None;
        drain.wait_for(Stage::None);
        self.observed.snapshot()
    }
}

/// Where snapshots come from.
fn snapshot_source(observed: &Arc<Observed>) -> SnapshotSource {
    let observed = Arc::clone(observed);
    Arc::new(move || observed.snapshot())
}

impl Drop for Run {
    fn drop(&mut self) {
        if self.recorder.is_some() {
            self.finish();
        }
    }
}
