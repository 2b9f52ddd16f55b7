//! Windows of time of all streams: who asks, and who answers out of latency buffers.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_measure::counter::Counter;

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
    /// Whether there was nobody to ask, or no answer, though the stream may well have had frames.
    pub unreachable: bool,
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
    /// First tick of the oldest window among these; 0 while there are none.
    oldest: Arc<Counter>,
    closed: bool,
}

impl BufferWindows {
    /// Cuts windows of at most `window_ticks_max` ticks out of the buffers of all streams.
    pub fn new(window_ticks_max: u64, buffers: Vec<StreamBuffer>) -> Self {
        let awaited = vec![true; buffers.len()];
        Self {
            buffers,
            window_ticks_max,
            awaited,
            open: VecDeque::new(),
            oldest: Arc::default(),
            closed: false,
        }
    }

    /// First tick of the oldest window that waits for data, for others to read; 0 while none waits.
    pub fn oldest(&self) -> Arc<Counter> {
        Arc::clone(&self.oldest)
    }

    fn tell_oldest(&self) {
        let begins = self.open.iter().map(|open| open.request.window().begin);
        self.oldest.set(begins.min().unwrap_or(0));
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
        self.tell_oldest();
        self.awaited.fill(true);
        self.closed = false;
    }
}

impl Windows for BufferWindows {
    fn ask(&mut self, number: u64, request: DataRequest) {
        self.open.push_back(Open { number, request, answered: vec![false; self.buffers.len()] });
        self.tell_oldest();
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
                    let number = *number;
                    give(StreamAnswer { number, stream, error_bits, frames, unreachable: false });
                }
            }
            answered.contains(&false)
        });
        self.tell_oldest();
    }
}

#[cfg(test)]
mod tests {
    use gannet_memory::{Geometry, clop};
    use gannet_wire::Step;

    use super::*;
    use crate::latency::{Window, index};

    #[test]
    fn the_oldest_window_that_waits_is_told() {
        let (mut producer, cells) = clop(Geometry { cell_bytes: 1, cells: 64 }).unwrap();
        let (mut writer, [buffer]) = index(32, Step::Fixed(10));
        writer.attach(cells);
        let mut windows = BufferWindows::new(1000, vec![buffer]);
        let oldest = windows.oldest();
        let mut land = |begin| writer.insert(begin, producer.land(&[0]), 1, false);
        land(100);
        let ask = |begin| DataRequest::new(Window { begin, end: begin + 5 }, u64::MAX);
        windows.ask(1, ask(130));
        windows.ask(2, ask(120));
        assert_eq!(oldest.get(), 120);
        for begin in [110, 120, 130] {
            land(begin);
        }
        windows.poll(0, &mut |answer| assert_eq!(answer.number, 2));
        assert_eq!(oldest.get(), 130);
        land(140);
        windows.poll(0, &mut |answer| assert_eq!(answer.number, 1));
        assert_eq!(oldest.get(), 0);
        windows.ask(3, ask(150));
        windows.forget();
        assert_eq!(oldest.get(), 0);
    }
}
