//! Readout and builder as two ends of shared memory, in one process.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_fabric::exchange::Side;
use gannet_fabric::messenger::Messenger;
use gannet_fabric::shm::{Limits, Shm};
use gannet_fabric::{Peer, Trust};
use gannet_measure::ledger::Account;
use gannet_memory::{Geometry, Producer, clop};
use gannet_readout::items::{self, FLUSH_NS, ItemReceiver, ItemSender, NoBatch};
use gannet_readout::latency::{IndexWriter, Window, index};
use gannet_readout::receiver::StreamStatus;
use gannet_readout::remote::{
    BuilderEnd, LinkDrop, LinkError, ReadoutEnd, RemoteWindows, Welcoming, ring,
};
use gannet_readout::request::{DataRequest, error_bits};
use gannet_readout::windows::{BufferWindows, StreamAnswer, Windows};
use gannet_wire::readout_link::Refusal;
use gannet_wire::{Step, TriggerPrimitive};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const STREAMS: usize = 3;
const FRAME_BYTES: usize = 512;
const STEP: u64 = 2048;
const ITEMS_MAX: usize = 100;
const PATIENCE: Duration = Duration::from_secs(20);
const DIGEST: u64 = 77;

fn joined() -> ((Shm, Peer), (Shm, Peer)) {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let limits = Limits { deadline: Duration::from_millis(500), ..Limits::default() };
    let (mut near, mut far) = (Shm::new(limits.clone()), Shm::new(limits));
    let joining = thread::spawn(move || {
        let peer = near.join(here, Side::Connecting, &Trust::SameUser).unwrap();
        (near, peer)
    });
    let near_peer = far.join(there, Side::Accepting, &Trust::SameUser).unwrap();
    (joining.join().unwrap(), (far, near_peer))
}

/// Both ends, and what lies behind each.
struct Bench {
    begin: Instant,
    producer: Producer,
    writers: Vec<IndexWriter>,
    found: Option<ItemSender<TriggerPrimitive>>,
    statuses: Vec<Arc<StreamStatus>>,
    readout: ReadoutEnd<TriggerPrimitive>,
    builder: BuilderEnd<TriggerPrimitive>,
    copies: Vec<Arc<StreamStatus>>,
    windows: Option<RemoteWindows>,
    trigger: ItemReceiver<TriggerPrimitive>,
    link: Option<(Messenger, Messenger)>,
}

impl Bench {
    fn new(readout_digest: u64) -> Self {
        let (producer, cells) = clop(Geometry { cell_bytes: FRAME_BYTES, cells: 1024 }).unwrap();
        let (writers, buffers) = (0..STREAMS)
            .map(|_| {
                let (mut writer, [buffer]) = index(256, Step::Fixed(STEP));
                writer.attach(cells.clone());
                (writer, buffer)
            })
            .unzip();
        let statuses = || (0..STREAMS).map(|_| Arc::default()).collect::<Vec<_>>();
        let (statuses, copies) = (statuses(), statuses());
        let (mut found, items) = items::channel(1, ITEMS_MAX, FLUSH_NS);
        let windows = BufferWindows::new(1 << 30, buffers);
        let readout = ReadoutEnd::new(readout_digest, items, statuses.clone(), windows);
        let (windows, orders) = RemoteWindows::new(STREAMS);
        let (mut senders, trigger) = items::channel(1, ITEMS_MAX, FLUSH_NS);
        let welcoming = Welcoming { digest: DIGEST, run: 5 };
        let builder =
            BuilderEnd::new(welcoming, senders.remove(0), ITEMS_MAX, copies.clone(), orders);
        let mut bench = Self {
            begin: Instant::now(),
            producer,
            writers,
            found: found.pop(),
            statuses,
            readout,
            builder,
            copies,
            windows: Some(windows),
            trigger,
            link: None,
        };
        bench.join();
        bench
    }

    fn join(&mut self) {
        let ((near, far_peer), (far, near_peer)) = joined();
        let ring = ring::<TriggerPrimitive>(ITEMS_MAX);
        let near = Messenger::new(Box::new(near), far_peer, ring).unwrap();
        let far = Messenger::new(Box::new(far), near_peer, ring).unwrap();
        self.link = Some((near, far));
    }

    fn now_ns(&self) -> u64 {
        assert!(self.begin.elapsed() < PATIENCE);
        self.begin.elapsed().as_nanos() as u64
    }

    fn step(&mut self) -> Result<(), LinkError> {
        let now_ns = self.now_ns();
        let Some((near, far)) = &mut self.link else { panic!("not joined") };
        self.builder.step(now_ns, far)?;
        self.readout.step(now_ns, near, Duration::from_micros(10))
    }

    fn step_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            self.step().unwrap();
        }
    }

    /// Lands frames of all streams.
    fn land(&mut self, frames: std::ops::Range<u64>) {
        for frame in frames {
            for stream in 0..STREAMS {
                let bytes = [(frame * 3 + stream as u64) as u8; FRAME_BYTES];
                let cell = self.producer.land(&bytes);
                self.writers[stream].insert(frame * STEP, cell, FRAME_BYTES, false);
            }
        }
    }

    /// Finds so many primitives in a stream.
    fn find(&mut self, stream: u32, count: u64, searched_to: u64) {
        let now_ns = self.now_ns();
        let found = self.found.as_mut().unwrap();
        found.append(stream, now_ns, |out| {
            out.extend((0..count).map(|number| primitive(searched_to - count + number)));
            searched_to
        });
    }

    /// Asks for a window, and gives what comes.
    fn ask(&mut self, number: u64, window: Window, wait: Duration) -> Vec<StreamAnswer> {
        let deadline_ns = self.now_ns() + wait.as_nanos() as u64;
        let mut windows = self.windows.take().unwrap();
        windows.ask(number, DataRequest::new(window, deadline_ns));
        let mut answers = Vec::new();
        while answers.len() < STREAMS {
            if self.link.is_some() {
                self.step().unwrap();
            } else {
                self.builder.take_orders(self.now_ns());
            }
            windows.poll(self.now_ns(), &mut |answer| answers.push(answer));
        }
        self.windows = Some(windows);
        answers.sort_by_key(|answer| answer.stream);
        answers
    }
}

fn primitive(time_start: u64) -> TriggerPrimitive {
    let none = TriggerPrimitive::INVALID;
    TriggerPrimitive { words: [none.words[0], time_start, none.words[2]] }
}

fn lost(account: &Account<LinkDrop>) -> (u64, u64) {
    assert!(account.statement("link").closes());
    (account.delivered(), account.dropped(LinkDrop::NoBuilder))
}

#[test]
fn items_figures_and_windows_come_over_and_the_end_is_told() {
    let mut bench = Bench::new(DIGEST);
    bench.step_until(|bench| bench.readout.is_joined() && bench.builder.is_joined());
    for round in 1..=200 {
        for stream in 0..STREAMS as u32 {
            bench.find(stream, u64::from(stream) * 40, round * 1000);
        }
    }
    bench.statuses[1].frames.set(12);
    bench.statuses[2].settled_timestamp.set(13);
    bench.found.take().unwrap().finish();
    let (mut found, mut searched_to) = ([0; STREAMS], [0; STREAMS]);
    let mut last = [0; STREAMS];
    loop {
        bench.step().unwrap();
        let received = bench.trigger.receive(Duration::ZERO, |batch| {
            for (segment, items) in batch.segments() {
                let stream = segment.stream as usize;
                for item in items {
                    assert!(item.time_start() > last[stream] && last[stream] < segment.searched_to);
                    last[stream] = item.time_start();
                }
                found[stream] += items.len();
                searched_to[stream] = segment.searched_to;
            }
        });
        if received == Err(NoBatch::Finished) {
            break;
        }
    }
    assert_eq!((found, searched_to), ([0, 8000, 16_000], [200_000; STREAMS]));
    assert_eq!((bench.copies[1].frames.get(), bench.copies[2].settled_timestamp.get()), (12, 13));
    assert!(bench.builder.has_ended());

    bench.land(0..100);
    // More than fits one message.
    let answers = bench.ask(9, Window { begin: STEP, end: 90 * STEP }, Duration::ZERO);
    for (stream, answer) in answers.iter().enumerate() {
        assert_eq!((answer.number, answer.stream, answer.error_bits), (9, stream, 0));
        let firsts: Vec<u8> = answer.frames.chunks(FRAME_BYTES).map(|frame| frame[0]).collect();
        let expected: Vec<u8> = (1..90).map(|frame| (frame * 3 + stream as u64) as u8).collect();
        assert_eq!(firsts, expected);
    }
    // What is not there yet is waited for, no longer than asked.
    let answers =
        bench.ask(10, Window { begin: 200 * STEP, end: 201 * STEP }, Duration::from_millis(50));
    assert!(answers.iter().all(|answer| answer.error_bits == error_bits::DATA_NOT_FOUND));
    // What is not awaited is not.
    let mut windows = bench.windows.take().unwrap();
    (0..STREAMS).for_each(|stream| windows.set_awaited(stream, false));
    bench.windows = Some(windows);
    bench.ask(11, Window { begin: 200 * STEP, end: 201 * STEP }, Duration::from_secs(3600));
    drop(bench.windows.take());
    bench.step_until(|bench| bench.readout.is_done());
    let accounts = bench.readout.accounts();
    bench.step_until(|bench| accounts.fragments.delivered() == 9 || bench.readout.is_done());
    assert_eq!(lost(&accounts.items), (24_000, 0));
}

#[test]
fn a_readout_of_another_configuration_is_refused() {
    let mut bench = Bench::new(DIGEST + 1);
    let error = loop {
        if let Err(error) = bench.step() {
            break error;
        }
    };
    assert_eq!(error, LinkError::Refused(Refusal::Configuration));
    assert!(!bench.builder.is_joined());
}

#[test]
fn what_no_builder_takes_is_counted_and_a_later_one_goes_on() {
    let mut bench = Bench::new(DIGEST);
    bench.step_until(|bench| bench.readout.is_joined());
    bench.find(0, 10, 1000);
    let accounts = bench.readout.accounts();
    bench.found.as_mut().unwrap().flush_due(u64::MAX);
    bench.step_until(|_| accounts.items.delivered() == 10);
    // The builder goes away while messages are under way.
    bench.land(0..10);
    let (near, far) = bench.link.take().unwrap();
    drop(far);
    let mut near = near;
    for round in 0..3 {
        bench.find(0, 7, 2000 + round * 100);
        bench.found.as_mut().unwrap().flush_due(u64::MAX);
        let _gone = bench.readout.step(bench.now_ns(), &mut near, Duration::ZERO);
    }
    while bench.readout.step(bench.now_ns(), &mut near, Duration::ZERO).is_ok() {}
    bench.readout.leave();
    bench.builder.leave();
    bench.find(0, 5, 3000);
    bench.found.as_mut().unwrap().flush_due(u64::MAX);
    (0..10).for_each(|_| bench.readout.lose(Duration::ZERO));
    assert_eq!(lost(&accounts.items), (10, 26));
    assert_eq!(bench.copies[0].stalled.get(), 1);
    // Meanwhile its streams count as such that never came.
    let answers = bench.ask(1, Window { begin: 0, end: STEP }, Duration::ZERO);
    assert!(answers.iter().all(|answer| answer.error_bits == error_bits::DATA_NOT_FOUND));

    bench.join();
    bench.step_until(|bench| bench.readout.is_joined() && bench.builder.is_joined());
    let answers = bench.ask(2, Window { begin: 0, end: STEP }, Duration::ZERO);
    assert!(
        answers.iter().all(|answer| answer.error_bits == 0 && answer.frames.len() == FRAME_BYTES)
    );
    bench.find(0, 3, 4000);
    bench.found.as_mut().unwrap().flush_due(u64::MAX);
    bench.step_until(|_| accounts.items.delivered() == 13);
}

#[test]
fn what_is_no_message_ends_the_link() {
    let mut bench = Bench::new(DIGEST);
    let (mut near, far) = bench.link.take().unwrap();
    bench.link = None;
    let mut far = far;
    while !near.send(b"nonsense") {
        near.step(bench.now_ns()).unwrap();
        bench.builder.step(bench.now_ns(), &mut far).unwrap();
    }
    let error = loop {
        near.step(bench.now_ns()).unwrap();
        if let Err(error) = bench.builder.step(bench.now_ns(), &mut far) {
            break error;
        }
    };
    assert!(matches!(error, LinkError::Message(_)), "{error}");
}
