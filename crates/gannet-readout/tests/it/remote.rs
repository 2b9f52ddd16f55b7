//! Readouts and their builder as two ends of shared memory, in one process.

use std::ops::Range;
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
    BuilderEnd, Event, LinkDrop, LinkError, READOUTS_MAX, ReadoutEnd, RemoteWindows, Welcoming,
    ring,
};
use gannet_readout::request::{DataRequest, error_bits};
use gannet_readout::windows::{BufferWindows, StreamAnswer, Windows};
use gannet_wire::readout_link::{
    Fragment, Greeting, Message, Refusal, Span, write_figures, write_hello,
};
use gannet_wire::{Step, TriggerPrimitive};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

const STREAMS: usize = 3;
/// Streams of the two readouts.
const SHARES: [&[u32]; 2] = [&[0, 2], &[1]];
const FRAME_BYTES: usize = 512;
const STEP: u64 = 2048;
const ITEMS_MAX: usize = 100;
const PATIENCE: Duration = Duration::from_secs(60);
const WELCOMING: Welcoming =
    Welcoming { digest: 77, run: 5, gather_ns: 100 * SECOND_NS, patience_ns: 50 * SECOND_NS };
const SECOND_NS: u64 = 1_000_000_000;

fn joined() -> ((Shm, Peer), (Shm, Peer)) {
    let (here, there) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
    let limits = Limits { deadline: PATIENCE, ..Limits::default() };
    let (mut near, mut far) = (Shm::new(limits.clone()), Shm::new(limits));
    let joining = thread::spawn(move || {
        let peer = near.join(here, Side::Connecting, &Trust::SameUser).unwrap();
        (near, peer)
    });
    let near_peer = far.join(there, Side::Accepting, &Trust::SameUser).unwrap();
    (joining.join().unwrap(), (far, near_peer))
}

/// A readout, and what lies behind it.
struct Far {
    producer: Producer,
    writers: Vec<IndexWriter>,
    found: Option<ItemSender<TriggerPrimitive>>,
    statuses: Vec<Arc<StreamStatus>>,
    end: ReadoutEnd<TriggerPrimitive>,
    link: Option<Messenger>,
}

impl Far {
    fn new(digest: u64, epoch: u64, numbers: &[u32]) -> Self {
        let (producer, cells) = clop(Geometry { cell_bytes: FRAME_BYTES, cells: 1024 }).unwrap();
        let (writers, buffers) = numbers
            .iter()
            .map(|_| {
                let (mut writer, [buffer]) = index(256, Step::Fixed(STEP));
                writer.attach(cells.clone());
                (writer, buffer)
            })
            .unzip();
        let statuses: Vec<Arc<StreamStatus>> = numbers.iter().map(|_| Arc::default()).collect();
        let (mut found, items) = items::channel(1, ITEMS_MAX, FLUSH_NS);
        let windows = BufferWindows::new(1 << 30, buffers);
        let known_by = (digest, epoch);
        let end = ReadoutEnd::new(known_by, numbers.to_vec(), items, statuses.clone(), windows);
        Self { producer, writers, found: found.pop(), statuses, end, link: None }
    }

    /// Lands frames of all its streams.
    fn land(&mut self, frames: Range<u64>) {
        for frame in frames {
            for (stream, writer) in self.writers.iter_mut().enumerate() {
                let bytes = [(frame * 3 + stream as u64) as u8; FRAME_BYTES];
                let cell = self.producer.land(&bytes);
                writer.insert(frame * STEP, cell, FRAME_BYTES, false);
            }
        }
    }

    /// Finds so many primitives in a stream.
    fn find(&mut self, now_ns: u64, stream: u32, count: u64, searched_to: u64) {
        let found = self.found.as_mut().unwrap();
        found.append(stream, now_ns, |out| {
            out.extend((0..count).map(|number| primitive(searched_to - count + number)));
            searched_to
        });
    }

    fn flush(&mut self) {
        self.found.as_mut().unwrap().flush_due(u64::MAX);
    }
}

/// A builder with its readouts.
struct Bench {
    begin: Instant,
    /// Time that has passed beside that of the clock.
    ahead_ns: u64,
    builder: BuilderEnd<TriggerPrimitive>,
    /// What became of those that came.
    events: Vec<Event>,
    copies: Vec<Arc<StreamStatus>>,
    windows: Option<RemoteWindows>,
    trigger: ItemReceiver<TriggerPrimitive>,
    readouts: Vec<Far>,
}

type Near = (
    BuilderEnd<TriggerPrimitive>,
    RemoteWindows,
    ItemReceiver<TriggerPrimitive>,
    Vec<Arc<StreamStatus>>,
);

fn builder(streams: usize) -> Near {
    let copies: Vec<Arc<StreamStatus>> = (0..streams).map(|_| Arc::default()).collect();
    let (windows, orders) = RemoteWindows::new(streams, Duration::from_secs(1));
    let (mut senders, trigger) = items::channel(1, ITEMS_MAX, FLUSH_NS);
    let far = copies.iter().map(|status| (Arc::clone(status), Step::Fixed(STEP)));
    let end = BuilderEnd::new(WELCOMING, senders.remove(0), ITEMS_MAX, far, orders);
    (end, windows, trigger, copies)
}

impl Bench {
    /// A builder that nobody has come to.
    fn of(streams: usize) -> Self {
        let (builder, windows, trigger, copies) = builder(streams);
        Self {
            begin: Instant::now(),
            ahead_ns: 0,
            builder,
            events: Vec::new(),
            copies,
            windows: Some(windows),
            trigger,
            readouts: Vec::new(),
        }
    }

    /// A builder with both readouts.
    fn new() -> Self {
        let mut bench = Self::of(STREAMS);
        for numbers in SHARES {
            bench.readouts.push(Far::new(WELCOMING.digest, 1, numbers));
        }
        bench.join();
        bench.step_until(Self::is_whole);
        bench
    }

    /// Lets all readouts come.
    fn join(&mut self) {
        for index in 0..self.readouts.len() {
            self.readouts[index].link = Some(self.come());
        }
    }

    /// A messenger to the builder.
    fn come(&mut self) -> Messenger {
        let ((near, far_peer), (far, near_peer)) = joined();
        let ring = ring::<TriggerPrimitive>(ITEMS_MAX);
        let far = Messenger::new(Box::new(far), near_peer, ring, PATIENCE).unwrap();
        self.builder.admit(self.now_ns(), far);
        Messenger::new(Box::new(near), far_peer, ring, PATIENCE).unwrap()
    }

    fn is_whole(&self) -> bool {
        let is_joined = |far: &Far| far.end.is_joined();
        self.builder.presence().is_whole() && self.readouts.iter().all(is_joined)
    }

    fn now_ns(&self) -> u64 {
        assert!(self.begin.elapsed() < PATIENCE);
        self.begin.elapsed().as_nanos() as u64 + self.ahead_ns
    }

    fn step_builder(&mut self) {
        let (now_ns, events) = (self.now_ns(), &mut self.events);
        self.builder.step(now_ns, &mut |event| events.push(event));
    }

    fn step(&mut self) -> Result<(), LinkError> {
        self.step_builder();
        let now_ns = self.now_ns();
        self.readouts.iter_mut().try_for_each(|far| match &mut far.link {
            Some(link) => far.end.step(now_ns, link, Duration::from_micros(10)),
            None => Ok(()),
        })
    }

    fn step_until(&mut self, is_done: impl Fn(&Self) -> bool) {
        while !is_done(self) {
            self.step().unwrap();
        }
    }

    /// Says what a readout would not.
    fn say(&mut self, link: &mut Messenger, message: &[u8]) {
        while !link.send(message) {
            link.step(self.now_ns()).unwrap();
            self.step().unwrap();
        }
    }

    /// Joins one that is only a hello with these streams, and says it.
    fn greet(&mut self, epoch: u64, spans: &[Span]) -> Messenger {
        let mut link = self.come();
        let item_len = TriggerPrimitive::LEN as u32;
        let greeting = Greeting { digest: WELCOMING.digest, epoch, item_len };
        let mut hello = Vec::new();
        write_hello(&mut hello, &greeting, spans.iter().copied());
        self.say(&mut link, &hello);
        link
    }

    /// What the builder answers to a hello.
    fn hear(&mut self, link: &mut Messenger) -> Vec<u8> {
        let mut heard = Vec::new();
        while !link.receive(&mut heard) {
            self.step().unwrap();
            link.step(self.now_ns()).unwrap();
        }
        heard
    }

    /// Asks for a window, and gives what comes.
    fn ask(&mut self, number: u64, window: Window, wait: Duration) -> Vec<StreamAnswer> {
        let deadline_ns = self.now_ns() + wait.as_nanos() as u64;
        let mut windows = self.windows.take().unwrap();
        windows.ask(number, DataRequest::new(window, deadline_ns));
        let mut answers = Vec::new();
        while answers.len() < STREAMS {
            self.step().unwrap();
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
    let mut bench = Bench::new();
    let now_ns = bench.now_ns();
    for (far, numbers) in bench.readouts.iter_mut().zip(SHARES) {
        for (round, stream) in
            (1..=200).flat_map(|round| numbers.iter().map(move |it| (round, *it)))
        {
            far.find(now_ns, stream, u64::from(stream) * 40, round * 1000);
        }
        far.statuses[0].frames.set(12);
        far.statuses[0].settled_timestamp.set(13);
    }
    let (mut found, mut searched_to) = ([0; STREAMS], [0; STREAMS]);
    let mut last = [0; STREAMS];
    // Nothing ends before the last readout has.
    bench.readouts[0].found.take().unwrap().finish();
    bench.step_until(|bench| bench.readouts[0].end.has_ended());
    assert!(!bench.builder.has_ended());
    bench.readouts[1].found.take().unwrap().finish();
    let mut is_stopped = false;
    loop {
        bench.step().unwrap();
        if bench.builder.has_ended() && !std::mem::replace(&mut is_stopped, true) {
            bench.builder.stop();
        }
        let received = bench.trigger.receive(Duration::ZERO, |batch| {
            for (segment, items) in batch.segments() {
                let stream = segment.stream as usize;
                for item in items {
                    // Nothing comes that was said to have been searched; of a part of a segment that is not said yet.
                    let time = item.time_start();
                    assert!(time > last[stream] && time >= searched_to[stream]);
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
    for (stream, frames) in [(0, 12), (1, 12), (2, 0)] {
        assert_eq!(bench.copies[stream].frames.get(), frames);
    }
    assert_eq!(bench.copies[1].settled_timestamp.get(), 13);

    bench.readouts.iter_mut().for_each(|far| far.land(0..100));
    // More than fits one message.
    let answers = bench.ask(9, Window { begin: STEP, end: 90 * STEP }, Duration::ZERO);
    for (stream, answer) in answers.iter().enumerate() {
        assert_eq!((answer.number, answer.stream, answer.error_bits), (9, stream, 0));
        let firsts: Vec<u8> = answer.frames.chunks(FRAME_BYTES).map(|frame| frame[0]).collect();
        let place = u64::from(stream == 2);
        let expected: Vec<u8> = (1..90).map(|frame| (frame * 3 + place) as u8).collect();
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
    bench.step_until(|bench| bench.readouts.iter().all(|far| far.end.is_done()));
    let accounts = bench.readouts[0].end.accounts();
    assert_eq!((lost(&accounts.items), lost(&accounts.fragments)), ((16_000, 0), (6, 0)));
}

#[test]
fn a_readout_of_another_configuration_is_refused() {
    let mut bench = Bench::of(STREAMS);
    bench.readouts.push(Far::new(WELCOMING.digest + 1, 1, SHARES[0]));
    bench.join();
    let error = loop {
        if let Err(error) = bench.step() {
            break error;
        }
    };
    assert_eq!(error, LinkError::Refused(Refusal::Configuration));
    let refusal = Refusal::Configuration;
    assert_eq!(bench.events, [Event::Refused { streams: vec![], refusal }]);
}

#[test]
fn what_no_builder_takes_is_counted_and_a_later_one_goes_on() {
    let mut bench = Bench::new();
    let now_ns = bench.now_ns();
    bench.readouts[0].find(now_ns, 0, 10, 1000);
    bench.readouts[0].flush();
    let accounts = bench.readouts[0].end.accounts();
    bench.step_until(|_| accounts.items.delivered() == 10);
    // The builder goes away while messages are under way.
    bench.readouts.iter_mut().for_each(|far| far.land(0..10));
    let (next, windows, trigger, copies) = builder(STREAMS);
    bench.builder = next;
    (bench.windows, bench.trigger, bench.copies) = (Some(windows), trigger, copies);
    let begin = bench.begin;
    let now_ns = || begin.elapsed().as_nanos() as u64;
    for far in &mut bench.readouts {
        let mut link = far.link.take().unwrap();
        for round in 0..3 {
            far.find(now_ns(), 0, 7, 2000 + round * 100);
            far.flush();
            let _gone = far.end.step(now_ns(), &mut link, Duration::ZERO);
        }
        while far.end.step(now_ns(), &mut link, Duration::ZERO).is_ok() {}
        far.end.leave();
        far.find(now_ns(), 0, 5, 3000);
        far.flush();
        (0..10).for_each(|_| far.end.lose(Duration::ZERO));
    }
    assert_eq!(lost(&accounts.items), (10, 26));
    // Meanwhile its streams count as such that never came.
    let answers = bench.ask(1, Window { begin: 0, end: STEP }, Duration::from_secs(3600));
    assert!(answers.iter().all(|answer| answer.error_bits == error_bits::DATA_NOT_FOUND));

    bench.join();
    bench.step_until(Bench::is_whole);
    let answers = bench.ask(2, Window { begin: 0, end: STEP }, Duration::ZERO);
    assert!(
        answers.iter().all(|answer| answer.error_bits == 0 && answer.frames.len() == FRAME_BYTES)
    );
    bench.readouts[0].find(now_ns(), 2, 3, 4000);
    bench.readouts[0].flush();
    bench.step_until(|_| accounts.items.delivered() == 13);
}

#[test]
fn a_readout_that_is_gone_disturbs_no_other_and_goes_on_counting_when_it_is_back() {
    let mut bench = Bench::new();
    let count = |status: &StreamStatus, frames: Range<u64>| {
        status.frames.set(frames.end - frames.start);
        status.first_timestamp.set(frames.start * STEP);
        status.newest_timestamp.set((frames.end - 1) * STEP);
    };
    count(&bench.readouts[1].statuses[0], 10..20);
    bench.readouts.iter_mut().for_each(|far| far.land(0..10));
    bench.step_until(|bench| bench.copies[1].frames.get() == 10);
    // It is killed while a window is asked of it, which is then answered at once.
    let mut windows = bench.windows.take().unwrap();
    let window = Window { begin: 5 * STEP, end: 12 * STEP };
    let hour_ns = 3600 * SECOND_NS;
    windows.ask(1, DataRequest::new(window, bench.now_ns() + hour_ns));
    (0..100).for_each(|_| bench.step().unwrap());
    bench.readouts[1].link = None;
    let mut answers = Vec::new();
    while answers.is_empty() {
        bench.step().unwrap();
        windows.poll(bench.now_ns(), &mut |answer| answers.push(answer));
    }
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].error_bits, error_bits::DATA_NOT_FOUND);
    assert!(answers[0].stream == 1 && answers[0].unreachable, "{answers:?}");
    assert_eq!(bench.copies.iter().map(|copy| copy.stalled.get()).collect::<Vec<_>>(), [0, 1, 0]);
    let Some(Event::Left { streams, .. }) = bench.events.last() else {
        panic!("{:?}", bench.events)
    };
    assert_eq!(streams, SHARES[1]);
    // The other one still answers.
    bench.readouts[0].land(10..20);
    while answers.len() < STREAMS {
        bench.step().unwrap();
        windows.poll(bench.now_ns(), &mut |answer| answers.push(answer));
    }
    assert!(answers[1..].iter().all(|answer| answer.error_bits == 0 && answer.stream != 1));
    bench.windows = Some(windows);
    let answers = bench.ask(2, Window { begin: 0, end: STEP }, Duration::from_secs(3600));
    let bits: Vec<_> = answers.iter().map(|answer| answer.error_bits).collect();
    assert_eq!(bits, [0, error_bits::DATA_NOT_FOUND, 0]);
    assert!(answers[1].unreachable);

    // It comes back, and has forgotten all.
    bench.readouts[1] = Far::new(WELCOMING.digest, 2, SHARES[1]);
    bench.readouts[1].link = Some(bench.come());
    bench.step_until(Bench::is_whole);
    count(&bench.readouts[1].statuses[0], 24..30);
    bench.step_until(|bench| bench.copies[1].frames.get() == 16);
    let copy = &bench.copies[1];
    assert_eq!((copy.missing.get(), copy.stalled.get()), (4, 0));
    assert_eq!(copy.first_timestamp.get(), 10 * STEP);
}

#[test]
fn a_stream_belongs_to_one_readout() {
    let mut bench = Bench::new();
    // It waits, since the other one may be gone, and is then refused.
    let mut second = bench.greet(2, &[Span { first: 1, streams: 2 }]);
    (0..100).for_each(|_| bench.step().unwrap());
    assert!(!second.receive(&mut Vec::new()));
    bench.ahead_ns += WELCOMING.patience_ns;
    let heard = bench.hear(&mut second);
    assert!(matches!(Message::parse(&heard), Ok(Message::Refused(Refusal::Streams))));
    let refusal = Refusal::Streams;
    assert_eq!(bench.events.last(), Some(&Event::Refused { streams: vec![1, 2], refusal }));
    // One whose streams become free meanwhile takes them over.
    let mut third = bench.greet(3, &[Span { first: 1, streams: 1 }]);
    (0..100).for_each(|_| bench.step().unwrap());
    bench.readouts[1].link = None;
    let heard = bench.hear(&mut third);
    assert!(matches!(Message::parse(&heard), Ok(Message::Welcome { run: 5 })));
    // No streams, streams twice, and such that there are not.
    for spans in [
        &[][..],
        &[Span { first: 1, streams: 0 }],
        &[Span { first: 1, streams: 1 }, Span { first: 1, streams: 1 }],
        &[Span { first: 2, streams: 2 }],
        &[Span { first: 2, streams: u32::MAX }],
    ] {
        let mut odd = bench.greet(4, spans);
        let heard = bench.hear(&mut odd);
        assert!(matches!(Message::parse(&heard), Ok(Message::Refused(Refusal::Streams))));
    }
}

#[test]
fn the_first_readout_waits_for_the_others_but_not_for_ever() {
    let mut bench = Bench::of(STREAMS);
    let mut first = bench.greet(1, &[Span { first: 0, streams: 2 }]);
    (0..100).for_each(|_| bench.step().unwrap());
    assert!(!first.receive(&mut Vec::new()) && bench.events.is_empty());
    bench.ahead_ns += WELCOMING.gather_ns;
    bench.hear(&mut first);
    assert_eq!(bench.events, [Event::Joined { streams: vec![0, 1] }]);
    assert!(bench.builder.presence().has(1) && !bench.builder.presence().has(2));
    // Who comes later need not wait.
    let mut second = bench.greet(1, &[Span { first: 2, streams: 1 }]);
    bench.hear(&mut second);
    assert!(bench.builder.presence().is_whole());
}

#[test]
fn one_that_ends_before_the_others_stays_for_a_while() {
    let mut bench = Bench::new();
    bench.readouts.iter_mut().for_each(|far| far.land(0..10));
    bench.readouts[0].found.take().unwrap().finish();
    bench.step_until(|bench| bench.readouts[0].end.has_ended());
    (0..100).for_each(|_| bench.step().unwrap());
    let answers = bench.ask(1, Window { begin: 0, end: STEP }, Duration::ZERO);
    assert!(answers.iter().all(|answer| answer.error_bits == 0));
    // It waits for no frame any more.
    let mut windows = bench.windows.take().unwrap();
    let behind = Window { begin: 20 * STEP, end: 21 * STEP };
    let hour_ns = 3600 * SECOND_NS;
    windows.ask(2, DataRequest::new(behind, bench.now_ns() + hour_ns));
    let mut answers = Vec::new();
    while answers.len() < SHARES[0].len() {
        bench.step().unwrap();
        windows.poll(bench.now_ns(), &mut |answer| answers.push(answer));
    }
    assert!(answers.iter().all(|answer| answer.stream != 1 && !answer.unreachable));
    // However much is asked, it may go then, and knows of each answer that it was taken.
    bench.ahead_ns += WELCOMING.gather_ns;
    let accounts = bench.readouts[0].end.accounts();
    let mut number = 3;
    while !bench.readouts[0].end.is_done() {
        windows.ask(number, DataRequest::new(behind, bench.now_ns() + hour_ns));
        bench.step().unwrap();
        number += 1;
    }
    bench.readouts[0].end.leave();
    let (delivered, dropped) = lost(&accounts.fragments);
    assert!(delivered >= 4 && dropped == 0, "{delivered}, {dropped}");
    assert!(!bench.readouts[1].end.is_done() && !bench.builder.is_over());
    bench.readouts[0].link = None;
    bench.step_until(|bench| !bench.builder.presence().has(0));
    assert_eq!(bench.copies[0].stalled.get(), 0, "it has ended");
    windows.close();
    let mut answers = Vec::new();
    while answers.len() < (number as usize - 3) * STREAMS + 1 {
        bench.step().unwrap();
        windows.poll(bench.now_ns(), &mut |answer| answers.push(answer));
    }
    assert!(answers.iter().all(|answer| !answer.unreachable), "it lacks nothing that there was");
    bench.windows = Some(windows);
    // The last one stays until nobody asks.
    bench.readouts[1].found.take().unwrap().finish();
    bench.step_until(|bench| bench.builder.has_ended());
    bench.ahead_ns += 2 * WELCOMING.gather_ns;
    (0..100).for_each(|_| bench.step().unwrap());
    assert!(!bench.readouts[1].end.is_done());
}

#[test]
fn there_are_no_more_readouts_than_a_builder_takes() {
    let mut bench = Bench::of(READOUTS_MAX + 1);
    let mut readouts: Vec<_> = (0..READOUTS_MAX as u32)
        .map(|first| {
            assert!(bench.builder.has_room());
            bench.greet(1, &[Span { first, streams: 1 }])
        })
        .collect();
    let last = Span { first: READOUTS_MAX as u32, streams: 1 };
    let mut more = bench.greet(1, &[last]);
    let heard = bench.hear(&mut more);
    assert!(matches!(Message::parse(&heard), Ok(Message::Refused(Refusal::Full))));
    readouts.pop();
    bench.step_until(|bench| matches!(bench.events.last(), Some(Event::Left { .. })));
    let mut again = bench.greet(1, &[last]);
    bench.ahead_ns += WELCOMING.gather_ns;
    let heard = bench.hear(&mut again);
    assert!(matches!(Message::parse(&heard), Ok(Message::Welcome { .. })));
}

#[test]
fn who_says_nothing_is_let_go() {
    let mut bench = Bench::new();
    let mut silent = Vec::new();
    while bench.builder.has_room() {
        silent.push(bench.come());
    }
    assert!(silent.len() > 1);
    bench.ahead_ns += WELCOMING.patience_ns + SECOND_NS;
    bench.step().unwrap();
    assert!(bench.builder.has_room() && bench.is_whole());
    assert!(matches!(bench.events.last(), Some(Event::Strange(LinkError::Message(_)))));
}

#[test]
fn what_no_readout_says_ends_its_link_and_no_other() {
    let mut figures = Vec::new();
    write_figures(&mut figures, 2, [0; StreamStatus::WORDS].into_iter());
    let mut fragment = Vec::new();
    Message::Fragment(Fragment {
        number: 1,
        stream: 1,
        error_bits: 0,
        whole: 0,
        place: 0,
        bytes: b"",
    })
    .write(&mut fragment);
    let mut items = Vec::new();
    let segment =
        gannet_wire::readout_link::Segment { stream: 0, items: 1, searched_to: 1, age_ns: 0 };
    let found = [TriggerPrimitive::INVALID];
    gannet_wire::readout_link::write_items(&mut items, [segment].into_iter(), found.iter());
    let mut welcome = Vec::new();
    Message::Welcome { run: 1 }.write(&mut welcome);
    for (what, message) in [
        ("no message", b"nonsense".to_vec()),
        ("figures of another readout's stream", figures),
        ("an answer that nobody asked for", fragment),
        ("items of another readout's stream", items),
        ("what a builder says", welcome),
    ] {
        let mut bench = Bench::new();
        bench.readouts[0].land(0..10);
        let mut link = bench.readouts[1].link.take().unwrap();
        bench.say(&mut link, &message);
        while bench.builder.presence().is_whole() {
            bench.step().unwrap();
            let _gone = link.step(bench.now_ns());
        }
        let last = bench.events.last();
        let Some(Event::Left { streams, error: LinkError::Message(_) }) = last else {
            panic!("{what}: {last:?}")
        };
        assert_eq!(streams, SHARES[1], "{what}");
        let answers = bench.ask(2, Window { begin: 0, end: STEP }, Duration::ZERO);
        assert_eq!((answers[0].error_bits, answers[2].error_bits), (0, 0), "{what}");
    }
}
