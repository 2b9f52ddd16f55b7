//! Windows of time of all streams: who asks, and who answers out of latency buffers.

use std::collections::VecDeque;

use crate::latency::StreamBuffer;
use crate::request::{Answer, DataRequest};

/// What a stream has of a window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamAnswer {
    /// Number under which the window was asked for.
    pub number: u64,
    /// The stream.
    pub stream: usize,
    /// What is wrong with it: [`error_bits`](crate::request::error_bits).
    pub error_bits: u32,
    /// Whole frames that overlap the window, in the order of time.
    pub frames: Vec<u8>,
}

/// Answers requests for windows of time, once for each stream. Nothing waits.
pub trait Windows: Send {
    /// Asks every stream for a window. Numbers grow.
    fn ask(&mut self, number: u64, request: DataRequest);

    /// Declares whether to wait for data of `stream`. One whose time is wrong answers with what it has, so
    /// that it does not hold up the others.
    ///
    /// # Panics
    /// When there is no such stream.
    fn set_awaited(&mut self, stream: usize, awaited: bool);

    /// Declares that no more data will come: every request is answered with what is there.
    fn close(&mut self);

    /// Gives the answers that are final at `now_ns`.
    fn poll(&mut self, now_ns: u64, give: &mut dyn FnMut(StreamAnswer));
}

/// A request, and which streams have answered.
#[derive(Debug)]
struct Open {
    number: u64,
    request: DataRequest,
    answered: Vec<bool>,
}

/// Cuts windows out of the latency buffers of this process.
#[derive(Debug)]
pub struct BufferWindows {
    buffers: Vec<StreamBuffer>,
    /// Longest window that may be asked for, in ticks.
    window_ticks_max: u64,
    /// Whether it is worth waiting for data of each stream.
    awaited: Vec<bool>,
    open: VecDeque<Open>,
    closed: bool,
}

impl BufferWindows {
    /// Cuts windows of at most `window_ticks_max` ticks out of the buffers of all streams.
    pub fn new(window_ticks_max: u64, buffers: Vec<StreamBuffer>) -> Self {
        let awaited = vec![true; buffers.len()];
        Self { buffers, window_ticks_max, awaited, open: VecDeque::new(), closed: false }
    }

    /// Number of streams.
    pub fn streams(&self) -> usize {
        self.buffers.len()
    }

    /// Requests that wait for data.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Forgets all requests, and waits for every stream again.
    pub fn forget(&mut self) {
        self.open.clear();
        self.awaited.fill(true);
        self.closed = false;
    }
}

impl Windows for BufferWindows {
    fn ask(&mut self, number: u64, request: DataRequest) {
        self.open.push_back(Open { number, request, answered: vec![false; self.buffers.len()] });
    }

    fn set_awaited(&mut self, stream: usize, awaited: bool) {
        self.awaited[stream] = awaited;
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn poll(&mut self, now_ns: u64, give: &mut dyn FnMut(StreamAnswer)) {
        let Self { buffers, window_ticks_max, awaited, closed, .. } = self;
        self.open.retain_mut(|Open { number, request, answered }| {
            let streams = buffers.iter_mut().zip(&*awaited).zip(answered.iter_mut()).enumerate();
            for (stream, ((buffer, awaited), answered)) in streams {
                let waited_to_ns = if *awaited && !*closed { now_ns } else { u64::MAX };
                if !*answered
                    && let Some(answer) = request.attempt(buffer, waited_to_ns, *window_ticks_max)
                {
                    *answered = true;
                    let Answer { error_bits, frames, .. } = answer;
                    give(StreamAnswer { number: *number, stream, error_bits, frames });
                }
            }
            answered.contains(&false)
        });
    }
}
