//! What every source has to do, tried on each of them over real sockets, files and memory.

use std::collections::HashSet;
use std::io::Write;
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::{Duration, Instant};

use gannet_ingest::roce::{RoceConfig, RoceSink, RoceSource, RoceTarget};
use gannet_ingest::udp::{self, Engine, UdpConfig, UdpSink, UdpSinkConfig, UdpSource};
use gannet_ingest::xdp::{XdpMode, XdpSource};
use gannet_ingest::{
    Datagram, Error, Landing, MemorySource, PcapConfig, PcapSource, Sink, Source, SourceDrop,
};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::random::Random;
use gannet_memory::Cell;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::{ethernet, network, pcap};

use crate::wire::Wire;

const FRAME_LEN: usize = 1000;
const FRAMES: Landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 1 };
const ANY_LENGTH: Landing = Landing { lengths: 1..=9000, cells: 1 };
const WAIT: Duration = Duration::from_millis(20);

fn clock() -> Arc<dyn Clock> {
    Arc::new(SystemClock::start())
}

/// A source of one kind, and the way to give it datagrams.
trait Rig: Sized {
    /// Times that all lengths are tried in the long form.
    const ROUNDS: usize = 1000;
    /// Sets the source up for these datagrams, or says why this machine cannot.
    fn set_up(landing: Landing, datagrams: &[Vec<u8>]) -> Result<Self, String>;
    fn source(&mut self) -> &mut dyn Source;
    /// Sends datagrams that were not given at set-up, those of one length in one message or each alone.
    fn send(&mut self, _datagrams: &[Vec<u8>], _coalesce: bool) {}
}

struct Memory(MemorySource);

impl Rig for Memory {
    fn set_up(landing: Landing, datagrams: &[Vec<u8>]) -> Result<Self, String> {
        let source = MemorySource::of_frames(landing, clock(), datagrams.to_vec());
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
    fn set_up(landing: Landing, datagrams: &[Vec<u8>]) -> Result<Self, String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&capture(datagrams)).unwrap();
        let config = PcapConfig {
            path: file.path().to_owned(),
            ports: vec![17477],
            allow: Vec::new(),
            verify_checksums: true,
        };
        let source = PcapSource::open(&config, landing, clock()).map_err(|e| e.to_string())?;
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
    /// One that sends datagrams of one length in one message, and one that does not.
    sinks: [UdpSink; 2],
}

impl Udp {
    fn open(
        engine: Engine,
        name: &str,
        count_before_queue: bool,
        landing: Landing,
    ) -> Result<Self, String> {
        let listen = vec!["127.0.0.1:0".parse().unwrap()];
        let config = UdpConfig { listen, engine, count_before_queue, ..UdpConfig::default() };
        let source = udp::open(&config, landing, &clock()).unwrap().remove(0);
        if source.landed().facts().engine != name {
            return Err(source.landed().facts().refusals.join("; "));
        }
        let sinks = [true, false].map(|coalesce| {
            let config = UdpSinkConfig { coalesce, ..UdpSinkConfig::default() };
            UdpSink::connect(source.address(), &config).unwrap()
        });
        Ok(Self { source, sinks })
    }
}

/// Sends datagrams in two pieces each.
fn send(sink: &mut impl Sink, datagrams: &[Vec<u8>]) {
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
            fn set_up(landing: Landing, _: &[Vec<u8>]) -> Result<Self, String> {
                Udp::open($engine, $name, $count, landing).map(Self)
            }
            fn source(&mut self) -> &mut dyn Source {
                &mut self.0.source
            }
            fn send(&mut self, datagrams: &[Vec<u8>], coalesce: bool) {
                send(&mut self.0.sinks[usize::from(!coalesce)], datagrams);
            }
        }
    };
}

udp_rig!(UdpAuto, Engine::Auto, "recvmsg", true);
udp_rig!(UdpRecvmsg, Engine::Recvmsg, "recvmsg", false);
udp_rig!(UdpRecvmmsg, Engine::Recvmmsg, "recvmmsg", true);

/// A RoCEv2 source and a sender on the loopback interface.
struct Roce {
    source: RoceSource,
    sinks: [RoceSink; 2],
}

impl Rig for Roce {
    fn set_up(landing: Landing, _: &[Vec<u8>]) -> Result<Self, String> {
        let config = RoceConfig::new("127.0.0.1:0".parse().unwrap(), vec![17, 18], 0x1234_5678);
        let mut source = RoceSource::open(&config, landing, &clock()).unwrap();
        source.bind().unwrap();
        let facts = source.landed().facts();
        let target = |queue_pair| RoceTarget {
            queue_pair,
            key: 0x1234_5678,
            start: 0,
            cell_bytes: *facts.lengths.end() as u64,
            cells: facts.cells,
        };
        let sinks = [(17, true), (18, false)].map(|(queue_pair, coalesce)| {
            let config = UdpSinkConfig { coalesce, ..UdpSinkConfig::default() };
            RoceSink::connect(source.address(), target(queue_pair), &config).unwrap()
        });
        Ok(Self { source, sinks })
    }
    fn source(&mut self) -> &mut dyn Source {
        &mut self.source
    }
    fn send(&mut self, datagrams: &[Vec<u8>], coalesce: bool) {
        send(&mut self.sinks[usize::from(!coalesce)], datagrams);
    }
}

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
            // A wire takes long to lay.
            const ROUNDS: usize = 20;
            fn set_up(landing: Landing, _: &[Vec<u8>]) -> Result<Self, String> {
                let wire = Wire::lay()?;
                let source = wire.source($mode, landing, |_| {})?;
                let sink = wire.sink(&source);
                Ok(Self(Xdp { source, sink, _wire: wire }))
            }
            fn source(&mut self) -> &mut dyn Source {
                &mut self.0.source
            }
            fn send(&mut self, datagrams: &[Vec<u8>], _coalesce: bool) {
                send(&mut self.0.sink, datagrams);
            }
        }
    };
}

xdp_rig!(XdpNative, XdpMode::Native);
xdp_rig!(XdpGeneric, XdpMode::Generic);

/// A datagram of `len` bytes that is like no other.
fn datagram(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(8)).flat_map(|_| random.bits().to_le_bytes()).collect();
    bytes.truncate(len);
    bytes
}

/// Datagrams of any length that may be taken and a few that may not, some of one length after the
/// other; short ones are as frequent as long ones are in bytes.
fn datagrams_of_any_length(random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    let (mut datagrams, mut lens) = (Vec::new(), [64; 4]);
    while datagrams.len() < count {
        let place = random.below(4) as usize;
        if random.chance(0.3) {
            let most = 1 << (1 + random.below(14));
            lens[place] = random.below(most).min(9500) as usize;
        }
        let run = if random.chance(0.5) { 1 } else { 1 + random.below(30) };
        (0..run).for_each(|_| datagrams.push(datagram(random, lens[place])));
    }
    datagrams
}

/// Takes the arrivals of the last poll, and tests what holds for every poll.
fn take(source: &dyn Source, taken: &mut Taken) {
    let landed = source.landed();
    let reader = landed.producer().reader();
    assert!(landed.arrivals().len() as u64 <= landed.facts().cells / 2, "a batch is bounded");
    let (mut copy, mut cells) = (Vec::new(), HashSet::new());
    for arrival in landed.arrivals() {
        assert!(landed.facts().lengths.contains(&(arrival.len as usize)));
        assert!(cells.insert(arrival.cell), "two in a cell");
        let frame = landed.producer().bytes(arrival.cell, arrival.len as usize);
        copy.resize(frame.len(), 0);
        assert_eq!(reader.copy(arrival.cell, &mut copy), Ok(()));
        assert!(frame == copy, "readers see what the source sees");
        taken.cells.push(arrival.cell);
        taken.datagrams.push(copy.clone());
    }
    // What landed before stays as it was until its cell is given away.
    let depth = taken.cells.len().min(landed.facts().cells as usize);
    let earlier = taken.cells.len() - depth + taken.random.below(depth.max(1) as u64) as usize;
    if let Some(cell) = taken.cells.get(earlier) {
        copy.resize(taken.datagrams[earlier].len(), 0);
        if reader.copy(*cell, &mut copy).is_ok() {
            assert!(copy == taken.datagrams[earlier], "a cell was written twice");
        }
    }
}

/// The datagrams that a source delivered, and their cells.
struct Taken {
    cells: Vec<Cell>,
    datagrams: Vec<Vec<u8>>,
    random: Random,
}

/// Starts the source, gives it the datagrams in pieces of at most `piece` bytes, which are sent
/// coalesced or not, stops it, and returns all that it delivered.
fn run(rig: &mut impl Rig, datagrams: &[Vec<u8>], piece: usize) -> Vec<Vec<u8>> {
    let (mut random, mut rest) = (Random::new(5), datagrams);
    let (cells, delivered) = (Vec::new(), Vec::new());
    let mut frames = Taken { cells, datagrams: delivered, random: Random::new(6) };
    rig.source().start().unwrap();
    while !rest.is_empty() {
        let mut bytes = 0;
        let fits = |datagram: &&Vec<u8>| {
            bytes += datagram.len();
            bytes <= piece
        };
        let count = rest.iter().take(50).take_while(fits).count().max(1);
        let (now, later) = rest.split_at(count);
        rest = later;
        rig.send(now, random.chance(0.5));
        // One poll need not take all that is there.
        for wait in [WAIT, Duration::ZERO, Duration::ZERO] {
            rig.source().poll(wait).unwrap();
            take(rig.source(), &mut frames);
        }
    }
    // On a busy machine a card brings packets some time after they were sent.
    let (account, until) =
        (rig.source().landed().account(), Instant::now() + Duration::from_secs(10));
    let is_under_way = || account.statement("source").offered < datagrams.len() as u64;
    while rig.source().poll(WAIT).unwrap() > 0 || is_under_way() && Instant::now() < until {
        take(rig.source(), &mut frames);
    }
    rig.source().stop().unwrap();
    while !rig.source().is_exhausted() {
        rig.source().poll(WAIT).unwrap();
        take(rig.source(), &mut frames);
    }
    frames.datagrams
}

fn delivers_every_frame_in_order<R: Rig>() -> Result<(), String> {
    let mut random = Random::new(1);
    // More than twice round the ring.
    let ring = R::set_up(FRAMES, &[])?.source().landed().facts().cells as usize;
    let sent: Vec<_> = (0..2 * ring + 100).map(|_| datagram(&mut random, FRAME_LEN)).collect();
    let mut rig = R::set_up(FRAMES, &sent)?;
    let frames = run(&mut rig, &sent, 50 * FRAME_LEN);
    assert_eq!(frames.len(), sent.len());
    assert!(frames == sent, "a frame differs from what was sent");
    let account = rig.source().landed().account().statement("source");
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
    let mut rig = R::set_up(FRAMES, &sent)?;
    let frames = run(&mut rig, &sent, 50 * FRAME_LEN);
    assert!(frames == expected, "{} frames of {}", frames.len(), expected.len());
    let account = rig.source().landed().account();
    let empty = sent.iter().filter(|sent| sent.is_empty()).count();
    assert_eq!(account.dropped(SourceDrop::Empty), empty as u64);
    let others = sent.len() - expected.len() - empty;
    assert_eq!(account.dropped(SourceDrop::WrongLength), others as u64);
    let statement = account.statement("source");
    assert!(statement.closes() && statement.offered == sent.len() as u64, "{statement}");
    Ok(())
}

fn lands_datagrams_of_any_length<R: Rig>() -> Result<(), String> {
    let rounds = if std::env::var_os("GANNET_LONG").is_some() { R::ROUNDS } else { 1 };
    let mut random = Random::new(3);
    for _ in 0..rounds {
        let sent = datagrams_of_any_length(&mut random, 10_000);
        let mut rig = R::set_up(ANY_LENGTH, &sent)?;
        let frames = run(&mut rig, &sent, 50_000);
        let is_taken = |sent: &&Vec<u8>| ANY_LENGTH.lengths.contains(&sent.len());
        let expected: Vec<_> = sent.iter().filter(is_taken).collect();
        assert_eq!(frames.len(), expected.len());
        assert!(frames.iter().eq(expected), "a datagram differs from what was sent");
        let landed = rig.source().landed();
        let bytes: usize = frames.iter().map(Vec::len).sum();
        assert_eq!(landed.counters().bytes.get(), bytes as u64);
        let statement = landed.account().statement("source");
        assert!(statement.closes() && statement.offered == sent.len() as u64, "{statement}");
    }
    Ok(())
}

fn lives_from_start_to_stop<R: Rig>() -> Result<(), String> {
    let mut rig = R::set_up(FRAMES, &[])?;
    let source = rig.source();
    assert!(matches!(source.poll(Duration::ZERO), Err(Error::NotStarted)));
    assert!(!source.is_exhausted());
    source.start().unwrap();
    assert_eq!(source.poll(Duration::from_millis(1)).unwrap(), 0, "nothing was sent");
    let first = source.landed().arrival_ns();
    source.poll(Duration::ZERO).unwrap();
    assert!(source.landed().arrival_ns() >= first);
    source.stop().unwrap();
    source.stop().unwrap();
    (0..10).for_each(|_| assert_eq!(source.poll(WAIT).unwrap(), 0));
    assert!(source.is_exhausted() && source.landed().arrivals().is_empty());
    assert!(source.landed().account().statement("source").closes());
    Ok(())
}

fn states_its_facts<R: Rig>() -> Result<(), String> {
    let mut rig = R::set_up(FRAMES, &[])?;
    let facts = rig.source().landed().facts().clone();
    assert_eq!(facts.lengths, FRAMES.lengths);
    assert_eq!(facts.cells, rig.source().landed().producer().geometry().capacity());
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
            conformance!(@test $rig: lands_datagrams_of_any_length);
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
    roce: Roce,
    xdp_native: XdpNative,
    xdp_generic: XdpGeneric,
}
