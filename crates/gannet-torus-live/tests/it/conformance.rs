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
        let _sent = (a.send(&mut call()), b.send(&mut call()));
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
fn fill(room: &mut [u8], number: usize) -> usize {
    let length = (64 + number * 97 % 4000).min(room.len());
    room[..length].fill(number as u8);
    length
}

fn send(port: &mut dyn Port, numbers: std::ops::Range<usize>) -> bool {
    let mut numbers = numbers;
    port.send(&mut |room| numbers.next().map_or(0, |number| fill(room, number))).unwrap()
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
            let mut room = vec![0; b.frame_bytes()];
            let sent = numbers.map(|number| {
                let length = fill(&mut room, number);
                room[..length].to_vec()
            });
            assert!(got.into_iter().eq(sent), "{name}, round {round}");
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
        let mut left = 3;
        let sent = a.send(&mut |room| {
            assert!(room.len() >= length, "{name}");
            left -= 1;
            if left > 0 { length } else { 0 }
        });
        assert!(sent.unwrap());
        let lengths: Vec<usize> = receive(&mut *b, 2).iter().map(Vec::len).collect();
        assert_eq!(lengths, [length; 2], "{name}");
    }
}

#[test]
fn a_full_window_loses_nothing() {
    for (name, pair) in kinds() {
        let (mut a, mut b) = pair();
        let count = b.window_bytes() / b.frame_bytes();
        let mut left = count;
        let length = a.frame_bytes();
        while left > 0 {
            a.send(&mut |room| {
                let is_one = left > 0;
                left -= usize::from(is_one);
                if is_one { fill(room, left).max(length) } else { 0 }
            })
            .unwrap();
        }
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
    assert_eq!(port.strangers(), 5);
}

#[test]
fn a_port_whose_other_end_is_not_there_goes_on() {
    let [a, b] = addresses();
    let mut port = UdpPort::open(a, b).unwrap();
    for _ in 0..3 {
        // The system tells that nobody listens, once for each.
        let _ = port.send(&mut one());
        assert!(receive_now(&mut port).is_empty());
    }
    let mut other = UdpPort::open(b, a).unwrap();
    while !port.send(&mut one()).is_ok_and(|took_all| took_all) {}
    assert!(!receive(&mut other, 1).is_empty());
}

/// A call from one end to the other, once.
pub fn call() -> impl FnMut(&mut [u8]) -> usize {
    let mut message = Some(Message::Call(Identity { host: HostId(1), ..Identity::default() }));
    move |room| message.take().map_or(0, |message| message.emit(room).unwrap())
}

fn one() -> impl FnMut(&mut [u8]) -> usize {
    let mut left = 1;
    move |room| {
        let is_one = left > 0;
        left -= usize::from(is_one);
        if is_one { fill(room, 1) } else { 0 }
    }
}
