//! Buffers of one size that one thread fills at the pace of a link and another searches.

use std::hint::{self, black_box};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_kernels::rings::Found;
use gannet_memory::receive_list::{
    Consumer, ListWriter, Overflow, Refused, Rules, Taken, receive_list,
};

use super::link::Link;
use crate::cores::Cores;
use crate::rings::Ready;
use crate::rings::events::Events;

/// Events of a datagram: 1.2 kB of them on average.
const DATAGRAM_EVENTS: usize = 16;
/// Buffers of a list that is filled while it is searched.
const BUFFERS: usize = 4;
/// Buffers that are filled before any counts: memory is touched, caches fill.
const WARM_UP: u64 = 2 * BUFFERS as u64;
/// Fewest buffers that count.
const COUNTED_MIN: u64 = 16;

/// A link that was left alone for so long begins anew, so that it never makes up for it.
const STALL_NS: u64 = 20_000;

type Bytes = Box<[u8]>;

/// When a buffer is filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// When the one before was searched.
    Serialised,
    /// While others wait for the search or are in it.
    Overlapped,
}

impl Order {
    fn buffers(self) -> usize {
        match self {
            Self::Serialised => 1,
            Self::Overlapped => BUFFERS,
        }
    }
}

/// Times of the buffers, ns.
#[derive(Clone, Debug, Default)]
pub(super) struct Passed {
    /// From the first byte on the link to the last.
    pub transfer: Vec<u64>,
    /// From then to the rings of the last event.
    pub processing: Vec<u64>,
    /// Both.
    pub latency: Vec<u64>,
    /// Between the ends of a buffer and of the one before.
    pub period: Vec<u64>,
}

/// Fills and searches buffers of `size` events for so long.
pub(super) fn run(
    cores: &Cores,
    events: &Events,
    finder: &mut Ready,
    (link, size, order): (Link, usize, Order),
    time: Duration,
) -> Passed {
    let lengths = events.starts.windows(2).map(|pair| pair[1] - pair[0]);
    let bytes = size * lengths.max().unwrap_or(0);
    let buffers = (0..order.buffers()).map(|_| vec![0; bytes].into_boxed_slice()).collect();
    let overflow = Overflow::Backpressure;
    let rules = Rules { units_max: size as u32, timeout_ns: u64::MAX, overflow };
    let (list, consumer) = receive_list(buffers, rules);
    let clock = Clock(Instant::now());
    let searched = AtomicU64::new(0);
    let (clock, searched) = (&clock, &searched);
    thread::scope(|scope| {
        scope.spawn(move || {
            cores.pin(1);
            let mut link = Paced { link, events, list, clock, at: 0, free_ns: 0 };
            let end_ns = clock.now_ns() + time.as_nanos() as u64;
            let mut buffer = 0;
            while buffer < WARM_UP + COUNTED_MIN || clock.now_ns() < end_ns {
                let is_full =
                    || buffer - searched.load(Ordering::Acquire) >= order.buffers() as u64;
                if is_full() {
                    while is_full() {
                        wait(cores);
                    }
                    link.free_ns = clock.now_ns();
                }
                link.fill(size, cores);
                buffer += 1;
            }
        });
        let search = scope.spawn(move || {
            cores.pin(0);
            search(&consumer, finder, clock, searched, cores)
        });
        match search.join() {
            Ok(passed) => passed,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Time since the begin.
struct Clock(Instant);

impl Clock {
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
}

/// Passes a moment. Whoever has no processor of its own lends it to the other.
fn wait(cores: &Cores) {
    match cores.has(2) {
        true => hint::spin_loop(),
        false => thread::yield_now(),
    }
}

/// A link that brings events in turn.
struct Paced<'a> {
    link: Link,
    events: &'a Events,
    list: ListWriter<Bytes>,
    clock: &'a Clock,
    /// Number of the next event.
    at: usize,
    /// When the last byte has passed.
    free_ns: u64,
}

impl Paced<'_> {
    /// Fills a buffer, datagram by datagram. The time of an event is that at which its datagram was begun.
    fn fill(&mut self, size: usize, cores: &Cores) {
        for _ in 0..size / DATAGRAM_EVENTS {
            let starts = &self.events.starts[self.at..=self.at + DATAGRAM_EVENTS];
            self.at = (self.at + DATAGRAM_EVENTS) % self.events.len();
            let bits = 8.0 * (starts[DATAGRAM_EVENTS] - starts[0]) as f64;
            let begin_ns = match self.link.bits_per_s() {
                Some(rate) => {
                    let now_ns = self.clock.now_ns();
                    if now_ns > self.free_ns + STALL_NS {
                        self.free_ns = now_ns;
                    }
                    let begin_ns = self.free_ns;
                    self.free_ns += (bits * 1e9 / rate) as u64;
                    begin_ns
                }
                None => self.clock.now_ns(),
            };
            while self.clock.now_ns() < self.free_ns {
                wait(cores);
            }
            let now_ns = self.clock.now_ns();
            for event in 0..DATAGRAM_EVENTS {
                let is_last = event + 1 == DATAGRAM_EVENTS;
                let now_ns = if is_last { self.clock.now_ns() } else { now_ns };
                let event = &self.events.m2egp[starts[event]..starts[event + 1]];
                while self.list.append(event, begin_ns, now_ns) == Err(Refused::Wait) {
                    wait(cores);
                }
            }
        }
    }
}

fn search(
    consumer: &Consumer<Bytes>,
    finder: &mut Ready,
    clock: &Clock,
    searched: &AtomicU64,
    cores: &Cores,
) -> Passed {
    let mut found = Found::default();
    let (mut passed, mut before_ns) = (Passed::default(), 0);
    loop {
        let hold = match consumer.take() {
            Some(Taken::Buffer(hold)) => hold,
            None if consumer.is_finished() => return passed,
            Some(Taken::Lost(_)) | None => {
                wait(cores);
                continue;
            }
        };
        found.clear();
        finder.find(hold.bytes(), None, &mut found);
        black_box(&mut found);
        let (now_ns, completion) = (clock.now_ns(), *hold.completion());
        // The buffer is free before the link hears of it.
        drop(hold);
        searched.fetch_add(1, Ordering::Release);
        if completion.seq >= WARM_UP {
            passed.transfer.push(completion.close_ns - completion.first_time);
            passed.processing.push(now_ns - completion.close_ns);
            passed.latency.push(now_ns - completion.first_time);
            passed.period.push(now_ns - before_ns);
        }
        before_ns = now_ns;
    }
}
