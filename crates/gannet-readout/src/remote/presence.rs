//! Which streams have a readout.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether a readout is there for each stream of a builder; any thread may look.
#[derive(Debug)]
pub struct Presence(Vec<AtomicBool>);

impl Presence {
    /// No readout is there yet for so many streams.
    pub fn new(streams: usize) -> Self {
        Self((0..streams).map(|_| AtomicBool::new(false)).collect())
    }

    /// Notes whether a stream has a readout.
    pub(super) fn set(&self, stream: usize, is_there: bool) {
        self.0[stream].store(is_there, Ordering::Release);
    }

    /// Whether a stream has a readout.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn has(&self, stream: usize) -> bool {
        self.0[stream].load(Ordering::Acquire)
    }

    /// Whether every stream has one.
    pub fn is_whole(&self) -> bool {
        (0..self.0.len()).all(|stream| self.has(stream))
    }
}
