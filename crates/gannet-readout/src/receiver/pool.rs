//! The streams of a source, each waiting for the receiver that sees it first.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gannet_trigger::Finder;
use gannet_wire::StreamKey;

use super::stream::{Stream, StreamSetup};

/// Who has a stream.
#[derive(Debug)]
pub enum Claim<F> {
    /// Who asked.
    Granted(Box<Stream<F>>),
    /// Another receiver.
    Taken,
}

/// The streams that may come by any socket of a source.
///
/// A stream is bound to a receiver by its first frame. It stays there, because its frames lie in one
/// clop.
#[derive(Debug)]
pub struct StreamPool<F> {
    places: HashMap<StreamKey, usize>,
    streams: Mutex<Vec<Option<Box<Stream<F>>>>>,
    ending: AtomicBool,
}

impl<F: Finder> StreamPool<F> {
    /// A pool of streams.
    ///
    /// # Panics
    /// When there is none.
    pub fn new(streams: Vec<StreamSetup<F>>) -> Self {
        assert!(!streams.is_empty(), "a source has streams");
        let places = streams.iter().map(|stream| stream.key).zip(0..).collect();
        let streams = streams.into_iter().map(|setup| Some(Box::new(Stream::new(setup))));
        Self { places, streams: Mutex::new(streams.collect()), ending: AtomicBool::new(false) }
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Never: a pool has streams.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Expects frames from `now_ns` on: silence counts from there.
    pub fn begin(&self, now_ns: u64) {
        self.lock().iter_mut().flatten().for_each(|stream| stream.begin(now_ns));
    }

    /// Place of the stream with this key.
    pub(super) fn find(&self, key: StreamKey) -> Option<usize> {
        self.places.get(&key).copied()
    }

    /// Gives a stream away, once.
    pub(super) fn claim(&self, place: usize) -> Claim<F> {
        self.lock()[place].take().map_or(Claim::Taken, Claim::Granted)
    }

    /// Notes that receivers begin to stop: how far streams come from now on says nothing of those
    /// that have stopped.
    pub(super) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// Whether receivers have begun to stop.
    pub(super) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Looks for streams that nobody has seen.
    pub(super) fn check_stalled(&self, now_ns: u64) {
        self.lock().iter_mut().flatten().for_each(|stream| stream.check_stalled(now_ns));
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Box<Stream<F>>>>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
