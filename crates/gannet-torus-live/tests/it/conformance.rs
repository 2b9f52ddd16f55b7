//! What every port promises.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

use gannet_measure::testing::skipped;
use gannet_torus_live::Port;
use gannet_torus_live::memory;
use gannet_torus_live::udp::UdpPort;
use gannet_wire::neighbour::{HostId, Identity, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::interfaces;

type Pair = (Box<dyn Port + Send>, Box<dyn Port + Send>);

pub fn over_memory() -> Pair {
    let (a, b) = memory::cable(8972, 64).unwrap();
    (Box::new(a), Box::new(b))
}

/// Two addresses of this host at which nobody else is: each process has a net of its own of those that loop back.
pub fn addresses() -> [SocketAddr; 2] {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [low, high, ..] = std::process::id().to_le_bytes();
    let host = Ipv4Addr::new(127, high, low, 1);
    [(); 2].map(|()| (host, NEXT.fetch_add(1, Ordering::Relaxed)).into())
}

pub fn over_udp() -> Pair {
    let [a, b] = addresses();
    (Box::new(UdpPort::open(a, b).unwrap()), Box::new(UdpPort::open(b, a).unwrap()))
}

/// Two interfaces that have met.
fn over_interfaces() -> Pair {
    let [mut a, mut b] = interfaces::cable().unwrap().map(|end| Box::new(end.open()));
    let begin = Instant::now();
    let (mut heard_a, mut heard_b) = (false, false);
    while !(heard_a && heard_b) {
        assert!(begin.elapsed() < Duration::from_secs(60), "{heard_a} {heard_b}");
        // While the kernel looks whether another has its address, nothing can be sent.
        let _sent = [&mut a, &mut b].map(|port| port.send(&call(), call().len()));
        std::thread::sleep(Duration::from_millis(20));
        while !a.receive(&mut |_| heard_a = true).unwrap() {}
        while !b.receive(&mut |_| heard_b = true).unwrap() {}
    }
    a.confirm();
    b.confirm();
    (a, b)
}

/// A kind of port, by name, and what makes two ends of a cable of it.
type Kind = (&'static str, fn() -> Pair);

fn kinds() -> Vec<Kind> {
    let mut kinds: Vec<Kind> = vec![("memory", over_memory), ("udp", over_udp)];
    match interfaces::cable() {
        Ok(_) => kinds.push(("interfaces", over_interfaces)),
        Err(why) => skipped("a cable between interfaces", &why),
    }
    kinds
}

/// A frame that tells which one it is.
fn frame(number: usize) -> Vec<u8> {
    vec![number as u8; 64 + number * 97 % 4000]
}

/// Sends a frame in a message of its own.
fn send_one(port: &mut dyn Port, frame: &[u8]) -> bool {
    port.send(frame, frame.len()).unwrap()
}

fn send(port: &mut dyn Port, mut numbers: std::ops::Range<usize>) -> bool {
    numbers.all(|number| send_one(port, &frame(number)))
}

/// Frames that come within a second, until there are `count`.
fn receive(port: &mut dyn Port, count: usize) -> Vec<Vec<u8>> {
    let (mut frames, begin) = (Vec::new(), Instant::now());
    while frames.len() < count && begin.elapsed() < Duration::from_secs(5) {
        port.receive(&mut |frame| frames.push(frame.to_vec())).unwrap();
    }
    frames
}

#[test]
fn frames_come_whole_and_in_order() {
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        for round in 0..20 {
            let numbers = 30 * round..30 * round + 30;
            assert!(send(&mut *a, numbers.clone()), "{name}");
            let got = receive(&mut *b, 30);
            assert!(got.into_iter().eq(numbers.map(frame)), "{name}, round {round}");
        }
        assert!(receive_now(&mut *b).is_empty() && receive_now(&mut *a).is_empty(), "{name}");
    }
}

fn receive_now(port: &mut dyn Port) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    assert!(port.receive(&mut |frame| frames.push(frame.to_vec())).unwrap());
    frames
}

#[test]
fn the_longest_frame_passes() {
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        assert_eq!(a.frame_bytes(), b.frame_bytes(), "{name}");
        let length = a.frame_bytes();
        assert!((0..2).all(|_| send_one(&mut *a, &vec![1; length])), "{name}");
        let lengths: Vec<usize> = receive(&mut *b, 2).iter().map(Vec::len).collect();
        assert_eq!(lengths, [length; 2], "{name}");
    }
}

#[test]
fn frames_that_are_sent_at_once_come_one_by_one() {
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        let length = a.frame_bytes().min(900);
        let most = a.at_once().frames.min(a.at_once().bytes / length).max(1);
        for count in 1..=most {
            let bytes: Vec<u8> = (0..count * length).map(|at| (at / length) as u8 + 1).collect();
            // The last one may be shorter.
            for bytes in [&bytes[..], &bytes[..bytes.len() - 7]] {
                assert!(a.send(bytes, length).unwrap(), "{name}, {count} frames");
                let sent: Vec<_> = bytes.chunks(length).collect();
                assert_eq!(receive(&mut *b, count), sent, "{name}, {count} frames");
            }
        }
    }
}

#[test]
fn a_full_window_loses_nothing() {
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        let count = b.window_bytes() / b.frame_bytes();
        let frame = vec![1; a.frame_bytes()];
        (0..count).for_each(|_| while !send_one(&mut *a, &frame) {});
        assert_eq!(receive(&mut *b, count).len(), count, "{name}");
    }
}

#[test]
fn who_waits_is_woken_by_a_frame_and_not_without() {
    let is_readable = |port: &dyn Port, ms: i64| {
        let mut descriptors = [PollFd::from_borrowed_fd(port.descriptor(), PollFlags::IN)];
        let wait = Timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
        poll(&mut descriptors, Some(&wait)).unwrap() > 0
    };
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        assert!(!is_readable(&*b, 1), "{name}");
        send(&mut *a, 0..3);
        assert!(is_readable(&*b, 900), "{name}");
        assert_eq!(receive(&mut *b, 3).len(), 3, "{name}");
        assert!(!is_readable(&*b, 1), "{name}");
    }
}

#[test]
fn frames_of_strangers_are_counted_and_dropped() {
    let [a, b] = addresses();
    let mut port = UdpPort::open(a, b).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    (0..5).for_each(|_| _ = stranger.send_to(&[7; 100], a).unwrap());
    let mut other = UdpPort::open(b, a).unwrap();
    send(&mut other, 0..1);
    assert_eq!(receive(&mut port, 1).len(), 1);
    while port.strangers() < 5 {}
    assert_eq!(port.strangers(), 5);
}

#[test]
fn a_port_whose_other_end_is_not_there_goes_on() {
    let [a, b] = addresses();
    let mut port = UdpPort::open(a, b).unwrap();
    for _ in 0..3 {
        // The system tells that nobody listens, once for each.
        let _ = port.send(&[1], 1);
        assert!(receive_now(&mut port).is_empty());
    }
    let mut other = UdpPort::open(b, a).unwrap();
    while !port.send(&[1], 1).is_ok_and(|took_all| took_all) {}
    assert!(!receive(&mut other, 1).is_empty());
}

/// A call from one end to the other.
pub fn call() -> Vec<u8> {
    let mut room = vec![0; 1000];
    let call = Message::Call(Identity { host: HostId(1), ..Identity::default() });
    let length = call.emit(&mut room).unwrap();
    room.truncate(length);
    room
}
