//! The account closes to the datagram, over real sockets, whatever is lost and however rudely
//! the source is started and stopped.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use gannet_ingest::udp::{self, Engine, Spread, UdpConfig, UdpSink, UdpSinkConfig, UdpSource};
use gannet_ingest::{Datagram, DropSizes, Error, Landing, Sink, Source, SourceDrop};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Bytes;

const FRAME_LEN: usize = 7200;
const LANDING: Landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 1 };
const WAIT: Duration = Duration::from_millis(20);

/// Engine, whether datagrams are counted before the queue, and what is then known about drops.
const VARIANTS: [(Engine, bool, DropSizes); 3] = [
    (Engine::Recvmsg, true, DropSizes::Counted),
    (Engine::Recvmsg, false, DropSizes::Unknown),
    (Engine::Recvmmsg, true, DropSizes::One),
];

fn loopback() -> UdpConfig {
    UdpConfig { listen: vec!["127.0.0.1:0".parse().unwrap()], ..UdpConfig::default() }
}

fn open(config: &UdpConfig) -> Vec<UdpSource> {
    try_open(config).unwrap()
}

fn try_open(config: &UdpConfig) -> Result<Vec<UdpSource>, Error> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    udp::open(config, LANDING, &clock)
}

/// Waits until a call that binds an address just given up succeeds: a process that another test
/// starts in this moment holds copies of all sockets until it runs its own program.
fn bound_again<T>(mut bind: impl FnMut() -> Result<T, Error>) -> T {
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        match bind() {
            Err(Error::Socket { cause, .. })
                if cause.kind() == ErrorKind::AddrInUse && Instant::now() < deadline =>
            {
                thread::sleep(Duration::from_millis(1));
            }
            other => return other.unwrap(),
        }
    }
}

/// Tests each configuration that this machine offers, under a name.
fn each_variant(kernel_buffer: Bytes, test: impl Fn(&str, UdpConfig)) {
    for (engine, count_before_queue, drop_sizes) in VARIANTS {
        let config = UdpConfig { engine, count_before_queue, kernel_buffer, ..loopback() };
        let facts = open(&config).remove(0).landed().facts().clone();
        if facts.drop_sizes == drop_sizes && facts.refusals.is_empty() {
            test(&format!("{} {drop_sizes:?}", facts.engine), config);
        } else {
            let what = format!("{engine:?} with drops {drop_sizes:?}");
            gannet_measure::testing::skipped(what, facts.refusals.join("; "));
        }
    }
}

/// Sends numbered frames until told to stop; returns how many.
fn send(target: SocketAddr, coalesce: bool, go_on: impl Fn(u64) -> bool) -> u64 {
    let config = UdpSinkConfig { coalesce, ..UdpSinkConfig::default() };
    let mut sink = UdpSink::connect(target, &config).unwrap();
    let body = vec![0xa5; FRAME_LEN - 8];
    let mut number = 0u64;
    while go_on(number) {
        let headers: Vec<_> = (number..number + 16).map(u64::to_le_bytes).collect();
        let frames: Vec<_> =
            headers.iter().map(|header| Datagram { header, body: &body }).collect();
        let sent = sink.send(&frames).unwrap();
        assert_eq!(sent.datagrams, 16, "the kernel takes all");
        assert_eq!(sent.bytes, 16 * FRAME_LEN as u64);
        number += 16;
    }
    number
}

/// Numbers of the frames of the last poll.
fn numbers(source: &dyn Source) -> impl Iterator<Item = u64> + '_ {
    source.landed().arrivals().iter().map(|arrival| {
        let frame = source.landed().producer().bytes(arrival.cell, FRAME_LEN);
        assert_eq!(frame[FRAME_LEN - 1], 0xa5);
        u64::from_le_bytes(*frame.first_chunk().unwrap())
    })
}

/// Stops the source and takes what is left; returns the numbers.
fn drain(source: &mut dyn Source) -> Vec<u64> {
    let mut left = Vec::new();
    source.stop().unwrap();
    while !source.is_exhausted() {
        source.poll(WAIT).unwrap();
        left.extend(numbers(source));
    }
    left
}

#[test]
fn every_datagram_of_an_overload_is_delivered_or_counted() {
    each_variant(Bytes(400_000), |name, config| {
        for coalesce in [true, false] {
            let mut source = open(&config).remove(0);
            overload(&format!("{name}, coalesced sending {coalesce}"), &mut source, coalesce);
        }
    });
}

/// A sender that does not care, and a receiver that takes a nap now and then.
fn overload(name: &str, source: &mut UdpSource, coalesce: bool) {
    source.start().unwrap();
    let target = source.address();
    let sender = thread::spawn(move || send(target, coalesce, |number| number < 6000));
    let (mut received, mut polls) = (Vec::new(), 0);
    while !sender.is_finished() {
        source.poll(Duration::from_millis(1)).unwrap();
        received.extend(numbers(source));
        polls += 1;
        if polls % 8 == 0 {
            thread::sleep(Duration::from_millis(2));
        }
    }
    received.extend(drain(source));
    let sent = sender.join().unwrap();
    let account = source.landed().account().statement(name);
    assert!(account.closes(), "{account}");
    assert_eq!(account.delivered, received.len() as u64, "{account}");
    assert!(received.is_sorted() && received.last() < Some(&sent), "{name}: out of order");
    let unsized_drops = source.landed().counters().unsized_drops.get();
    if unsized_drops == 0 {
        assert_eq!(account.offered, sent, "{account}");
    } else {
        // Perhaps known too low, and said so.
        assert!(account.offered <= sent, "{account}");
        assert_eq!(source.landed().facts().drop_sizes, DropSizes::Unknown);
        eprintln!("{name}: {unsized_drops} drops of unknown size");
    }
    assert!(account.dropped_total() > 0, "no overload: {account}");
}

#[test]
fn nothing_is_lost_between_a_start_under_traffic_and_a_stop_under_traffic() {
    each_variant(Bytes::mib(4), |name, config| {
        // Nobody else takes it while it is free: who asks for any port gets a higher one
        // (`net.ipv4.ip_local_port_range`).
        let port = 10_000 + (std::process::id() % 20_000) as u16;
        let address = SocketAddr::from(([127, 0, 0, 78], port));
        let over = Arc::new(AtomicBool::new(false));
        let sender = {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                let began = Instant::now();
                send(address, true, |number| {
                    // 100 k frames/s.
                    let due = Duration::from_micros(10 * number);
                    thread::sleep(due.saturating_sub(began.elapsed()));
                    !over.load(Ordering::Relaxed)
                })
            })
        };
        for _ in 0..10 {
            // The port is free again: the last source left nothing behind.
            let config = UdpConfig { listen: vec![address], ..config.clone() };
            start_and_stop(name, &mut bound_again(|| try_open(&config)).remove(0));
        }
        over.store(true, Ordering::Relaxed);
        sender.join().unwrap();
    });
}

fn start_and_stop(name: &str, source: &mut UdpSource) {
    source.start().unwrap();
    let (mut received, began) = (Vec::new(), Instant::now());
    while received.len() < 500 && began.elapsed() < Duration::from_secs(10) {
        source.poll(Duration::from_millis(1)).unwrap();
        received.extend(numbers(source));
    }
    received.extend(drain(source));
    let account = source.landed().account().statement(name);
    assert!(account.closes() && received.len() >= 500, "{account}");
    let span = received.last().unwrap() - received[0] + 1;
    let gaps = span - received.len() as u64;
    let dropped = source.landed().account().dropped(SourceDrop::KernelQueue);
    let is_exact = source.landed().counters().unsized_drops.get() == 0;
    assert!(gaps <= dropped || !is_exact, "{gaps} frames lost without a word: {account}");
}

#[test]
fn what_came_before_the_start_is_counted_and_not_delivered() {
    each_variant(Bytes::mib(4), |name, config| {
        for coalesce in [true, false] {
            let mut source = open(&config).remove(0);
            let early = send(source.address(), coalesce, |number| number < 800);
            source.start().unwrap();
            send(source.address(), coalesce, |number| number < 32);
            assert_eq!(drain(&mut source), (0..32).collect::<Vec<_>>(), "{name}");
            let account = source.landed().account();
            assert_eq!(account.dropped(SourceDrop::BeforeStart), early, "{name}");
            assert_eq!(account.statement(name).dropped_total(), early, "{name}");
            assert!(account.statement(name).closes());
        }
    });
}

#[test]
fn a_prepared_source_has_no_port_yet() {
    // An address that no other test listens at: the port stays free once it was given up.
    let alone = UdpConfig { listen: vec!["127.0.0.77:0".parse().unwrap()], ..loopback() };
    let other = open(&alone).remove(0);
    let config = UdpConfig { listen: vec![other.address()], ..UdpConfig::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let mut source = udp::prepare(&config, LANDING, None, &clock).unwrap().remove(0);
    assert_eq!(source.landed().facts().address, None);
    assert!(source.bind().is_err(), "the port is taken");
    drop(other);
    bound_again(|| source.bind());
    assert_eq!(source.landed().facts().address, Some(config.listen[0]));
}

#[test]
fn foreign_senders_are_counted_and_not_delivered() {
    each_variant(Bytes::mib(4), |name, config| {
        let friend = UdpSocket::bind("127.0.0.1:0").unwrap();
        let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
        let rule = friend.local_addr().unwrap().to_string().parse().unwrap();
        let mut source = open(&UdpConfig { allow: vec![rule], ..config }).remove(0);
        source.start().unwrap();
        for number in 0..50u64 {
            let mut frame = vec![0xa5; FRAME_LEN];
            frame[..8].copy_from_slice(&number.to_le_bytes());
            let socket = if number % 3 == 0 { &friend } else { &stranger };
            socket.send_to(&frame, source.address()).unwrap();
        }
        let expected: Vec<_> = (0..50).filter(|number| number % 3 == 0).collect();
        assert_eq!(drain(&mut source), expected, "{name}");
        let account = source.landed().account();
        assert_eq!(account.dropped(SourceDrop::ForeignAddress), 33, "{name}");
        assert!(account.statement(name).closes());
    });
}

#[test]
fn several_sockets_share_one_port() {
    let config = UdpConfig { sockets: 3, ..loopback() };
    let mut sources = open(&config);
    assert!(sources.iter().all(|source| source.address() == sources[0].address()));
    sources.iter_mut().for_each(|source| source.start().unwrap());
    let senders: Vec<_> = (0..32).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    for sender in &senders {
        sender.send_to(&[0xa5; FRAME_LEN], sources[0].address()).unwrap();
    }
    let received: Vec<_> = sources.iter_mut().map(|source| drain(source).len()).collect();
    assert_eq!(received.iter().sum::<usize>(), senders.len(), "{received:?}");
    assert!(received.iter().all(|count| *count < senders.len()), "spread: {received:?}");
}

/// One sender after another: what a datagram holds says by which socket it comes.
#[test]
fn a_key_in_the_datagram_chooses_the_socket() {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    for sockets in [2, 3, 4, 8] {
        let config = UdpConfig { sockets, ..loopback() };
        // Seven bits that lie in two bytes, and three below them.
        let spread = Spread::new([13..=19, 24..=26], 0..64);
        let mut sources = udp::prepare(&config, LANDING, Some(&spread), &clock).unwrap();
        sources.iter_mut().for_each(|source| source.bind().unwrap());
        sources.iter_mut().for_each(|source| source.start().unwrap());
        for _ in 0..2 {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            for key in 0..64u32 {
                let mut frame = [0xa5; FRAME_LEN];
                let word = 0xf8f0_1fff | (key >> 3) << 13 | (key & 7) << 24;
                frame[..4].copy_from_slice(&word.to_le_bytes());
                sender.send_to(&frame, sources[0].address()).unwrap();
            }
            // What has no key is somewhere, and counted.
            sender.send_to(&[0xff; 3], sources[0].address()).unwrap();
        }
        let mut first = 0;
        for (place, source) in sources.iter_mut().enumerate() {
            let mut keys: Vec<u32> = drain(source)
                .into_iter()
                .map(|number| {
                    let word = number as u32;
                    (word >> 13 & 0x7f) << 3 | word >> 24 & 7
                })
                .collect();
            keys.dedup();
            assert_eq!(keys.len() % 2, 0, "of two senders the same");
            keys.truncate(keys.len() / 2);
            assert_eq!(keys, (first..first + keys.len() as u32).collect::<Vec<_>>(), "{place}");
            first += keys.len() as u32;
            assert!(keys.len().abs_diff(64 / sockets as usize) <= 1, "{keys:?}");
            let account = source.landed().account();
            assert_eq!(account.dropped(SourceDrop::WrongLength), if place == 0 { 2 } else { 0 });
        }
        assert_eq!(first, 64);
    }
}

/// All sockets of an address stop at one instant: until then the frames of a stream come by its socket,
/// from then on by none.
#[test]
fn a_group_of_sockets_stops_amid_traffic_without_a_gap() {
    const STREAMS: u64 = 8;
    let rounds = if std::env::var_os("GANNET_LONG").is_some() { 400 } else { 40 };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    for round in 0..rounds {
        let sockets = [2, 4][round % 2];
        let config = UdpConfig { sockets, ..loopback() };
        let spread = Spread::new([0..=7], 0..STREAMS as u32);
        let mut sources = udp::prepare(&config, LANDING, Some(&spread), &clock).unwrap();
        sources.iter_mut().for_each(|source| source.bind().unwrap());
        sources.iter_mut().for_each(|source| source.start().unwrap());
        let (address, over) = (sources[0].address(), Arc::new(AtomicBool::new(false)));
        let sender = {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                let mut sink = UdpSink::connect(address, &UdpSinkConfig::default()).unwrap();
                let body = vec![0xa5; FRAME_LEN - 8];
                for number in (0..).take_while(|_| !over.load(Ordering::Relaxed)) {
                    for key in 0..STREAMS {
                        let header = (number << 8 | key).to_le_bytes();
                        // Refused from the stop on.
                        _ = sink.send(&[Datagram { header: &header, body: &body }]);
                    }
                }
            })
        };
        let mut received = vec![Vec::new(); sources.len()];
        let poll = |sources: &mut [UdpSource], received: &mut [Vec<u64>]| {
            for (source, received) in sources.iter_mut().zip(received) {
                source.poll(Duration::ZERO).unwrap();
                received.extend(numbers(source));
            }
        };
        while received.iter().any(|received| received.len() < 50) {
            poll(&mut sources, &mut received);
        }
        for place in 0..sources.len() {
            sources[place].stop().unwrap();
            (0..10).for_each(|_| poll(&mut sources, &mut received));
        }
        while sources.iter().any(|source| !source.is_exhausted()) {
            poll(&mut sources, &mut received);
        }
        over.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        let dropped: u64 = sources
            .iter()
            .map(|source| source.landed().account().dropped(SourceDrop::KernelQueue))
            .sum();
        let mut missing = 0;
        for (place, received) in received.iter().enumerate() {
            let share = STREAMS / u64::from(sockets);
            for key in 0..STREAMS {
                let of_stream: Vec<_> = received
                    .iter()
                    .filter(|word| *word & 0xff == key)
                    .map(|word| word >> 8)
                    .collect();
                let is_own = key / share == place as u64;
                assert!(is_own || of_stream.is_empty(), "stream {key} by socket {place}");
                let [first, .., last] = of_stream[..] else { continue };
                missing += last - first + 1 - of_stream.len() as u64;
            }
        }
        assert!(missing <= dropped, "{missing} frames are missing and {dropped} were dropped");
        assert!(sources.iter().all(|source| source.landed().account().statement("udp").closes()));
    }
}

/// Not even a program that would share it joins.
#[test]
fn a_group_of_sockets_shares_its_address_with_no_other() {
    let config = UdpConfig { sockets: 2, ..loopback() };
    let sources = open(&config);
    let again = UdpConfig { listen: vec![sources[0].address()], ..config };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let error = udp::open(&again, LANDING, &clock).err().unwrap().to_string();
    assert!(error.contains("ss -lunp"), "{error}");
}

/// Datagrams that belong to several sockets were coalesced: that is not to happen again.
#[test]
fn sources_that_are_parted_coalesce_no_more() {
    let mut sources = open(&UdpConfig { sockets: 2, ..loopback() });
    sources.iter_mut().for_each(|source| source.start().unwrap());
    sources[0].part();
    for source in &mut sources {
        source.poll(Duration::ZERO).unwrap();
    }
    assert_eq!(send(sources[0].address(), true, |number| number < 160), 160);
    let taken: usize = sources.iter_mut().map(|source| drain(source).len()).sum();
    assert_eq!(taken, 160);
    let messages: u64 =
        sources.iter().map(|source| source.landed().counters().messages.get()).sum();
    assert_eq!(messages, 160, "each datagram is a message");
}

#[test]
fn several_ports_are_several_sources() {
    let any = "127.0.0.1:0".parse().unwrap();
    let mut sources = open(&UdpConfig { listen: vec![any, any], ..UdpConfig::default() });
    assert_ne!(sources[0].address(), sources[1].address());
    for source in &mut sources {
        source.start().unwrap();
        assert_eq!(send(source.address(), true, |number| number < 32), 32);
    }
    for source in &mut sources {
        assert_eq!(drain(source), (0..32).collect::<Vec<_>>());
    }
}

#[test]
fn ipv6_and_wildcard_addresses_work() {
    for (listen, target) in [("0.0.0.0:0", "127.0.0.1"), ("[::1]:0", "::1"), ("[::]:0", "::1")] {
        if UdpSocket::bind((target, 0)).is_err() {
            let why = format!("this machine has no address {target}");
            gannet_measure::testing::skipped(format!("listening on {listen}"), why);
            continue;
        }
        let config = UdpConfig { listen: vec![listen.parse().unwrap()], ..UdpConfig::default() };
        let mut source = open(&config).remove(0);
        source.start().unwrap();
        let target = SocketAddr::new(target.parse().unwrap(), source.address().port());
        assert_eq!(send(target, true, |number| number < 32), 32);
        assert_eq!(drain(&mut source), (0..32).collect::<Vec<_>>(), "{listen}");
    }
}

#[test]
fn a_taken_port_is_an_error_that_says_so() {
    let source = open(&loopback()).remove(0);
    let config = UdpConfig { listen: vec![source.address()], ..UdpConfig::default() };
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let error = udp::open(&config, LANDING, &clock).err().unwrap().to_string();
    assert!(error.contains(&source.address().to_string()), "{error}");
    assert!(error.contains("ss -lunp"), "{error}");
}

#[test]
fn a_sink_without_listener_hears_of_it_and_goes_on() {
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut sink = UdpSink::connect(nobody, &UdpSinkConfig::default()).unwrap();
    let (mut datagrams, mut refused) = (0, 0);
    for _ in 0..20 {
        let sent = sink.send(&[Datagram { header: b"head", body: b"body" }]).unwrap();
        datagrams += sent.datagrams;
        refused += sent.refused;
    }
    assert_eq!(datagrams, 20);
    assert!(refused > 0);
}
