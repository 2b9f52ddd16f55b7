//! A receiving thread: one source, from its start to the last queued frame.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::thread;
use std::time::Duration;

use gannet_ingest::{BATCH_FRAMES, Error};
use gannet_measure::clock::Clock;
use gannet_measure::counter::Counter;
use gannet_readout::receiver::Receiver;
use gannet_trigger::Finder;
use gannet_wire::FrameFormat;

use super::life::Life;
use crate::sys;

/// How long a poll waits, which also bounds how late silence and a stop are noticed.
const WAIT: Duration = Duration::from_millis(5);

/// How long datagrams gather before the next look, where that is wanted.
const GATHER: Duration = Duration::from_micros(50);

/// Time between two publications of the thread's processor time, in nanoseconds.
const PUBLISH_NS: u64 = 10_000_000;

/// How a receiving thread waits for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiting {
    /// In the kernel, until one comes.
    Sleeps,
    /// As well, but after some came it lets others gather: to be woken for each would take the processor
    /// from the threads that these are for, where all have to share few.
    Gathers,
    /// It never sleeps.
    Spins,
}

/// When receiving threads begin and end.
#[derive(Debug, Default)]
pub(super) struct Gate {
    /// Frames are to be taken; whoever sets it wakes the parked threads.
    pub go: AtomicBool,
    /// No more frames are to be taken.
    pub stop: AtomicBool,
    /// Receiving threads that have not ended.
    pub at_work: AtomicUsize,
}

/// Takes frames from the moment the gate opens until it closes and the source is empty.
///
/// Tells by `started` whether the source could be started, and by `cpu_ns` the processor time that
/// the thread has used.
pub(super) fn run<T: FrameFormat, F: Finder>(
    mut receiver: Receiver<T, F>,
    gate: &Gate,
    started: &Sender<Result<(), Error>>,
    cpu_ns: &Counter,
    waiting: Waiting,
    life: &Life,
    clock: &dyn Clock,
) {
    // Frames wait in the kernel for a few milliseconds only; everything behind has as long as the
    // latency buffer is deep. The threads behind stay as they are: ahead of others too, they made
    // the scheduler put this one on the core of a busy sender.
    if let Err(error) = sys::put_ahead() {
        tracing::debug!(%error, "receiving runs at ordinary priority");
    }
    while !gate.go.load(Ordering::Acquire) {
        thread::park();
    }
    if !gate.stop.load(Ordering::Acquire) {
        let start = receiver.start();
        let is_started = start.is_ok();
        // Nobody listens when the start of another source failed: then this run ends.
        let _unheard = started.send(start);
        if is_started && let Err(error) = receive(&mut receiver, gate, cpu_ns, waiting, clock) {
            tracing::error!(%error, "a source failed; its streams are silent from now on");
            life.fail(error.to_string());
        }
    }
    receiver.finish();
    cpu_ns.set(sys::thread_time_ns());
    gate.at_work.fetch_sub(1, Ordering::AcqRel);
}

fn receive<T: FrameFormat, F: Finder>(
    receiver: &mut Receiver<T, F>,
    gate: &Gate,
    cpu_ns: &Counter,
    waiting: Waiting,
    clock: &dyn Clock,
) -> Result<(), Error> {
    let wait = if waiting == Waiting::Spins { Duration::ZERO } else { WAIT };
    let mut stopping = false;
    let mut publish_ns = 0;
    while !receiver.is_exhausted() {
        if !stopping && gate.stop.load(Ordering::Acquire) {
            receiver.stop()?;
            stopping = true;
        }
        let arrived = receiver.step(wait)?;
        match waiting {
            Waiting::Spins if arrived == 0 => thread::yield_now(),
            // As many as a look takes: others may wait.
            Waiting::Gathers if (1..BATCH_FRAMES).contains(&arrived) => thread::sleep(GATHER),
            _ => {}
        }
        let now_ns = clock.now_ns();
        if now_ns >= publish_ns {
            publish_ns = now_ns + PUBLISH_NS;
            cpu_ns.set(sys::thread_time_ns());
        }
    }
    Ok(())
}
