//! The emulator at work, and the events that it puts in, as a file of JSON lines.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use gannet_emulate::{
    BURST_DATAGRAMS_MAX, Burst, Emulator, FaultSwitch, FrontEnd, InjectedEvent, PaceReport, Pacer,
    Settings, Truth,
};
use gannet_ingest::{Datagram, Datagrams};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::ticks::TickRate;
use serde::{Deserialize, Serialize};

use super::in_process::{FrontEndTruth, InProcess};
use super::send::{Outlets, wait};
use super::{EmulationError, FlowControl, Progress, Running, Target};

/// Bursts between two looks at the injected events.
pub(super) const BURSTS_PER_REPORT: u64 = 4096;

/// What an emulation did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EmulationReport {
    /// What was made, what was handed to the network, and what was done to it on purpose.
    pub truth: Truth,
    /// Datagrams of each stream that the network did not take; they are in `datagrams_sent` of
    /// the truth.
    pub unsent: Vec<u64>,
    /// Reports of the network that nobody listens.
    pub refused: u64,
    /// Rate reached and lateness.
    #[serde(skip_deserializing)]
    pub pace: PaceReport,
}

impl EmulationReport {
    /// Datagrams that the network took.
    pub fn datagrams_taken(&self) -> u64 {
        self.truth.total().datagrams_sent - self.datagrams_unsent()
    }

    /// Datagrams that the network did not take.
    pub fn datagrams_unsent(&self) -> u64 {
        self.unsent.iter().sum()
    }
}

/// A front end of any detector, and how it is emulated.
pub trait PlannedFrontEnd: Send {
    /// Starts to send its frames to `target`, and tells `events` what it puts in.
    ///
    /// # Errors
    /// When it cannot be emulated so, or a socket cannot be had.
    ///
    /// # Panics
    /// If `target` has fewer receivers than the front end has streams.
    fn start(
        self: Box<Self>,
        target: &Target,
        events: Option<EventSink>,
    ) -> Result<Emulation, EmulationError>;

    /// Its datagrams, for a source in this process, into which `faults` puts faults, and at the end the truth about
    /// them.
    ///
    /// # Errors
    /// When it cannot be emulated so.
    fn in_process(
        self: Box<Self>,
        truth: FrontEndTruth,
        faults: Arc<FaultSwitch>,
    ) -> Result<Box<dyn Datagrams>, EmulationError>;
}

impl<F: FrontEnd> PlannedFrontEnd for (F, Settings) {
    fn start(
        self: Box<Self>,
        target: &Target,
        events: Option<EventSink>,
    ) -> Result<Emulation, EmulationError> {
        let (front_end, settings) = *self;
        Emulation::start(front_end, &settings, target, events)
    }

    fn in_process(
        self: Box<Self>,
        truth: FrontEndTruth,
        faults: Arc<FaultSwitch>,
    ) -> Result<Box<dyn Datagrams>, EmulationError> {
        let (front_end, settings) = *self;
        Ok(Box::new(InProcess::new(front_end, &settings, truth, faults)?))
    }
}

/// A callback for every injected event.
pub type EventSink = Box<dyn FnMut(&dyn InjectedEvent) + Send>;

/// A running emulation.
pub type Emulation = Running<EmulationReport>;

impl Emulation {
    /// Starts to send the frames of `front_end` to `target`.
    ///
    /// # Errors
    /// When this front end cannot be emulated as `settings` say, or a socket cannot be had.
    ///
    /// # Panics
    /// If `target` has fewer receivers than the front end has streams.
    pub fn start(
        front_end: impl FrontEnd,
        settings: &Settings,
        target: &Target,
        events: Option<EventSink>,
    ) -> Result<Self, EmulationError> {
        let frames_per_s = front_end.frames_per_s();
        let mut emulator = Emulator::new(front_end, settings)?;
        target.faults.iter().for_each(|faults| emulator.obey(Arc::clone(faults)));
        let streams = emulator.streams();
        assert!(target.receivers.len() >= streams, "each stream needs a receiver");
        let clock = SystemClock::start();
        let mut pacer = Pacer::new(&settings.pace, frames_per_s, streams, clock.now_ns());
        target.frames.into_iter().for_each(|frames| pacer.set_limit(frames));
        let progress = Arc::new(Progress { lateness_ns: pacer.lateness(), ..Progress::default() });
        let (outlets, outlet_of_stream) =
            Outlets::connect(&target.receivers, Arc::clone(&progress))?;
        let unsent = vec![0; streams];
        let flow_control = target.flow_control.clone();
        let sender = Sender { emulator, outlets, outlet_of_stream, unsent, events, flow_control };
        Running::spawn("emulator", progress, move |stop| sender.run(&clock, pacer, stop))
    }
}

/// The time of day in ticks of `clock` since 1970.
pub fn unix_ticks(clock: TickRate) -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    clock.ticks(since.as_nanos() as u64)
}

/// The state of the sending thread.
struct Sender<F> {
    emulator: Emulator<F>,
    outlets: Outlets,
    outlet_of_stream: Vec<usize>,
    unsent: Vec<u64>,
    events: Option<EventSink>,
    flow_control: Option<FlowControl>,
}

impl<F: FrontEnd> Sender<F> {
    fn run(
        mut self,
        clock: &SystemClock,
        mut pacer: Pacer,
        stop: &AtomicBool,
    ) -> Result<EmulationReport, EmulationError> {
        let mut bursts = 0u64;
        while !pacer.is_done() {
            if stop.load(Ordering::Relaxed) {
                pacer.stop();
            }
            match pacer.next(clock.now_ns()) {
                Some(due) => {
                    if let Some(flow_control) = &self.flow_control {
                        flow_control.await_room(self.outlets.progress(), due.count, stop);
                    }
                    let burst = self.emulator.next_burst(due.stream, due.count);
                    let outlet = self.outlet_of_stream[due.stream];
                    self.unsent[due.stream] += send(&mut self.outlets, outlet, &burst)?;
                    bursts += 1;
                }
                None => {
                    self.outlets.tend();
                    pacer.wake_ns().into_iter().for_each(|wake_ns| wait(clock, wake_ns));
                }
            }
            if bursts.is_multiple_of(BURSTS_PER_REPORT) {
                self.report_events();
            }
        }
        for (stream, &outlet) in self.outlet_of_stream.iter().enumerate() {
            let burst = self.emulator.flush(stream);
            self.unsent[stream] += send(&mut self.outlets, outlet, &burst)?;
        }
        self.report_events();
        Ok(EmulationReport {
            truth: self.emulator.truth(),
            unsent: self.unsent,
            refused: self.outlets.refused(),
            pace: pacer.report(clock.now_ns()),
        })
    }

    fn report_events(&mut self) {
        match &mut self.events {
            Some(events) => self.emulator.report(events),
            None => self.emulator.count(),
        }
    }
}

/// Sends one burst, the parts of whose datagrams are gathered by the kernel; returns how many
/// datagrams were not taken.
fn send(outlets: &mut Outlets, outlet: usize, burst: &Burst<'_>) -> Result<u64, EmulationError> {
    let mut parts = [Datagram { header: &[], body: &[] }; BURST_DATAGRAMS_MAX];
    let datagrams = burst.datagrams();
    for (part, datagram) in parts.iter_mut().zip(datagrams) {
        *part = Datagram { header: datagram.head, body: datagram.body };
    }
    outlets.send(outlet, &parts[..datagrams.len()])
}

/// Writes one line of JSON for each event.
#[derive(Clone, Debug)]
pub struct EventFile {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    out: BufWriter<File>,
    failure: Option<io::Error>,
}

impl EventFile {
    /// Makes the file, or empties it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(path: &Path) -> io::Result<Self> {
        let state = State { out: BufWriter::new(File::create(path)?), failure: None };
        Ok(Self { state: Arc::new(Mutex::new(state)) })
    }

    /// The callback that writes. After an error it writes no more; [`finish`](Self::finish)
    /// gives the error.
    pub fn sink(&self) -> EventSink {
        let state = Arc::clone(&self.state);
        Box::new(move |event| {
            let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
            if state.failure.is_none() {
                state.failure = state.write(event).err();
            }
        })
    }

    /// Brings all lines to the file.
    ///
    /// # Errors
    /// The first error of this or of an earlier write.
    pub fn finish(self) -> io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        match state.failure.take() {
            Some(failure) => Err(failure),
            None => state.out.flush(),
        }
    }
}

impl State {
    fn write(&mut self, event: &dyn InjectedEvent) -> io::Result<()> {
        event.write_json(&mut self.out)?;
        self.out.write_all(b"\n")
    }
}
