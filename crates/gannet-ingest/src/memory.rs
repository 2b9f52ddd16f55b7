//! Frames that a program makes itself, for tests and offline use.

use std::sync::Arc;
use std::time::Duration;

use gannet_measure::clock::Clock;

use crate::Error;
use crate::landed::{BATCH_FRAMES, Landed};
use crate::source::{Landing, Source};

/// Writes the next datagram to the front of a buffer as long as the longest that is taken and
/// returns its length, which may be any; `None` when there are no more.
type NextDatagram = Box<dyn FnMut(&mut [u8]) -> Option<usize> + Send>;

/// Takes datagrams from a function.
pub struct MemorySource {
    landed: Landed,
    next: NextDatagram,
    datagram: Vec<u8>,
    clock: Arc<dyn Clock>,
    started: bool,
    ended: bool,
}

impl MemorySource {
    /// A source whose datagrams `next` makes: it writes one to the front of the buffer it is
    /// given, which is as long as the longest that is taken, and returns the length of it. A
    /// datagram of a length that is not taken is counted and dropped; what `next` wrote of it is of no account. `None` ends the input.
    ///
    /// # Errors
    /// When a length is out of range or the memory cannot be had.
    pub fn new(
        landing: Landing,
        clock: Arc<dyn Clock>,
        next: impl FnMut(&mut [u8]) -> Option<usize> + Send + 'static,
    ) -> Result<Self, Error> {
        let datagram = vec![0; *landing.lengths.end()];
        let landed = Landed::new(landing, BATCH_FRAMES, "memory".into(), "function")?;
        Ok(Self { landed, next: Box::new(next), datagram, clock, started: false, ended: false })
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
            if let Some(start) = cell.get_mut(..frame.len()) {
                start.copy_from_slice(frame);
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
        self.landed.clear();
        if !self.started {
            return Err(Error::NotStarted);
        }
        self.landed.arrival_ns = self.clock.now_ns();
        for _ in 0..BATCH_FRAMES {
            if self.ended {
                break;
            }
            match (self.next)(&mut self.datagram) {
                None => self.ended = true,
                Some(len) => match self.datagram.get(..len) {
                    Some(datagram) => self.landed.land(datagram),
                    None => self.landed.refuse(len),
                },
            }
        }
        Ok(self.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.ended = true;
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.ended
    }
}
