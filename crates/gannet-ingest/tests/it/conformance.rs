//! What every source has to do, tried on each of them over real sockets, files and memory.

use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_ingest::udp::{self, Engine, UdpConfig, UdpSink, UdpSinkConfig, UdpSource};
use gannet_ingest::xdp::{XdpMode, XdpSource};
use gannet_ingest::{
    Datagram, Error, Landing, MemorySource, PcapConfig, PcapSource, Sink, Source, SourceDrop,
};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::random::Random;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::{ethernet, network, pcap};

use crate::wire::Wire;

const FRAME_LEN: usize = 1000;
const LANDING: Landing = Landing { frame_len: FRAME_LEN, cells: 1 };
const WAIT: Duration = Duration::from_millis(20);

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::start())
}

/// A source of one kind, and the way to give it datagrams.
trait Rig: Sized {
    /// Sets the source up for these datagrams, or says why this machine cannot.
    fn set_up(datagrams: &[Vec<u8>]) -> Result<Self, String>;
    fn source(&mut self) -> &mut dyn Source;
    /// Sends datagrams that were not given at set-up.
    fn send(&mut self, _datagrams: &[Vec<u8>]) {}
}

struct Memory(MemorySource);

impl Rig for Memory {
    fn set_up(datagrams: &[Vec<u8>]) -> Result<Self, String> {
        let source = MemorySource::of_frames(LANDING, clock(), datagrams.to_vec());
        source.map(Self).map_err(|error| error.to_string())
    }
    fn source(&mut self) -> &mut dyn Source {
        &mut self.0
    }
}

struct Pcap {
    source: PcapSource,
    _file: tempfile::NamedTempFile,
}

impl Rig for Pcap {
    fn set_up(datagrams: &[Vec<u8>]) -> Result<Self, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&capture(datagrams)).unwrap();
        let config = PcapConfig {
            path: file.path().to_owned(),
            ports: vec![17477],
            allow: Vec::new(),
            verify_checksums: true,
        };
        let source = PcapSource::open(&config, LANDING, clock()).map_err(|e| e.to_string())?;
        Ok(Self { source, _file: file })
    }
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }
}

/// A capture file of the datagrams, with others to another port between them.
fn capture(datagrams: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    let mut packet = |payload: &[u8], port: u16| {
        let addresses = network::Addresses {
            source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
            destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
            source: SocketAddrV4::new([10, 0, 0, 1].into(), 17476),
            destination: SocketAddrV4::new([10, 0, 0, 2].into(), port),
        };
        let mut data = vec![0; addresses.buffer_len(payload.len())];
        addresses.emit(payload, &mut data).unwrap();
        let original_len = data.len() as u32;
        let (interface, link_type, timestamp_ns) = (0, LINK_TYPE_ETHERNET, Some(1));
        let packet = Packet { interface, link_type, timestamp_ns, original_len, data: &data };
        writer.packet(&packet, &mut file).unwrap();
    };
    for datagram in datagrams {
        packet(datagram, 17477);
        packet(b"somebody else's", 53);
    }
    file
}

/// A UDP source and a sender on the loopback interface.
struct Udp {
    source: UdpSource,
    sink: UdpSink,
}

impl Udp {
    fn open(engine: Engine, name: &str, count_before_queue: bool) -> Result<Self, String> {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let config = UdpConfig { listen, engine, count_before_queue, ..UdpConfig::default() };
        let source = udp::open(&config, LANDING, &clock()).unwrap().remove(0);
        if source.facts().engine != name {
            return Err(source.facts().refusals.join("; "));
        }
        let sink = UdpSink::connect(source.address(), &UdpSinkConfig::default()).unwrap();
        Ok(Self { source, sink })
    }
}

/// Sends datagrams in two pieces each.
fn send(sink: &mut UdpSink, datagrams: &[Vec<u8>]) {
    let parts: Vec<_> = datagrams
        .iter()
        .map(|bytes| bytes.split_at(bytes.len().min(32)))
        .map(|(header, body)| Datagram { header, body })
        .collect();
    let sent = sink.send(&parts).unwrap();
    assert_eq!(sent.datagrams, datagrams.len() as u64, "the kernel took all");
}

macro_rules! udp_rig {
    ($rig:ident, $engine:expr, $name:literal, $count:literal) => {
        struct $rig(Udp);
        impl Rig for $rig {
            fn set_up(_: &[Vec<u8>]) -> Result<Self, String> {
                Udp::open($engine, $name, $count).map(Self)
            }
            fn source(&mut self) -> &mut dyn Source {
                &mut self.0.source
            }
            fn send(&mut self, datagrams: &[Vec<u8>]) {
                send(&mut self.0.sink, datagrams);
            }
        }
    };
}

udp_rig!(UdpAuto, Engine::Auto, "recvmsg", true);
udp_rig!(UdpRecvmsg, Engine::Recvmsg, "recvmsg", false);
udp_rig!(UdpRecvmmsg, Engine::Recvmmsg, "recvmmsg", true);

/// An AF_XDP source and a sender in two namespaces.
struct Xdp {
    source: XdpSource,
    sink: UdpSink,
    _wire: Wire,
}

macro_rules! xdp_rig {
    ($rig:ident, $mode:expr) => {
        struct $rig(Xdp);
        impl Rig for $rig {
            fn set_up(_: &[Vec<u8>]) -> Result<Self, String> {
                let wire = Wire::lay()?;
                let source = wire.source($mode, LANDING, |_| {})?;
                let sink = wire.sink(&source);
                Ok(Self(Xdp { source, sink, _wire: wire }))
            }
            fn source(&mut self) -> &mut dyn Source {
                &mut self.0.source
            }
            fn send(&mut self, datagrams: &[Vec<u8>]) {
                send(&mut self.0.sink, datagrams);
            }
        }
    };
}

xdp_rig!(XdpNative, XdpMode::Native);
xdp_rig!(XdpGeneric, XdpMode::Generic);

/// A datagram of `len` bytes that is like no other.
fn datagram(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.bits() as u8).collect()
}

/// Takes the arrivals of the last poll, and tests what holds for every poll.
fn take(source: &dyn Source, frames: &mut Vec<Vec<u8>>) {
    let reader = source.producer().reader();
    assert!(source.arrivals().len() <= 64 * (65_535 / FRAME_LEN), "a batch is bounded");
    for arrival in source.arrivals() {
        assert_eq!(arrival.len as usize, FRAME_LEN);
        let frame = source.producer().bytes(arrival.cell, FRAME_LEN);
        let mut copy = vec![0; FRAME_LEN];
        assert_eq!(reader.copy(arrival.cell, &mut copy), Ok(()));
        assert_eq!(frame, copy, "readers see what the source sees");
        frames.push(copy);
    }
}

/// Starts the source, gives it the datagrams in pieces, stops it, and returns all frames.
fn run(rig: &mut impl Rig, datagrams: &[Vec<u8>], piece: usize) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    rig.source().start().unwrap();
    for piece in datagrams.chunks(piece) {
        rig.send(piece);
        // One poll need not take all that is there.
        for wait in [WAIT, Duration::ZERO, Duration::ZERO] {
            rig.source().poll(wait).unwrap();
            take(rig.source(), &mut frames);
        }
    }
    // On a busy machine a card brings packets some time after they were sent.
    let (account, until) = (rig.source().account(), Instant::now() + Duration::from_secs(10));
    let is_under_way = || account.statement("source").offered < datagrams.len() as u64;
    while rig.source().poll(WAIT).unwrap() > 0 || is_under_way() && Instant::now() < until {
        take(rig.source(), &mut frames);
    }
    rig.source().stop().unwrap();
    while !rig.source().is_exhausted() {
        rig.source().poll(WAIT).unwrap();
        take(rig.source(), &mut frames);
    }
    frames
}

fn delivers_every_frame_in_order<R: Rig>() -> Result<(), String> {
    let mut random = Random::new(1);
    // More than twice round the ring.
    let ring = R::set_up(&[])?.source().facts().cells as usize;
    let sent: Vec<_> = (0..2 * ring + 100).map(|_| datagram(&mut random, FRAME_LEN)).collect();
    let mut rig = R::set_up(&sent)?;
    let frames = run(&mut rig, &sent, 50);
    assert_eq!(frames.len(), sent.len());
    assert!(frames == sent, "a frame differs from what was sent");
    let account = rig.source().account().statement("source");
    assert!(account.closes() && account.dropped_total() == 0, "{account}");
    Ok(())
}

fn counts_datagrams_of_other_lengths<R: Rig>() -> Result<(), String> {
    let mut random = Random::new(2);
    let lens = [FRAME_LEN, 0, FRAME_LEN - 1, FRAME_LEN + 1, 1, 3000, 2 * FRAME_LEN];
    let sent: Vec<_> = (0..2000)
        .map(|_| {
            let len = if random.chance(0.5) { FRAME_LEN } else { lens[random.below(7) as usize] };
            datagram(&mut random, len)
        })
        .collect();
    let expected: Vec<_> = sent.iter().filter(|sent| sent.len() == FRAME_LEN).cloned().collect();
    let mut rig = R::set_up(&sent)?;
    let frames = run(&mut rig, &sent, 40);
    assert!(frames == expected, "{} frames of {}", frames.len(), expected.len());
    let account = rig.source().account();
    let empty = sent.iter().filter(|sent| sent.is_empty()).count();
    assert_eq!(account.dropped(SourceDrop::Empty), empty as u64);
    let others = sent.len() - expected.len() - empty;
    assert_eq!(account.dropped(SourceDrop::WrongLength), others as u64);
    let statement = account.statement("source");
    assert!(statement.closes() && statement.offered == sent.len() as u64, "{statement}");
    Ok(())
}

fn lives_from_start_to_stop<R: Rig>() -> Result<(), String> {
    let mut rig = R::set_up(&[])?;
    let source = rig.source();
    assert!(matches!(source.poll(Duration::ZERO), Err(Error::NotStarted)));
    assert!(!source.is_exhausted());
    source.start().unwrap();
    assert_eq!(source.poll(Duration::from_millis(1)).unwrap(), 0, "nothing was sent");
    let first = source.arrival_ns();
    source.poll(Duration::ZERO).unwrap();
    assert!(source.arrival_ns() >= first);
    source.stop().unwrap();
    source.stop().unwrap();
    (0..10).for_each(|_| assert_eq!(source.poll(WAIT).unwrap(), 0));
    assert!(source.is_exhausted() && source.arrivals().is_empty());
    assert!(source.account().statement("source").closes());
    Ok(())
}

fn states_its_facts<R: Rig>() -> Result<(), String> {
    let mut rig = R::set_up(&[])?;
    let facts = rig.source().facts();
    assert_eq!(facts.frame_len, FRAME_LEN);
    assert_eq!(facts.cells, rig.source().producer().geometry().capacity());
    assert!(facts.to_string().contains("1000 B"), "{facts}");
    if let Some(buffer) = facts.kernel_buffer {
        assert!(buffer.obtained > 0 && facts.address.map(|a: SocketAddr| a.port()) != Some(0));
    }
    Ok(())
}

macro_rules! conformance {
    ($($module:ident: $rig:ty),+ $(,)?) => { $(
        mod $module {
            use super::*;
            conformance!(@test $rig: delivers_every_frame_in_order);
            conformance!(@test $rig: counts_datagrams_of_other_lengths);
            conformance!(@test $rig: lives_from_start_to_stop);
            conformance!(@test $rig: states_its_facts);
        }
    )+ };
    (@test $rig:ty: $test:ident) => {
        #[test]
        fn $test() {
            if let Err(reason) = super::$test::<$rig>() {
                gannet_measure::testing::skipped(stringify!($rig: $test), reason);
            }
        }
    };
}

conformance! {
    memory: Memory,
    pcap_file: Pcap,
    udp_auto: UdpAuto,
    udp_recvmsg: UdpRecvmsg,
    udp_recvmmsg: UdpRecvmmsg,
    xdp_native: XdpNative,
    xdp_generic: XdpGeneric,
}
