//! What only an AF_XDP source does: jumbo frames in pieces, packets that it leaves to the kernel, and
//! its refusals.

use std::time::{Duration, Instant};

use gannet_ingest::udp::UdpSink;
use gannet_ingest::xdp::{XdpMode, XdpSource};
use gannet_ingest::{Datagram, Landing, Sink, Source, SourceDrop};
use gannet_measure::quantity::Bytes;
use gannet_measure::testing::skipped;

use crate::wire::Wire;

const FRAME_LEN: usize = 7200;
const LANDING: Landing = Landing { lengths: FRAME_LEN..=FRAME_LEN, cells: 4096 };

/// Frame number `n`.
fn frame(n: u64) -> Vec<u8> {
    (0..FRAME_LEN as u64 / 8).flat_map(|word| (n << 32 | word).to_le_bytes()).collect()
}

fn send(sink: &mut UdpSink, datagrams: &[&[u8]]) {
    for datagram in datagrams {
        let sent = sink.send(&[Datagram { header: datagram, body: &[] }]).unwrap();
        assert_eq!(sent.datagrams, 1);
    }
}

/// Takes what is there; the numbers of the frames, which must be whole.
fn take(source: &mut XdpSource) -> Vec<u64> {
    let mut numbers = Vec::new();
    while !source.is_exhausted() && source.poll(Duration::from_millis(20)).unwrap() > 0 {
        for arrival in source.landed().arrivals() {
            let bytes = source.landed().producer().bytes(arrival.cell, FRAME_LEN);
            let number = u64::from_le_bytes(*bytes.first_chunk().unwrap()) >> 32;
            assert!(bytes == frame(number), "frame {number} is damaged");
            numbers.push(number);
        }
    }
    numbers
}

/// Takes until all of `count` datagrams have come, then stops the source and takes the rest.
fn stop(source: &mut XdpSource, count: impl Fn() -> u64) -> Vec<u64> {
    let (account, until) = (source.landed().account(), Instant::now() + Duration::from_secs(10));
    let mut numbers = Vec::new();
    while account.statement("source").offered < count() && Instant::now() < until {
        numbers.extend(take(source));
    }
    assert!(account.statement("source").offered >= count(), "taken or counted before the stop");
    source.stop().unwrap();
    while !source.is_exhausted() {
        numbers.extend(take(source));
    }
    numbers
}

/// A source of `mode` that is bound, with its sender.
fn rig(what: &str, mode: XdpMode, buffer: Bytes) -> Option<(Wire, XdpSource, UdpSink)> {
    let set_up = || {
        let wire = Wire::lay()?;
        let source = wire.source(mode, LANDING, |config| config.buffer = buffer)?;
        let sink = wire.sink(&source);
        Ok::<_, String>((wire, source, sink))
    };
    set_up().map_err(|reason| skipped(what, reason)).ok()
}

#[test]
fn frames_in_several_pieces_are_whole() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let what = "frames in several pieces by AF_XDP";
        let Some((_wire, mut source, mut sink)) = rig(what, mode, Bytes::mib(1)) else { return };
        source.start().unwrap();
        // With a packet of one piece among them the pieces of frames lie over the end of the memory.
        send(&mut sink, &[b"short"]);
        let mut taken = Vec::new();
        for n in 0..2000 {
            send(&mut sink, &[&frame(n)]);
            if n % 50 == 49 {
                taken.extend(take(&mut source));
            }
        }
        taken.extend(stop(&mut source, || 2001));
        assert!(taken.iter().copied().eq(0..2000), "{mode:?}: {} frames", taken.len());
        let account = source.landed().account();
        assert_eq!(account.dropped(SourceDrop::WrongLength), 1);
        let statement = account.statement("source");
        assert!(statement.closes() && statement.offered == 2001, "{statement}");
    }
}

#[test]
fn in_overload_every_frame_is_taken_or_counted() {
    for mode in [XdpMode::Native, XdpMode::Generic] {
        let what = "overload of an AF_XDP source";
        let Some((wire, mut source, mut sink)) = rig(what, mode, Bytes::mib(1)) else { return };
        source.start().unwrap();
        let (mut taken, sent) = (0, 3000);
        for n in 0..sent {
            send(&mut sink, &[&frame(n)]);
            if n % 1000 == 999 {
                taken += take(&mut source).len() as u64;
            }
        }
        taken += stop(&mut source, || sent - wire.lost()).len() as u64;
        let account = source.landed().account();
        let statement = account.statement("source");
        assert!(statement.closes() && statement.delivered == taken, "{statement}");
        assert!(account.dropped(SourceDrop::KernelQueue) > 0, "{mode:?}: {statement}");
        assert_eq!(statement.offered + wire.lost(), sent, "{mode:?}: {statement}");
    }
}

#[test]
fn what_is_left_to_the_kernel_is_counted() {
    let (what, mode) = ("packets beside an AF_XDP source", XdpMode::Native);
    let Some((wire, mut source, mut sink)) = rig(what, mode, Bytes::mib(1)) else { return };
    let early: Vec<_> = (0..7).map(frame).collect();
    send(&mut sink, &early.iter().map(Vec::as_slice).collect::<Vec<_>>());
    wire.wait_for_refused(7);
    source.start().unwrap();
    // One goes in fragments.
    send(&mut sink, &[&frame(7), &[0; 20_000], &frame(8)]);
    assert_eq!(stop(&mut source, || 10), [7, 8]);
    let account = source.landed().account();
    assert_eq!(account.dropped(SourceDrop::BeforeStart), 7);
    assert_eq!(account.dropped(SourceDrop::OtherPath), 1);
    // After the stop nothing is taken and nothing counted.
    send(&mut sink, &[&frame(9)]);
    assert_eq!(source.poll(Duration::from_millis(20)).unwrap(), 0);
    let statement = account.statement("source");
    assert!(statement.closes() && statement.offered == 10, "{statement}");
}

#[test]
fn strangers_are_not_heard() {
    let set_up = || {
        let wire = Wire::lay()?;
        let rule = "10.73.0.7".parse().unwrap();
        let source = wire.source(XdpMode::Native, LANDING, |config| config.allow = vec![rule])?;
        Ok::<_, String>((wire, source))
    };
    let (wire, mut source) = match set_up() {
        Ok(rig) => rig,
        Err(reason) => return skipped("the allow-list of an AF_XDP source", reason),
    };
    source.start().unwrap();
    send(&mut wire.sink(&source), &[&frame(0)]);
    assert_eq!(stop(&mut source, || 1), [0; 0]);
    assert_eq!(source.landed().account().dropped(SourceDrop::ForeignAddress), 1);
}

#[test]
fn what_would_be_slower_is_refused() {
    let wire = match Wire::lay() {
        Ok(wire) => wire,
        Err(reason) => return skipped("refusals of AF_XDP", reason),
    };
    let refusal = |mode, change: fn(&mut _)| match wire.source(mode, LANDING, change) {
        Ok(_) => "it was not refused".to_owned(),
        Err(reason) => reason,
    };
    let no_zero_copy = refusal(XdpMode::ZeroCopy, |_| {});
    if no_zero_copy.contains("CAP_BPF") {
        return skipped("refusals of AF_XDP", no_zero_copy);
    }
    assert!(no_zero_copy.contains("no zero copy"), "{no_zero_copy}");
    let loopback = refusal(XdpMode::Generic, |config| config.interface = Some("lo".into()));
    assert!(loopback.contains("slower than UDP sockets"), "{loopback}");
    let nowhere = refusal(XdpMode::Native, |config| config.interface = Some("nowhere".into()));
    assert!(nowhere.contains("nowhere"), "{nowhere}");
    let address = "10.73.0.9:7".parse().unwrap();
    let elsewhere = refusal_of(&wire, address);
    assert!(elsewhere.contains("interface = "), "{elsewhere}");
}

fn refusal_of(wire: &Wire, listen: std::net::SocketAddrV4) -> String {
    let source = wire.source(XdpMode::Native, LANDING, |config| config.listen = listen);
    source.err().unwrap_or_default()
}
