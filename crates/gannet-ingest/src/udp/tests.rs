//! The engines against messages of every shape, and the policies at work on real sockets.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Bytes;
use gannet_measure::random::Random;

use super::intake::Intake;
use super::receiver::{UdpReceiver, arrivals_max};
use super::{AllowList, Engine, UdpConfig, UdpSource, open};
use crate::landed::Landed;
use crate::sink::Datagram;
use crate::source::{DropSizes, Landing, Source, SourceDrop};
use crate::sys::send::{SEGMENTS_MAX, SendBatch};
use crate::sys::socket::Socket;

const FRAME_LEN: usize = 1000;
const FRAMES: RangeInclusive<usize> = FRAME_LEN..=FRAME_LEN;
/// Lengths of datagrams that vary.
const VARIED: RangeInclusive<usize> = 300..=1500;

/// Sends messages that the kernel cuts into datagrams of any length.
struct Sender {
    socket: Socket,
    batch: SendBatch,
}

impl Sender {
    fn to(address: SocketAddr) -> Self {
        let socket = Socket::new(&address).unwrap();
        socket.connect(&address).unwrap();
        Self { socket, batch: SendBatch::new(None) }
    }

    /// Sends `message` in datagrams of `segment` bytes, the last perhaps shorter.
    fn send(&mut self, message: &[u8], segment: usize) {
        let segment = if segment < message.len() { segment } else { 0 };
        self.socket.set_segment_len(segment as u16).unwrap();
        let message = [Datagram { header: message, body: &[] }];
        assert_eq!(self.batch.send(&self.socket, &message, 1).unwrap(), 1);
    }
}

fn loopback() -> UdpConfig {
    UdpConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], ..UdpConfig::default() }
}

fn source(config: &UdpConfig, lengths: RangeInclusive<usize>) -> UdpSource {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = open(config, Landing { lengths, cells: 1 }, &clock).unwrap().remove(0);
    source.start().unwrap();
    source
}

/// A message of random bytes with the length of its datagrams.
fn message(random: &mut Random) -> (Vec<u8>, usize) {
    // Frames; frames and a short one; others, perhaps with a frame behind; one alone.
    let (segment, count) = match random.below(4) {
        0 => (FRAME_LEN, 1 + random.below(60)),
        1 => (FRAME_LEN, 1 + random.below(5)),
        2 => (FRAME_LEN + 1 + random.below(2000) as usize, 1 + random.below(10)),
        _ => (100 + random.below(800) as usize, 1 + random.below(10)),
    };
    let tail = match random.below(3) {
        0 if segment > FRAME_LEN => FRAME_LEN,
        1 => random.below(segment as u64) as usize,
        _ => 0,
    };
    let len = segment * count as usize + tail;
    ((0..len).map(|_| random.bits() as u8).collect(), segment)
}

/// What a receiver that gets every datagram alone would keep.
fn kept(
    message: &[u8],
    segment: usize,
    lengths: &RangeInclusive<usize>,
) -> impl Iterator<Item = Vec<u8>> {
    message.chunks(segment).filter(|it| lengths.contains(&it.len())).map(<[u8]>::to_vec)
}

fn taken(source: &UdpSource) -> impl Iterator<Item = Vec<u8>> {
    let producer = source.landed().producer();
    source
        .landed()
        .arrivals()
        .iter()
        .map(|arrival| producer.bytes(arrival.cell, arrival.len as usize).to_vec())
}

#[test]
fn messages_of_every_shape_give_their_datagrams() {
    let engines = [Engine::Recvmsg, Engine::Recvmmsg];
    for (engine, lengths) in engines.into_iter().flat_map(|it| [(it, FRAMES), (it, VARIED)]) {
        let mut source = source(&UdpConfig { engine, ..loopback() }, lengths.clone());
        let name = source.landed().facts().engine;
        let (mut sender, mut random) = (Sender::to(source.address()), Random::new(3));
        let (mut datagrams, mut landed) = (0, 0);
        for _ in 0..400 {
            let (message, segment) = message(&mut random);
            sender.send(&message, segment);
            let expected: Vec<_> = kept(&message, segment, &lengths).collect();
            let mut found = Vec::new();
            let due = datagrams + message.len().div_ceil(segment) as u64;
            while datagrams < due {
                source.poll(Duration::from_secs(1)).unwrap();
                found.extend(taken(&source));
                datagrams = source.landed().account().statement(name).offered;
            }
            assert!(found == expected, "{name}: {} of {segment}", message.len());
            landed += expected.len() as u64;
        }
        let account = source.landed().account();
        assert_eq!(account.delivered(), landed);
        assert_eq!(account.dropped(SourceDrop::WrongLength), datagrams - landed);
        assert!(account.statement(name).closes());
    }
}

/// A socket with its ring and the receiver by system calls, without the policies of a source.
fn calls(lengths: RangeInclusive<usize>) -> (Socket, Intake, UdpReceiver) {
    let address = "127.0.0.1:0".parse().unwrap();
    let socket = Socket::new(&address).unwrap();
    socket.set_receive_buffer(4 << 20).unwrap();
    socket.bind(&address).unwrap();
    let landing = Landing { lengths: lengths.clone(), cells: 1 };
    let landed = Landed::new(landing, arrivals_max(&lengths), "calls".into(), "calls").unwrap();
    (socket, Intake::new(landed, AllowList::new(&[])), UdpReceiver::new(lengths))
}

#[test]
fn coalesced_messages_are_taken_apart_when_singles_are_expected() {
    for told in [true, false] {
        let (socket, mut intake, mut receiver) = calls(FRAMES);
        socket.set_coalescing(true).unwrap();
        let mut sender = Sender::to(socket.local_address().unwrap());
        let mut random = Random::new(4);
        let sent: Vec<Vec<u8>> = (0..20)
            .map(|n| (0..FRAME_LEN * (1 + n % 7)).map(|_| random.bits() as u8).collect())
            .collect();
        sent.iter().for_each(|message| sender.send(message, FRAME_LEN));
        if !told {
            // The kernel keeps the messages whole but no longer tells how long their parts are.
            socket.set_coalescing(false).unwrap();
            intake.expect_residue(socket.queue().unwrap().used as usize, false);
        }
        let mut found = Vec::new();
        while !receiver.receive(&socket, &mut intake, false, Duration::ZERO).unwrap() {
            for arrival in intake.landed.arrivals() {
                found.extend_from_slice(intake.landed.producer.bytes(arrival.cell, FRAME_LEN));
            }
            intake.landed.clear();
        }
        assert!(found == sent.concat(), "told {told}");
        assert_eq!(intake.taken().messages, 20);
        assert!(intake.landed.account.statement("calls").closes());
    }
}

#[test]
fn what_was_coalesced_without_a_word_is_dropped_where_lengths_vary() {
    let (socket, mut intake, mut receiver) = calls(VARIED);
    socket.set_coalescing(true).unwrap();
    let mut sender = Sender::to(socket.local_address().unwrap());
    (0..10).for_each(|_| sender.send(&[1; 1200], 400));
    socket.set_coalescing(false).unwrap();
    intake.expect_residue(socket.queue().unwrap().used as usize, false);
    while !receiver.receive(&socket, &mut intake, false, Duration::ZERO).unwrap() {}
    intake.expect_residue(0, false);
    sender.send(&[2; 1200], 400);
    while !receiver.receive(&socket, &mut intake, false, Duration::ZERO).unwrap() {}
    let lens: Vec<u32> = intake.landed.arrivals().iter().map(|arrival| arrival.len).collect();
    assert_eq!(lens, [400; 3], "only what came afterwards");
    let Landed { account, counters, .. } = &intake.landed;
    assert_eq!(account.dropped(SourceDrop::KernelQueue), 10);
    assert_eq!(counters.unsized_drops.get(), 10);
    assert!(account.statement("calls").closes());
}

#[test]
fn where_lengths_vary_the_kernel_goes_on_coalescing() {
    for count_before_queue in [true, false] {
        let kernel_buffer = Bytes(400_000);
        let config = UdpConfig { count_before_queue, kernel_buffer, ..loopback() };
        let mut source = source(&config, VARIED);
        let (mut sender, counters) = (Sender::to(source.address()), source.landed().counters());
        // Singles, until they are taken many a call, and then more than the queue holds.
        while counters.coalescing_switches.get() < 1 {
            sender.send(&[0; 700], 700);
            assert_eq!(source.poll(Duration::from_secs(1)).unwrap(), 1);
        }
        (0..60).for_each(|_| sender.send(&[0; 40 * 700], 700));
        let before = source.landed().account().delivered();
        let mut taken = 0;
        while source.poll(Duration::ZERO).unwrap() > 0 {
            assert!(source.landed().arrivals().iter().all(|arrival| arrival.len == 700));
            taken += source.landed().arrivals().len() as u64;
        }
        assert_eq!(source.landed().account().delivered() - before, taken);
        assert!(taken >= 40 && taken.is_multiple_of(40), "{taken}: whole messages");
        source.part();
        // What is queued when the kernel is told to stop may be lost, and no more.
        for _ in 0..3 {
            sender.send(&[0; 10 * 700], 700);
            while source.poll(Duration::ZERO).unwrap() > 0 {}
        }
        let messages = counters.messages.get();
        sender.send(&[0; 10 * 700], 700);
        while source.poll(Duration::ZERO).unwrap() > 0 {}
        assert_eq!(counters.messages.get(), messages + 10, "each datagram alone");
    }
}

#[test]
fn coalescing_ends_when_it_does_not_pay_and_begins_again_when_it_does() {
    let mut source = source(&loopback(), FRAMES);
    if source.landed().facts().drop_sizes != DropSizes::Counted {
        let why = source.landed().facts().refusals.join("; ");
        return gannet_measure::testing::skipped("when coalescing ends and begins again", why);
    }
    let (mut sender, counters) = (Sender::to(source.address()), source.landed().counters());
    let until = Instant::now() + Duration::from_secs(20);
    for (segments, switches) in [(1, 1), (60, 2)] {
        let message = vec![0; FRAME_LEN * segments];
        while counters.coalescing_switches.get() < switches {
            assert!(Instant::now() < until, "{segments} segments: no switch");
            sender.send(&message, FRAME_LEN);
            assert!(source.poll(Duration::from_secs(1)).unwrap() > 0);
        }
    }
    let before = counters.messages.get();
    for _ in 0..200 {
        sender.send(&[0; 60 * FRAME_LEN], FRAME_LEN);
        source.poll(Duration::from_secs(1)).unwrap();
    }
    assert_eq!(counters.coalescing_switches.get(), 2);
    assert_eq!(counters.messages.get(), before + 200);
}

#[test]
fn without_counting_before_the_queue_coalescing_ends_before_the_queue_is_full() {
    let kernel_buffer = Bytes(400_000);
    let config = UdpConfig { count_before_queue: false, kernel_buffer, ..loopback() };
    let mut source = source(&config, FRAMES);
    let (mut sender, counters) = (Sender::to(source.address()), source.landed().counters());
    let mut send = |messages: u64| {
        (0..messages).for_each(|_| sender.send(&[0; 60 * FRAME_LEN], FRAME_LEN));
        60 * messages
    };
    let mut sent = send(11);
    source.poll(Duration::ZERO).unwrap();
    assert_eq!(counters.messages.get(), 1, "coalesced at first");
    assert_eq!(counters.coalescing_switches.get(), 1, "off in a storm");
    assert_eq!(
        source.landed().account().dropped(SourceDrop::KernelQueue),
        0,
        "before anything is lost"
    );
    // Now the queue overflows, and every drop is one datagram.
    sent += send(50);
    source.stop().unwrap();
    while !source.is_exhausted() {
        source.poll(Duration::ZERO).unwrap();
    }
    let account = source.landed().account().statement("source");
    assert!(account.closes() && account.dropped_total() > 0, "{account}");
    assert_eq!((account.offered, counters.unsized_drops.get()), (sent, 0), "{account}");
}

#[test]
fn what_is_no_frame_takes_no_cell() {
    let (socket, mut intake, mut receiver) = calls(FRAMES);
    let mut sender = Sender::to(socket.local_address().unwrap());
    let mut random = Random::new(5);
    for _ in 0..50 {
        let head = intake.landed.producer.head().0;
        let mut frames = Vec::new();
        for _ in 0..1 + random.below(60) {
            let len = if random.below(3) == 0 { random.below(900) as usize } else { FRAME_LEN };
            let datagram: Vec<_> = (0..len).map(|_| random.bits() as u8).collect();
            sender.send(&datagram, FRAME_LEN);
            if len == FRAME_LEN {
                frames.push(datagram);
            }
        }
        let mut found = Vec::new();
        while !receiver.receive(&socket, &mut intake, false, Duration::ZERO).unwrap() {
            for arrival in intake.landed.arrivals() {
                let frame = intake.landed.producer.bytes(arrival.cell, FRAME_LEN);
                found.push(frame.to_vec());
            }
            intake.landed.clear();
        }
        assert!(found == frames, "in the order of arrival");
        assert_eq!(intake.landed.producer.head().0, head + frames.len() as u64);
    }
    assert!(intake.landed.account.statement("calls").closes());
}

#[test]
fn a_message_of_many_datagrams_is_sent_as_one() {
    let (socket, mut intake, mut receiver) = calls(FRAMES);
    socket.set_coalescing(true).unwrap();
    let target = socket.local_address().unwrap();
    let sender = Socket::new(&target).unwrap();
    sender.connect(&target).unwrap();
    let body = [7; FRAME_LEN - 4];
    let headers: Vec<_> = (0..100u32).map(u32::to_le_bytes).collect();
    let frames: Vec<_> = headers.iter().map(|header| Datagram { header, body: &body }).collect();
    assert_eq!(SendBatch::new(None).send(&sender, &frames, SEGMENTS_MAX).unwrap(), 100);
    let mut found = 0;
    while found < 100 {
        receiver.receive(&socket, &mut intake, true, Duration::from_secs(1)).unwrap();
        for arrival in intake.landed.arrivals() {
            let frame = intake.landed.producer.bytes(arrival.cell, FRAME_LEN);
            assert_eq!((&frame[..4], &frame[4..]), (&headers[found][..], &body[..]));
            found += 1;
        }
        intake.landed.clear();
    }
    // 65507 / 1000 = 65, but at most 64 datagrams a message.
    assert_eq!(intake.taken().messages, 2);
}
