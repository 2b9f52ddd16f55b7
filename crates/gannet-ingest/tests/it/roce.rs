//! What goes by RDMA WRITE over real sockets.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::roce::{RoceConfig, RoceSink, RoceSource, RoceTarget};
use gannet_ingest::udp::UdpSinkConfig;
use gannet_ingest::{Datagram, Landing, Sink, Source, SourceDrop};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::ledger::Reason;
use gannet_measure::random::Random;
use gannet_measure::testing::skipped;
use gannet_wire::roce::invariant_crc::Path;
use gannet_wire::roce::{Opcode, Packet, Repr, Write};
use gannet_wire::{ipv4, udp};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket};

const QUEUE_PAIR: u32 = 17;
const KEY: u32 = 0x0bad_cafe;

fn target(cell_bytes: u64, cells: u64) -> RoceTarget {
    RoceTarget { queue_pair: QUEUE_PAIR, key: KEY, start: 1 << 40, cell_bytes, cells }
}

/// Bytes of the pattern that messages are cut out of.
const PATTERN: usize = 1 << 20;
/// Bytes of message `number`, in the pattern.
fn part(number: u64) -> std::ops::Range<usize> {
    let mut random = Random::new(number);
    let start = random.below((PATTERN - Landing::LENGTH_MAX) as u64) as usize;
    start..start + 1 + random.below(Landing::LENGTH_MAX as u64) as usize
}

#[test]
fn a_gibibyte_arrives_exact() {
    let long = std::env::var_os("GANNET_LONG").is_some();
    let bytes = if long { 1 << 30 } else { 8 << 20 };
    let mut random = Random::new(14);
    let pattern: Vec<u8> = (0..PATTERN).map(|_| random.below(256) as u8).collect();

    let mut config = RoceConfig::new("127.0.0.1:0".parse().unwrap(), vec![QUEUE_PAIR], KEY);
    config.start = 1 << 40;
    let landing = Landing { lengths: 1..=Landing::LENGTH_MAX, cells: 1 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = RoceSource::open(&config, landing, &clock).unwrap();
    source.start().unwrap();
    let target = target(Landing::LENGTH_MAX as u64, source.landed().facts().cells);
    let mut sink = RoceSink::connect(source.address(), target, &UdpSinkConfig::default()).unwrap();

    let (mut arrived, mut number) = (0, 0);
    while arrived < bytes {
        let body = &pattern[part(number)];
        assert_eq!(sink.send(&[Datagram { header: &[], body }]).unwrap().datagrams, 1);
        let came = (0..100).any(|_| source.poll(Duration::from_millis(20)).unwrap() > 0);
        assert!(
            came,
            "message {number} of {} bytes is lost: {:?}",
            body.len(),
            source.landed().account()
        );
        let landed = source.landed();
        let [arrival] = landed.arrivals() else { panic!("message {number} came twice") };
        let message = landed.producer().bytes(arrival.cell, arrival.len as usize);
        assert!(message == body, "message {number} is another");
        (arrived, number) = (arrived + body.len() as u64, number + 1);
    }
    let statement = source.landed().account().statement("source");
    assert_eq!((statement.offered, statement.delivered), (number, number));
}

#[test]
fn check_sums_are_of_the_packets_that_leave() {
    let test = "check_sums_are_of_the_packets_that_leave";
    let wire = match socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::UDP)) {
        Ok(wire) => wire,
        Err(error) => return skipped(test, format!("no raw socket: {error}")),
    };
    let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(to) = receiver.local_addr().unwrap() else { panic!("not IPv4") };
    let config = UdpSinkConfig { coalesce: false, ..UdpSinkConfig::default() };
    let mut sink = RoceSink::connect(to, target(9000, 4), &config).unwrap();
    let frame = [7; 9000];
    let frames = [Datagram { header: &[], body: &frame }; 3];
    assert_eq!(sink.send(&frames).unwrap().datagrams, 3);

    // It hears all datagrams of this machine, and when tests beside it send many it drops some.
    let wait = Duration::from_millis(200);
    set_socket_timeout(&wire, Timeout::Recv, Some(wait)).unwrap();
    let (mut buffer, mut packets, mut again) = ([0; 1 << 16], 0, 0);
    let begin = Instant::now();
    while packets < 9 {
        if begin.elapsed() > wait * (again + 1) {
            assert!(again < 100, "{packets} packets in {:?}", begin.elapsed());
            sink.send(&frames).unwrap();
            again += 1;
        }
        let len = match recv(&wire, &mut buffer[..], RecvFlags::empty()) {
            Ok((len, _)) => len,
            Err(Errno::AGAIN) => continue,
            Err(error) => panic!("{error}"),
        };
        let ip = ipv4::Packet::new_checked(&buffer[..len]).unwrap();
        let datagram = udp::Datagram::new_checked(ip.payload()).unwrap();
        if datagram.destination_port() != to.port() {
            continue;
        }
        let payload = datagram.payload();
        let path = Path {
            source: SocketAddrV4::new(ip.source(), datagram.source_port()),
            destination: to,
            identification: ip.identification(),
            do_not_fragment: ip.dont_fragment(),
        };
        let packet = Packet::new_checked(payload).unwrap();
        assert_eq!(packet.crc(), path.crc(&payload[..payload.len() - 4]), "{path:?}");
        packets += 1;
    }
}

#[test]
fn a_sender_is_told_that_nobody_listens() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let SocketAddr::V4(to) = nobody else { panic!("not IPv4") };
    let mut sink = RoceSink::connect(to, target(9000, 4), &UdpSinkConfig::default()).unwrap();
    let frame = [7; 100];
    let refused = (0..10).map(|_| {
        thread::sleep(Duration::from_millis(1));
        sink.send(&[Datagram { header: &[], body: &frame }]).unwrap().refused
    });
    assert!(refused.sum::<u64>() > 0);
}

/// Bytes of each message of a test of what is refused.
const LEN: usize = 100;

/// A packet with a whole message, from and to addresses of sockets.
fn whole(path: &Path, queue_pair: u32, key: u32, sequence: u32) -> Vec<u8> {
    let write = Write { address: 1 << 40, key, length: LEN as u32 };
    let repr = Repr { queue_pair, sequence, write, data_len: LEN, ..Repr::new(Opcode::WriteOnly) };
    let mut packet = vec![0; repr.buffer_len()];
    repr.seal(path, &mut packet);
    packet
}

#[test]
fn a_packet_is_refused_once_and_by_its_headers_before_its_check_sum() {
    let mut config = RoceConfig::new("127.0.0.1:0".parse().unwrap(), vec![QUEUE_PAIR], KEY);
    config.start = 1 << 40;
    let landing = Landing { lengths: LEN..=LEN, cells: 1 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = RoceSource::open(&config, landing, &clock).unwrap();
    source.start().unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let SocketAddr::V4(own) = sender.local_addr().unwrap() else { panic!("not IPv4") };
    let path = Path::of_socket(own, source.address());
    let good = |sequence| whole(&path, QUEUE_PAIR, KEY, sequence);
    let damaged = |mut packet: Vec<u8>| {
        packet[60] ^= 0x10;
        packet
    };
    // Packets, and why each is not taken.
    let packets = [
        // The first with the key has the queue pair, and this is none.
        (damaged(good(500)), Some(SourceDrop::BadCheckSum)),
        (good(7), None),
        (damaged(whole(&path, QUEUE_PAIR + 1, KEY, 8)), Some(SourceDrop::WrongQueuePair)),
        (whole(&path, QUEUE_PAIR + 1, KEY, 8), Some(SourceDrop::WrongQueuePair)),
        (damaged(whole(&path, QUEUE_PAIR, KEY ^ 1, 8)), Some(SourceDrop::WrongKey)),
        (damaged(good(7)), Some(SourceDrop::OutOfTurn)),
        // Had it moved the numbers on, there would be 92 missing, and the next late.
        (damaged(good(100)), Some(SourceDrop::BadCheckSum)),
        (good(8), None),
    ];
    let counted = |source: &RoceSource| -> Vec<u64> {
        let account = source.landed().account();
        SourceDrop::ALL.iter().map(|reason| account.dropped(*reason)).collect()
    };
    for (number, (packet, reason)) in packets.iter().enumerate() {
        let mut expected = counted(&source);
        let place = SourceDrop::ALL.iter().position(|one| Some(*one) == *reason);
        if let Some(place) = place {
            expected[place] += 1;
        }
        sender.send_to(packet, source.address()).unwrap();
        let mut arrived = 0;
        let came = (0..100).any(|_| {
            arrived += source.poll(Duration::from_millis(20)).unwrap();
            arrived > 0 || counted(&source) == expected && reason.is_some()
        });
        assert!(came, "packet {number} is neither taken nor counted for {reason:?}");
        assert_eq!(arrived, usize::from(reason.is_none()), "packet {number}");
        assert_eq!(counted(&source), expected, "packet {number}");
    }
}
