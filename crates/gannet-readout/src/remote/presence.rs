//! Which streams have a readout.

use std::sync::atomic::{AtomicU8, Ordering};

/// What is known of the readout of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Readout {
    /// None is there.
    Away,
    /// One is, and takes frames.
    AtWork,
    /// One is, and has said that it takes no more.
    Ended,
}

/// Whether a readout is there for each stream of a builder; any thread may look. It stays as it was when the last one ended.
#[derive(Debug)]
pub struct Presence(Vec<AtomicU8>);

impl Presence {
    /// No readout is there yet for so many streams.
    pub fn new(streams: usize) -> Self {
        Self((0..streams).map(|_| AtomicU8::new(Readout::Away as u8)).collect())
    }

    /// Notes what is known of the readout of a stream.
    pub(super) fn set(&self, stream: usize, readout: Readout) {
        self.0[stream].store(readout as u8, Ordering::Release);
    }

    fn is(&self, stream: usize, readout: Readout) -> bool {
        self.0[stream].load(Ordering::Acquire) == readout as u8
    }

    /// Whether a stream has a readout.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn has(&self, stream: usize) -> bool {
        !self.is(stream, Readout::Away)
    }

    /// Whether a stream has a readout that takes its frames.
    ///
    /// # Panics
    /// When there is no such stream.
    pub fn is_attended(&self, stream: usize) -> bool {
        self.is(stream, Readout::AtWork)
    }

    /// Whether every stream has a readout.
    pub fn is_whole(&self) -> bool {
        (0..self.0.len()).all(|stream| self.has(stream))
    }
}
