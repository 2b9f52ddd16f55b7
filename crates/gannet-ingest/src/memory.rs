//! Datagrams that a program makes itself, in the process that takes them.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_measure::clock::Clock;

use crate::Error;
use crate::landed::{BATCH_FRAMES, Landed};
use crate::sink::Datagram;
use crate::source::{Landing, Source};

/// Makes datagrams for whoever takes them in the same process.
pub trait Datagrams: Send {
    /// Gives some of the datagrams that are due at `now_ns` to `land`, at most
    /// [`DATAGRAMS_AT_ONCE`], and says when there will be more.
    fn next(&mut self, now_ns: u64, land: &mut dyn FnMut(Datagram<'_>)) -> Next;

    /// Ends soon: no more than what belongs to what was given is wanted.
    fn stop(&mut self);
}

/// Most datagrams that one call of [`Datagrams::next`] gives.
pub const DATAGRAMS_AT_ONCE: usize = 32;

/// When there will be more datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Perhaps at once.
    Now,
    /// Not before this time, in ns.
    At(u64),
    /// Never.
    Never,
}

/// Takes datagrams that a program makes.
pub struct MemorySource {
    landed: Landed,
    datagrams: Box<dyn Datagrams>,
    /// A datagram that came in two parts.
    joined: Vec<u8>,
    clock: Arc<dyn Clock>,
    started: bool,
    ended: bool,
}

impl MemorySource {
    /// A source of what `datagrams` gives.
    ///
    /// # Errors
    /// When a length is out of range or the memory cannot be had.
    pub fn new(
        landing: Landing,
        clock: Arc<dyn Clock>,
        datagrams: Box<dyn Datagrams>,
    ) -> Result<Self, Error> {
        let arrivals_max = BATCH_FRAMES + DATAGRAMS_AT_ONCE;
        let landed = Landed::new(landing, arrivals_max, "memory".into(), "function")?;
        Ok(Self { landed, datagrams, joined: Vec::new(), clock, started: false, ended: false })
    }

    /// A source of given datagrams.
    ///
    /// # Errors
    /// As [`MemorySource::new`].
    pub fn of_frames<I>(landing: Landing, clock: Arc<dyn Clock>, frames: I) -> Result<Self, Error>
    where
        I: IntoIterator<Item: AsRef<[u8]>, IntoIter: Send + 'static>,
    {
        Self::new(landing, clock, Box::new(Given(Some(frames.into_iter()))))
    }
}

/// Datagrams that are there already.
struct Given<I>(Option<I>);

impl<I: Iterator<Item: AsRef<[u8]>> + Send> Datagrams for Given<I> {
    fn next(&mut self, _: u64, land: &mut dyn FnMut(Datagram<'_>)) -> Next {
        let Some(frame) = self.0.as_mut().and_then(Iterator::next) else { return Next::Never };
        land(Datagram { header: frame.as_ref(), body: &[] });
        Next::Now
    }

    fn stop(&mut self) {
        self.0 = None;
    }
}

impl Source for MemorySource {
    fn start(&mut self) -> Result<(), Error> {
        self.started = true;
        Ok(())
    }

    fn poll(&mut self, wait: Duration) -> Result<usize, Error> {
        self.landed.clear();
        if !self.started {
            return Err(Error::NotStarted);
        }
        let now_ns = self.clock.now_ns();
        self.landed.arrival_ns = now_ns;
        let Self { landed, datagrams, joined, .. } = self;
        while !self.ended && !landed.is_full() {
            match datagrams.next(now_ns, &mut |datagram| land(landed, joined, datagram)) {
                Next::Now => {}
                Next::At(due_ns) => {
                    if landed.arrivals().is_empty() {
                        let ahead = Duration::from_nanos(due_ns.saturating_sub(now_ns));
                        thread::sleep(wait.min(ahead));
                    }
                    break;
                }
                Next::Never => self.ended = true,
            }
        }
        Ok(self.landed.arrivals().len())
    }

    fn landed(&self) -> &Landed {
        &self.landed
    }

    fn stop(&mut self) -> Result<(), Error> {
        self.datagrams.stop();
        Ok(())
    }

    fn is_exhausted(&self) -> bool {
        self.ended
    }
}

/// Lands a datagram, whose parts are put together in `joined` if it has two.
fn land(landed: &mut Landed, joined: &mut Vec<u8>, datagram: Datagram<'_>) {
    match datagram {
        Datagram { header: whole, body: [] } | Datagram { header: [], body: whole } => {
            landed.land(whole);
        }
        Datagram { header, body } => {
            joined.clear();
            joined.extend_from_slice(header);
            joined.extend_from_slice(body);
            landed.land(joined);
        }
    }
}
