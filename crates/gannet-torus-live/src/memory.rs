//! A cable between two threads of a process, for tests and demonstrations.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

use crate::port::Port;

/// One direction: frames under way, and what wakes their receiver.
#[derive(Debug)]
struct Direction {
    frames: Mutex<Frames>,
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Frames {
    waiting: VecDeque<Vec<u8>>,
    /// Buffers to be used again.
    free: Vec<Vec<u8>>,
    is_cut: bool,
}

impl Direction {
    fn new() -> io::Result<Arc<Self>> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Arc::new(Self { frames: Mutex::default(), wake }))
    }

    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An end of a cable in memory.
#[derive(Debug)]
pub struct MemoryPort {
    to: Arc<Direction>,
    from: Arc<Direction>,
    frame_bytes: usize,
    frames_max: usize,
    /// The frame that is given to the receiver.
    taken: Vec<u8>,
}

/// The way from an end of a cable to the other one, to be cut and mended.
#[derive(Clone, Debug)]
pub struct Cut(Arc<Direction>);

impl Cut {
    /// Lets nothing through, and loses what is under way; or lets frames through again.
    pub fn set(&self, is_cut: bool) {
        let mut frames = self.0.frames();
        frames.is_cut = is_cut;
        if is_cut {
            frames.waiting.clear();
        }
    }
}

/// The two ends of a cable that carries frames of up to `frame_bytes`, of which `frames` may be under way each way.
///
/// # Errors
/// When the system gives no descriptors.
pub fn cable(frame_bytes: usize, frames: usize) -> io::Result<(MemoryPort, MemoryPort)> {
    let (there, back) = (Direction::new()?, Direction::new()?);
    let end = |to: &Arc<Direction>, from: &Arc<Direction>| MemoryPort {
        to: Arc::clone(to),
        from: Arc::clone(from),
        frame_bytes,
        frames_max: frames,
        taken: Vec::new(),
    };
    Ok((end(&there, &back), end(&back, &there)))
}

impl MemoryPort {
    /// The way from this end to the other one.
    pub fn way(&self) -> Cut {
        Cut(Arc::clone(&self.to))
    }
}

impl Port for MemoryPort {
    fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }

    fn window_bytes(&self) -> usize {
        self.frame_bytes * self.frames_max
    }

    fn send(&mut self, frames: &[u8], frame: usize) -> io::Result<bool> {
        let mut there = self.to.frames();
        if there.waiting.len() + frames.len().div_ceil(frame) > self.frames_max {
            return Ok(false);
        }
        if there.is_cut {
            return Ok(true);
        }
        // Who has not come to the end yet needs not be woken.
        let wakes = there.waiting.is_empty();
        for frame in frames.chunks(frame) {
            let mut place = there.free.pop().unwrap_or_default();
            place.clear();
            place.extend_from_slice(frame);
            there.waiting.push_back(place);
        }
        if wakes {
            rustix::io::write(&self.to.wake, &1u64.to_ne_bytes())?;
        }
        Ok(true)
    }

    fn receive(&mut self, take: &mut dyn FnMut(&[u8])) -> io::Result<bool> {
        // Read before the frames are, so that one that comes meanwhile wakes again.
        let _ = rustix::io::read(&self.from.wake, &mut [0; 8]);
        loop {
            let mut frames = self.from.frames();
            let used = std::mem::take(&mut self.taken);
            if used.capacity() > 0 {
                frames.free.push(used);
            }
            let Some(frame) = frames.waiting.pop_front() else { return Ok(true) };
            drop(frames);
            take(&frame);
            self.taken = frame;
        }
    }

    fn descriptor(&self) -> BorrowedFd<'_> {
        self.from.wake.as_fd()
    }
}
