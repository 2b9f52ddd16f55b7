//! The receiving side: a thread that takes every frame and reads every byte of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use gannet_ingest::udp::{UdpConfig, UdpSource, open};
use gannet_ingest::{Facts, Landing, Source};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_wire::tpc_frame::FRAME_LEN;

use super::Error;
use crate::limits::sum;
use crate::sys;

/// Longest wait for a frame.
const WAIT: Duration = Duration::from_millis(5);

/// A receiver at work.
pub(super) struct Receiving {
    address: SocketAddr,
    facts: Facts,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Taken, gannet_ingest::Error>>,
}

/// What came.
pub(super) struct Received {
    pub taken: Taken,
    pub facts: Facts,
}

/// What the thread took.
pub(super) struct Taken {
    pub delivered: u64,
    /// Sum of all words of these frames, modulo 2^64.
    pub sum: u64,
    /// Time from the first arrival to the last.
    pub span: Duration,
    /// Processor time of the thread.
    pub cpu: Duration,
}

impl Receiving {
    /// Starts to receive on a port of its own.
    pub fn start(config: &UdpConfig, ring_frames: u64) -> Result<Self, Error> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
        let landing = Landing { frame_len: FRAME_LEN, cells: ring_frames };
        let source = open(config, landing, &clock)?.pop().ok_or(Error::Defect)?;
        let (address, facts) = (source.address(), source.facts());
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, is_ready) = sync_channel(1);
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || receive(source, &stopped, || _ = ready.send(())));
        // It fails when the thread ended at once, and then that says why.
        let _ended = is_ready.recv();
        Ok(Self { address, facts, stop, thread })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes what is queued, and ends.
    pub fn finish(self) -> Result<Received, Error> {
        self.stop.store(true, Ordering::Release);
        let taken = self.thread.join().map_err(|_| Error::Defect)??;
        Ok(Received { taken, facts: self.facts })
    }
}

fn receive(
    mut source: UdpSource,
    stop: &AtomicBool,
    ready: impl FnOnce(),
) -> Result<Taken, gannet_ingest::Error> {
    source.start()?;
    ready();
    let begin = sys::thread_time();
    let (mut delivered, mut total, mut stopping) = (0, 0_u64, false);
    let (mut first_ns, mut last_ns) = (None, 0);
    while !source.is_exhausted() {
        if !stopping && stop.load(Ordering::Acquire) {
            source.stop()?;
            stopping = true;
        }
        let arrived = source.poll(WAIT)? as u64;
        if arrived == 0 {
            continue;
        }
        delivered += arrived;
        last_ns = source.arrival_ns();
        first_ns.get_or_insert(last_ns);
        for arrival in source.arrivals() {
            let frame = source.producer().bytes(arrival.cell, arrival.len as usize);
            total = total.wrapping_add(sum(frame));
        }
    }
    let span = Duration::from_nanos(last_ns - first_ns.unwrap_or(last_ns));
    Ok(Taken { delivered, sum: total, span, cpu: sys::thread_time() - begin })
}
