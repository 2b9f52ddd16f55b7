//! Frames that a program makes itself, for tests and offline use.

use std::sync::Arc;
use std::time::Duration;

use gannet_measure::clock::Clock;
use gannet_measure::ledger::Account;
use gannet_memory::Producer;

use crate::Error;
use crate::lander::{BATCH_FRAMES, Lander};
use crate::source::{Arrival, Counters, Facts, Landing, Source, SourceDrop};

/// Fewest cells of a ring: so many that the arrivals of a poll are intact until the next.
const CELLS_MIN: usize = 4 * BATCH_FRAMES;

/// Writes the next datagram to the front of a buffer of the frame length and returns its length,
/// which may be another; `None` when there are no more.
type NextDatagram = Box<dyn FnMut(&mut [u8]) -> Option<usize> + Send>;

/// Takes datagrams from a function.
pub struct MemorySource {
    lander: Lander,
    next: NextDatagram,
    datagram: Vec<u8>,
    clock: Arc<dyn Clock>,
    arrival_ns: u64,
    started: bool,
    ended: bool,
}

impl MemorySource {
    /// A source whose datagrams `next` makes: it writes one to the front of the buffer it is
    /// given and returns the length of it. A datagram of another length is counted and
    /// dropped; what `next` wrote of it is of no account. `None` ends the input.
    ///
    /// # Errors
    /// When the frame length is out of range or the memory cannot be had.
    pub fn new(
        landing: Landing,
        clock: Arc<dyn Clock>,
        next: impl FnMut(&mut [u8]) -> Option<usize> + Send + 'static,
    ) -> Result<Self, Error> {
        let lander = Lander::new(landing.ring(CELLS_MIN)?, landing.frame_len, BATCH_FRAMES);
        let arrival_ns = clock.now_ns();
        let (next, datagram) = (Box::new(next), vec![0; landing.frame_len]);
        Ok(Self { lander, next, datagram, clock, arrival_ns, started: false, ended: false })
    }

    /// A source of given datagrams.
    ///
    /// # Errors
    /// As [`MemorySource::new`].
    pub fn of_frames<I>(landing: Landing, clock: Arc<dyn Clock>, frames: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: AsRef<[u8]>, IntoIter: Send + 'static>,
    {
        let mut frames = frames.into_iter();
        Self::new(landing, clock, move |cell| {
            let frame = frames.next()?;
            let frame = frame.as_ref();
            if frame.len() == cell.len() {
                cell.copy_from_slice(frame);
            }
            Some(frame.len())
        })
    }
}

impl Source for MemorySource {
    fn start(&mut self) -> Result<(), Error> {
        self.started = true;
        Ok(())
    }

    fn poll(&mut self, _wait: Duration) -> Result<usize, Error> {
        self.lander.clear();
        if !self.started {
            return Err(Error::NotStarted);
        }
        self.arrival_ns = self.clock.now_ns();
        for _ in 0..BATCH_FRAMES {
            if self.ended {
                break;
            }
            match (self.next)(&mut self.datagram) {
                None => self.ended = true,
                Some(len) if len == self.datagram.len() => self.lander.land(&self.datagram),
                Some(len) => self.lander.refuse(len),
            }
        }
        Ok(self.arrivals().len())
    }

    fn arrivals(&self) -> &[Arrival] {
        self.lander.arrivals()
    }

    fn arrival_ns(&self) -> u64 {
        self.arrival_ns
    }

    fn producer(&self) -> &Producer {
        &self.lander.producer
    }

    fn account(&self) -> Arc<Account<SourceDrop>> {
        Arc::clone(&self.lander.account)
    }

    fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.lander.counters)
    }

    fn facts(&self) -> Facts {
        self.lander.facts("memory".into(), "function")
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.ended = true;
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.ended
    }
}
