//! The receiving side: threads that take every frame, each from its socket.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use gannet_ingest::udp::{UdpConfig, UdpSource, open};
use gannet_ingest::{Facts, Landing, Source};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_wire::tpc_frame::FRAME_LEN;

use super::bare::Bare;
use super::{Error, RING_FRAMES};
use crate::cores::{self, Cores};
use crate::limits::sum;
use crate::sys;

/// Longest wait for a frame.
pub(super) const WAIT: Duration = Duration::from_millis(5);

/// What takes the frames of one socket.
pub(super) trait Take: Send + 'static {
    /// Where it listens.
    fn address(&self) -> SocketAddr;

    /// Opens the way for frames; nothing is taken yet.
    fn start(&mut self) -> Result<(), Error>;

    /// Takes frames until `stop` is set and none is left.
    fn take(&mut self, stop: &AtomicBool) -> Result<Taken, Error>;
}

/// Receivers at work.
pub(super) struct Receiving {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Result<Taken, Error>>>,
}

/// What a thread took, or all of them.
#[derive(Clone, Debug, Default)]
pub(super) struct Taken {
    pub delivered: u64,
    /// Sum of all words of these frames, modulo 2^64; none if nobody looked.
    pub sum: Option<u64>,
    /// Times of the first arrival and the last, in ns of a clock that all have in common.
    pub first_ns: u64,
    pub last_ns: u64,
    /// Processor time.
    pub cpu: Duration,
    /// Part of the time without a processor to run on, of the thread with most of it.
    pub waited_share: f64,
}

impl Taken {
    /// What both took.
    fn and(self, other: Self) -> Self {
        let (one, other) = match (self.delivered, other.delivered) {
            (0, _) => (other.clone(), self),
            _ => (self, other),
        };
        let is_none = other.delivered == 0;
        Self {
            delivered: one.delivered + other.delivered,
            sum: one.sum.zip(other.sum).map(|(one, other)| one.wrapping_add(other)),
            first_ns: if is_none { one.first_ns } else { one.first_ns.min(other.first_ns) },
            last_ns: one.last_ns.max(other.last_ns),
            cpu: one.cpu + other.cpu,
            waited_share: one.waited_share.max(other.waited_share),
        }
    }
}

/// The real path, with a socket for each thread, and what is known of the first.
pub(super) fn path(config: &UdpConfig) -> Result<(Vec<Box<dyn Take>>, Facts), Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: RING_FRAMES };
    let sources = open(config, landing, &clock)?;
    let facts = sources.first().ok_or(Error::Defect)?.landed().facts().clone();
    let boxed = |source| Box::new(source) as Box<dyn Take>;
    Ok((sources.into_iter().map(boxed).collect(), facts))
}

/// Bare loops, which read all bytes or none.
pub(super) fn bare(sockets: usize, reads: bool) -> Result<Vec<Box<dyn Take>>, Error> {
    let clock = SystemClock::start();
    (0..sockets).map(|_| Ok(Box::new(Bare::new(reads, clock)?) as Box<dyn Take>)).collect()
}

impl Receiving {
    /// Starts to receive, each in a thread on a core of its own where that is permitted.
    pub fn start(takers: Vec<Box<dyn Take>>, cores: &Cores) -> Result<Self, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let addresses = takers.iter().map(|taker| taker.address()).collect();
        let mut threads = Vec::new();
        for (number, mut taker) in takers.into_iter().enumerate() {
            let (ready, is_ready) = sync_channel(1);
            let (stop, cores) = (Arc::clone(&stop), cores.clone());
            threads.push(thread::spawn(move || {
                cores.pin(number);
                taker.start()?;
                _ = ready.send(());
                let (begin, cpu, waited) = (Instant::now(), sys::thread_time(), cores::waited());
                let mut taken = taker.take(&stop)?;
                taken.cpu = sys::thread_time() - cpu;
                let waited = cores::waited().saturating_sub(waited);
                taken.waited_share = waited.as_secs_f64() / begin.elapsed().as_secs_f64().max(1e-9);
                Ok(taken)
            }));
            // It fails when the thread ended at once, and then that says why.
            let _ended = is_ready.recv();
        }
        Ok(Self { addresses, stop, threads })
    }

    /// Where they listen.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Takes what is queued, and ends; what each took, and all together.
    pub fn finish(self) -> Result<(Vec<u64>, Taken), Error> {
        self.stop.store(true, Ordering::Release);
        let end = |thread: JoinHandle<_>| thread.join().map_err(|_| Error::Defect)?;
        let taken = self.threads.into_iter().map(end).collect::<Result<Vec<Taken>, _>>()?;
        let delivered = taken.iter().map(|taken| taken.delivered).collect();
        let all = taken.into_iter().reduce(Taken::and).ok_or(Error::Defect)?;
        Ok((delivered, all))
    }
}

impl Take for UdpSource {
    fn address(&self) -> SocketAddr {
        Self::address(self)
    }

    fn start(&mut self) -> Result<(), Error> {
        Ok(Source::start(self)?)
    }

    fn take(&mut self, stop: &AtomicBool) -> Result<Taken, Error> {
        let (mut taken, mut total, mut stopping) = (Taken::default(), 0_u64, false);
        while !self.is_exhausted() {
            if !stopping && stop.load(Ordering::Acquire) {
                self.stop()?;
                stopping = true;
            }
            let arrived = self.poll(WAIT)? as u64;
            if arrived == 0 {
                continue;
            }
            let landed = self.landed();
            taken.note(arrived, landed.arrival_ns());
            for arrival in landed.arrivals() {
                let frame = landed.producer().bytes(arrival.cell, arrival.len as usize);
                total = total.wrapping_add(sum(frame));
            }
        }
        Ok(Taken { sum: Some(total), ..taken })
    }
}

impl Taken {
    /// Counts frames that arrived.
    pub fn note(&mut self, frames: u64, now_ns: u64) {
        if self.delivered == 0 {
            self.first_ns = now_ns;
        }
        self.delivered += frames;
        self.last_ns = now_ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_took_is_added_up() {
        let taken = |delivered, first_ns, last_ns, sum| Taken {
            delivered,
            sum,
            first_ns,
            last_ns,
            cpu: Duration::from_millis(1),
            waited_share: last_ns as f64 / 100.0,
        };
        let both = taken(3, 10, 20, Some(u64::MAX)).and(taken(4, 5, 15, Some(3)));
        assert_eq!((both.delivered, both.sum), (7, Some(2)));
        assert_eq!((both.first_ns, both.last_ns), (5, 20));
        assert_eq!((both.cpu, both.waited_share), (Duration::from_millis(2), 0.2));
        for both in [taken(0, 0, 0, None).and(both.clone()), both.and(taken(0, 0, 0, None))] {
            assert_eq!((both.delivered, both.sum), (7, None), "somebody did not look");
            assert_eq!((both.first_ns, both.last_ns), (5, 20), "nothing came to one of them");
        }
    }
}
