//! The emulator at work: frames made when they are due and sent to where they belong.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gannet_emulate::{
    BURST_DATAGRAMS_MAX, Config, ConfigError, Emulator, Event, Hit, PaceReport, Pacer, Truth,
};
use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::counter::Counter;
use gannet_measure::ticks::DuneTicks;
use gannet_wire::ChannelMap;
use serde::{Deserialize, Serialize};

/// Below this wait the thread spins, because the kernel would wake it too late.
const SPIN_NS: u64 = 100_000;
/// Time between two looks at a receiver that has no room.
const FLOW_WAIT: Duration = Duration::from_micros(20);
/// Bursts between two looks at the events that were put in.
const BURSTS_PER_REPORT: u64 = 4096;

/// Why an emulation cannot go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmulationError {
    /// The configuration asks for something that cannot be emulated.
    #[error("emulate.{0}")]
    Config(#[from] ConfigError),
    /// A socket failed.
    #[error(transparent)]
    Sink(#[from] gannet_ingest::Error),
    /// The system gave no thread.
    #[error("cannot start the emulator's thread: {0}")]
    Thread(std::io::Error),
    /// The emulator's thread ended by a defect.
    #[error("the emulator's thread ended by a defect; please report it")]
    Defect,
}

/// Where emulated frames go, and for how long.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address for each stream, in the order of the configuration.
    pub addresses: Vec<SocketAddr>,
    /// Frames of each stream to make; absent: until stopped.
    pub frames: Option<u64>,
    /// Waits for the receiver; absent: sends when frames are due, as front ends do.
    pub flow_control: Option<FlowControl>,
}

/// Keeps the datagrams on their way below what the receiver's kernel memory holds.
///
/// UDP has no flow control, and real front ends have none. It makes a loss-free demonstration
/// possible on machines whose kernel gives a socket room for a few dozen frames only.
#[derive(Clone)]
pub struct FlowControl {
    /// Datagrams that the receiver has taken or counted as dropped so far.
    pub taken: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// Most datagrams on their way.
    pub in_flight_max: u64,
}

impl fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl").field("in_flight_max", &self.in_flight_max).finish()
    }
}

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
        self.truth.total().datagrams_sent - self.unsent.iter().sum::<u64>()
    }
}

/// Figures of a running emulation.
#[derive(Debug, Default)]
pub struct Progress {
    /// Datagrams that the network took.
    pub datagrams: Counter,
    /// Bytes of those.
    pub bytes: Counter,
    /// Datagrams that the network did not take.
    pub unsent: Counter,
}

/// A callback for every event put in, with its hits.
pub type EventSink = Box<dyn FnMut(&Event, &[Hit]) + Send>;

/// A running emulation; dropping it stops it.
#[derive(Debug)]
pub struct Emulation {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Result<EmulationReport, EmulationError>>>,
}

impl Emulation {
    /// Starts to send the frames of `config` to `target`.
    ///
    /// # Errors
    /// When the configuration cannot be emulated or a socket cannot be had.
    pub fn start(
        config: &Config,
        map: &ChannelMap,
        target: &Target,
        events: Option<EventSink>,
    ) -> Result<Self, EmulationError> {
        let emulator = Emulator::new(config, map, unix_ticks())?;
        let (sinks, sink_of_stream) = connect(&target.addresses)?;
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(Progress::default()));
        let sender = Sender {
            unsent: vec![0; emulator.streams()],
            emulator,
            sinks,
            sink_of_stream,
            refused: 0,
            progress: Arc::clone(&progress),
            events,
            flow_control: target.flow_control.clone(),
        };
        let (config, frames, stopped) = (config.clone(), target.frames, Arc::clone(&stop));
        let thread = thread::Builder::new()
            .name("emulator".into())
            .spawn(move || sender.run(&config, frames, &stopped))
            .map_err(EmulationError::Thread)?;
        Ok(Self { stop, progress, thread: Some(thread) })
    }

    /// Figures that change while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Whether it has sent all that it was asked for.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks it to end after the burst in hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Waits for the end and gives the report.
    ///
    /// # Errors
    /// When sending failed on the way.
    pub fn join(mut self) -> Result<EmulationReport, EmulationError> {
        let thread = self.thread.take().ok_or(EmulationError::Defect)?;
        thread.join().map_err(|_| EmulationError::Defect)?
    }
}

impl Drop for Emulation {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _report = thread.join();
        }
    }
}

/// The time of day in ticks of the DUNE clock since 1970.
pub fn unix_ticks() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    DuneTicks::from_ns(since.as_nanos() as u64).0
}

/// A sink for each address, and which one each stream uses.
fn connect(addresses: &[SocketAddr]) -> Result<(Vec<UdpSink>, Vec<usize>), EmulationError> {
    let (mut sinks, mut known) = (Vec::new(), HashMap::new());
    let mut sink_of_stream = Vec::with_capacity(addresses.len());
    for address in addresses {
        let index = match known.get(address) {
            Some(index) => *index,
            None => {
                sinks.push(UdpSink::connect(*address, &UdpSinkConfig::default())?);
                known.insert(*address, sinks.len() - 1);
                sinks.len() - 1
            }
        };
        sink_of_stream.push(index);
    }
    Ok((sinks, sink_of_stream))
}

/// The state of the sending thread.
struct Sender {
    emulator: Emulator,
    sinks: Vec<UdpSink>,
    sink_of_stream: Vec<usize>,
    unsent: Vec<u64>,
    refused: u64,
    progress: Arc<Progress>,
    events: Option<EventSink>,
    flow_control: Option<FlowControl>,
}

impl Sender {
    fn run(
        mut self,
        config: &Config,
        frames: Option<u64>,
        stop: &AtomicBool,
    ) -> Result<EmulationReport, EmulationError> {
        let clock = SystemClock::start();
        let streams = self.emulator.streams();
        let mut pacer = Pacer::new(&config.pace, config.streams.format, streams, clock.now_ns());
        frames.into_iter().for_each(|frames| pacer.set_limit(frames));
        let mut bursts = 0u64;
        while !pacer.is_done() {
            if stop.load(Ordering::Relaxed) {
                pacer.stop();
            }
            match pacer.next(clock.now_ns()) {
                Some(due) => {
                    self.await_room(due.count, stop);
                    self.send(due.stream, due.count)?;
                    bursts += 1;
                }
                None => wait(&clock, pacer.wake_ns()),
            }
            if bursts.is_multiple_of(BURSTS_PER_REPORT) {
                self.report_events();
            }
        }
        for stream in 0..streams {
            let burst = self.emulator.flush(stream);
            let offered = burst.datagrams().len();
            let sink = &mut self.sinks[self.sink_of_stream[stream]];
            let sent = send_burst(sink, burst.datagrams())?;
            self.unsent[stream] += offered as u64 - sent.datagrams;
            self.count(sent, offered);
        }
        self.report_events();
        Ok(EmulationReport {
            truth: self.emulator.truth(),
            unsent: self.unsent,
            refused: self.refused,
            pace: pacer.report(clock.now_ns()),
        })
    }

    /// Waits until the receiver has room for `count` datagrams more.
    fn await_room(&self, count: usize, stop: &AtomicBool) {
        let Some(FlowControl { taken, in_flight_max }) = &self.flow_control else { return };
        let on_their_way = || self.progress.datagrams.get().saturating_sub(taken());
        while on_their_way() + count as u64 > *in_flight_max && !stop.load(Ordering::Relaxed) {
            thread::sleep(FLOW_WAIT);
        }
    }

    /// Makes and sends the next `count` frames of a stream.
    fn send(&mut self, stream: usize, count: usize) -> Result<(), EmulationError> {
        let burst = self.emulator.next_burst(stream, count);
        let offered = burst.datagrams().len();
        let sent = send_burst(&mut self.sinks[self.sink_of_stream[stream]], burst.datagrams())?;
        self.unsent[stream] += offered as u64 - sent.datagrams;
        self.count(sent, offered);
        Ok(())
    }

    fn count(&mut self, sent: gannet_ingest::Sent, offered: usize) {
        self.refused += sent.refused;
        self.progress.datagrams.add(sent.datagrams);
        self.progress.bytes.add(sent.bytes);
        self.progress.unsent.add(offered as u64 - sent.datagrams);
    }

    fn report_events(&mut self) {
        match &mut self.events {
            Some(events) => self.emulator.report(|event, hits| events(event, hits)),
            None => self.emulator.report(|_, _| ()),
        }
    }
}

/// Sends the datagrams of one burst; their parts are gathered by the kernel.
fn send_burst(
    sink: &mut UdpSink,
    datagrams: &[gannet_emulate::Datagram<'_>],
) -> Result<gannet_ingest::Sent, EmulationError> {
    let mut parts = [Datagram { header: &[], body: &[] }; BURST_DATAGRAMS_MAX];
    for (part, datagram) in parts.iter_mut().zip(datagrams) {
        *part = Datagram { header: datagram.head, body: datagram.body };
    }
    Ok(sink.send(&parts[..datagrams.len()])?)
}

/// Waits until `wake_ns`: sleeps while that is far, spins when it is near.
fn wait(clock: &SystemClock, wake_ns: Option<u64>) {
    let ahead_ns = wake_ns.map_or(0, |wake| wake.saturating_sub(clock.now_ns()));
    if ahead_ns > SPIN_NS {
        thread::sleep(Duration::from_nanos(ahead_ns - SPIN_NS / 2));
    } else {
        std::hint::spin_loop();
    }
}
