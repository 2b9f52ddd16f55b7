//! Sending: sockets that frames leave by, waiting until the next is due or the receiver has room, and the
//! thread that does it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_fabric::clop;
use gannet_ingest::roce::RoceSink;
use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::Clock;

use super::{EmulationError, Progress, Receiver};

/// Below this wait the thread spins, because the kernel would wake it too late.
const SPIN_NS: u64 = 100_000;
/// Longest sleep, so that a request to stop is seen soon.
const SLEEP_MAX_NS: u64 = 20_000_000;

/// One socket for each receiver, and the account of what left by them.
pub struct Outlets {
    sinks: Vec<Box<dyn Sink>>,
    progress: Arc<Progress>,
    refused: u64,
}

impl Outlets {
    /// A socket for each of `receivers` that differs, and the outlet of each.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub fn connect(
        receivers: &[Receiver],
        progress: Arc<Progress>,
    ) -> Result<(Self, Vec<usize>), EmulationError> {
        let (mut sinks, mut known) = (Vec::<Box<dyn Sink>>::new(), HashMap::new());
        let mut outlets = Vec::with_capacity(receivers.len());
        let config = UdpSinkConfig::default();
        for receiver in receivers {
            let outlet = *known.entry(receiver).or_insert(sinks.len());
            if outlet == sinks.len() {
                sinks.push(match receiver {
                    Receiver::Udp(address) => Box::new(UdpSink::connect(*address, &config)?),
                    Receiver::Roce(address, target) => {
                        Box::new(RoceSink::connect(*address, *target, &config)?)
                    }
                    Receiver::Fabric(fabric) => clop::connect(fabric)?,
                });
            }
            outlets.push(outlet);
        }
        Ok((Self { sinks, progress, refused: 0 }, outlets))
    }

    /// Sends datagrams and returns how many of them, the last ones, the network did not take.
    ///
    /// # Errors
    /// When the system refuses for a reason that waiting does not cure.
    pub fn send(
        &mut self,
        outlet: usize,
        datagrams: &[Datagram<'_>],
    ) -> Result<u64, EmulationError> {
        let sent = self.sinks[outlet].send(datagrams)?;
        let unsent = datagrams.len() as u64 - sent.datagrams;
        self.refused += sent.refused;
        self.progress.datagrams.add(sent.datagrams);
        self.progress.bytes.add(sent.bytes);
        self.progress.unsent.add(unsent);
        Ok(unsent)
    }

    /// Does what is due though nothing is sent.
    pub fn tend(&mut self) {
        self.sinks.iter_mut().for_each(|sink| sink.tend());
    }

    /// The account of what left.
    pub fn progress(&self) -> &Progress {
        &self.progress
    }

    /// Reports of the network that nobody listens.
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

/// Waits until `wake_ns`, or a part of that time: sleeps while it is far, spins when it is near.
pub fn wait(clock: &impl Clock, wake_ns: u64) {
    let ahead_ns = wake_ns.saturating_sub(clock.now_ns());
    if ahead_ns > SPIN_NS {
        thread::sleep(Duration::from_nanos((ahead_ns - SPIN_NS / 2).min(SLEEP_MAX_NS)));
    } else {
        std::hint::spin_loop();
    }
}

/// Time between two looks at a receiver that has no room.
const LOOK: Duration = Duration::from_micros(20);

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

impl FlowControl {
    /// Waits until the receiver has room for `count` datagrams more, or `stop` is set.
    pub(super) fn await_room(&self, progress: &Progress, count: usize, stop: &AtomicBool) {
        let on_their_way = || progress.datagrams.get().saturating_sub((self.taken)());
        while on_their_way() + count as u64 > self.in_flight_max && !stop.load(Ordering::Relaxed) {
            thread::sleep(LOOK);
        }
    }
}

impl fmt::Debug for FlowControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FlowControl").field("in_flight_max", &self.in_flight_max).finish()
    }
}

/// A thread that sends frames and ends with a report `R`; dropping it stops it.
#[derive(Debug)]
pub struct Running<R> {
    stop: Arc<AtomicBool>,
    progress: Arc<Progress>,
    thread: Option<JoinHandle<Result<R, EmulationError>>>,
}

impl<R: Send + 'static> Running<R> {
    /// Starts `work`, which is to end soon after the flag given to it is set.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn spawn(
        name: &str,
        progress: Arc<Progress>,
        work: impl FnOnce(&AtomicBool) -> Result<R, EmulationError> + Send + 'static,
    ) -> Result<Self, EmulationError> {
        let stop = Arc::new(AtomicBool::new(false));
        let asked = Arc::clone(&stop);
        let thread = thread::Builder::new().name(name.into()).spawn(move || work(&asked));
        Ok(Self { stop, progress, thread: Some(thread.map_err(EmulationError::Thread)?) })
    }

    /// Waits for the end and gives the report.
    ///
    /// # Errors
    /// When sending failed on the way.
    pub fn join(mut self) -> Result<R, EmulationError> {
        let thread = self.thread.take().ok_or(EmulationError::Defect)?;
        thread.join().map_err(|_| EmulationError::Defect)?
    }
}

impl<R> Running<R> {
    /// Figures that change while it runs.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Whether it has sent all that it was asked for, or failed.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks it to end after the burst in hand.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl<R> Drop for Running<R> {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _report = thread.join();
        }
    }
}
