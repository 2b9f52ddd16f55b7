//! The work of a receiving thread: from the datagrams of a source to indexed frames and the items
//! found in them.
//!
//! Each frame is looked at once, in the cell in which it landed: its heading names the stream, the
//! stream's time tells whether it is in order, the index makes it findable, and a [`Finder`]
//! searches it.

mod pool;
mod progress;
mod status;
mod stopwatch;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use gannet_ingest::{Error, Source};
use gannet_measure::clock::Clock;
use gannet_measure::histogram::Histogram;
use gannet_measure::ledger::Account;
use gannet_memory::Cell;
use gannet_trigger::Finder;
use gannet_wire::{FrameFormat, Heading};

use crate::items::ItemSender;
use stopwatch::Stopwatch;
use stream::{Frame, Stream, Taking, count};

pub use pool::{Claim, StreamPool};
pub use progress::SETTLE_NS;
pub use status::StreamStatus;
pub use stopwatch::SearchTime;
pub use stream::{StreamSetup, WINDOW_FRAMES};

gannet_measure::drop_reasons! {
    /// Why a frame that arrived was not taken.
    pub enum FrameDrop {
        /// Its header does not describe a frame of this length.
        BadHeader => "bad_header",
        /// No such stream is configured for this source.
        UnknownStream => "unknown_stream",
        /// Its stream comes by another socket of the source.
        OtherSocket => "other_socket",
        /// A frame with the same time stamp was taken before.
        Duplicate => "duplicate",
        /// Its time stamp does not fit those around it, and no later frame confirmed it.
        BadTimestamp => "bad_timestamp",
        /// It is older than all that the latency buffer can hold.
        TooOld => "too_old",
    }
}

/// Time between two looks for silent streams, in nanoseconds.
const CHECK_NS: u64 = 10_000_000;

/// One source with the streams that come from it: frames of the format `T`, each searched by an
/// `F`.
pub struct Receiver<T, F: Finder> {
    source: Box<dyn Source>,
    clock: Arc<dyn Clock>,
    items: ItemSender<F::Item>,
    frames: Frames<T, F>,
    checked_ns: u64,
}

impl<T: FrameFormat, F: Finder> Receiver<T, F> {
    /// A receiver of the frames of `source`, which belong to streams of `pool`.
    ///
    /// Several receivers may share a pool: a stream belongs to the one that sees it first. The
    /// first receiver of a pool is the `watcher`, which reports streams that nobody has seen.
    pub fn new(
        format: T,
        source: Box<dyn Source>,
        pool: Arc<StreamPool<F>>,
        watcher: bool,
        items: ItemSender<F::Item>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let frames = Frames {
            format,
            owned: (0..pool.len()).map(|_| None).collect(),
            pool,
            watcher,
            current: 0,
            strayed: false,
            account: Arc::default(),
            arrival_to_primitive_ns: Arc::default(),
            stopwatch: Stopwatch::new(Arc::clone(&clock)),
        };
        Self { source, clock, items, frames, checked_ns: 0 }
    }

    /// The source.
    pub fn source(&self) -> &dyn Source {
        &*self.source
    }

    /// Ledger of frames: delivered into the latency buffer, or dropped.
    pub fn account(&self) -> Arc<Account<FrameDrop>> {
        Arc::clone(&self.frames.account)
    }

    /// Time from the arrival of a frame until its items are known, in nanoseconds.
    pub fn arrival_to_primitive_ns(&self) -> Arc<Histogram> {
        Arc::clone(&self.frames.arrival_to_primitive_ns)
    }

    /// Time spent in the search of frames.
    pub fn search_time(&self) -> Arc<SearchTime> {
        self.frames.stopwatch.time()
    }

    /// Begins to take frames.
    ///
    /// # Errors
    /// As [`Source::start`].
    pub fn start(&mut self) -> Result<(), Error> {
        self.source.start()
    }

    /// Takes the frames that are there, or waits for some at most `wait`, which should be at most
    /// 10 ms for silent streams to be noticed in time. Says how many there were.
    ///
    /// # Errors
    /// As [`Source::poll`].
    pub fn step(&mut self, wait: Duration) -> Result<usize, Error> {
        let arrived = self.source.poll(wait)?;
        let landed = self.source.landed();
        let (arrival_ns, cells) = (landed.arrival_ns(), landed.producer());
        self.frames.strayed = false;
        for arrival in landed.arrivals() {
            let frame = cells.bytes(arrival.cell, arrival.len as usize);
            self.frames.take(frame, arrival.cell, arrival_ns, &mut self.items, || cells.reader());
        }
        self.frames.publish();
        if self.frames.strayed {
            self.source.part();
        }
        let now_ns = self.clock.now_ns();
        if arrived > 0 {
            let latency = now_ns.saturating_sub(arrival_ns);
            self.frames.arrival_to_primitive_ns.record_many(latency, arrived as u64);
        }
        self.items.flush_due(now_ns);
        if now_ns.saturating_sub(self.checked_ns) >= CHECK_NS {
            self.checked_ns = now_ns;
            self.frames.look(now_ns);
        }
        Ok(arrived)
    }

    /// Takes nothing more in than what is queued already.
    ///
    /// # Errors
    /// As [`Source::stop`].
    pub fn stop(&mut self) -> Result<(), Error> {
        self.frames.pool.end();
        self.source.stop()
    }

    /// Whether no frame will come any more.
    pub fn is_exhausted(&self) -> bool {
        self.source.is_exhausted()
    }

    /// Hands over the items that are left. The frames stay readable in the latency buffer.
    pub fn finish(mut self) -> Box<dyn Source> {
        self.frames.finish(self.source.landed().arrival_ns(), &mut self.items);
        self.items.finish();
        self.source
    }
}

/// The streams of a receiver, apart from where their frames come from.
struct Frames<T, F> {
    format: T,
    pool: Arc<StreamPool<F>>,
    /// The streams that came here first, by their place in the pool.
    owned: Vec<Option<Box<Stream<F>>>>,
    watcher: bool,
    /// Place of the stream that the last frame belonged to.
    current: usize,
    /// A frame came that belongs to another receiver.
    strayed: bool,
    account: Arc<Account<FrameDrop>>,
    arrival_to_primitive_ns: Arc<Histogram>,
    stopwatch: Stopwatch,
}

impl<T: FrameFormat, F: Finder> Frames<T, F> {
    /// Takes one frame and counts it.
    #[inline]
    fn take(
        &mut self,
        bytes: &[u8],
        cell: Cell,
        arrival_ns: u64,
        items: &mut ItemSender<F::Item>,
        cells: impl FnOnce() -> gannet_memory::Reader,
    ) {
        let heading = match self.admit(bytes, cells) {
            Ok(heading) => heading,
            Err(reason) => return count(&self.account, Err(reason)),
        };
        if let Some(stream) = &mut self.owned[self.current] {
            let (stopwatch, account) = (&mut self.stopwatch, &*self.account);
            let frame = Frame { heading, cell, bytes };
            stream.take(frame, &mut Taking { arrival_ns, items, stopwatch, account });
        }
    }

    /// Makes the stream of a frame the present one, or says why it cannot be taken.
    #[inline]
    fn admit(
        &mut self,
        frame: &[u8],
        cells: impl FnOnce() -> gannet_memory::Reader,
    ) -> Result<Heading, FrameDrop> {
        let heading = self.format.heading(frame).map_err(|_| FrameDrop::BadHeader)?;
        let key = heading.stream;
        let same = self.owned[self.current].as_ref().is_some_and(|stream| stream.key() == key);
        if !same {
            self.publish();
            let place = self.pool.find(key).ok_or(FrameDrop::UnknownStream)?;
            if self.owned[place].is_none() {
                match self.pool.claim(place) {
                    Claim::Granted(mut stream) => {
                        stream.attach(cells());
                        self.owned[place] = Some(stream);
                    }
                    Claim::Taken => {
                        self.strayed = true;
                        return Err(FrameDrop::OtherSocket);
                    }
                }
            }
            self.current = place;
        }
        Ok(heading)
    }

    /// Makes the figures of the present stream known.
    fn publish(&mut self) {
        if let Some(stream) = &self.owned[self.current] {
            stream.publish();
        }
    }

    /// Settles what still waits for later frames.
    fn finish(&mut self, arrival_ns: u64, items: &mut ItemSender<F::Item>) {
        let times =
            |stream: &Option<Box<Stream<F>>>| stream.iter().flat_map(|s| s.times()).collect();
        let times: Vec<Vec<u64>> = self.owned.iter().map(times).collect();
        for (place, stream) in self.owned.iter_mut().enumerate() {
            let Some(stream) = stream else { continue };
            let others = times.iter().enumerate().filter(|(other, _)| *other != place);
            let others = others.flat_map(|(_, times)| times.iter().copied());
            let (stopwatch, account) = (&mut self.stopwatch, &*self.account);
            stream.finish(others, &mut Taking { arrival_ns, items, stopwatch, account });
            stream.publish();
        }
    }

    /// Looks for silent streams, and notes how far each has come.
    fn look(&mut self, now_ns: u64) {
        let ending = self.pool.is_ending();
        for stream in self.owned.iter_mut().flatten() {
            stream.check_stalled(now_ns);
            stream.check_kept(&self.account);
            if !ending {
                stream.look(now_ns);
            }
        }
        if self.watcher {
            self.pool.check_stalled(now_ns);
        }
    }
}
