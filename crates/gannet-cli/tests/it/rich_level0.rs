//! Level-0 matching end to end: merged events of the RICH and primitives of another detector in, records out.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use gannet_emulate::FrontEnd;
use gannet_emulate::rich::{Config, Packets, RichFrontEnd};
use gannet_log::{Kind, Reader};
use gannet_measure::testing::free_address;
use gannet_record::StoredRecord;
use gannet_rich::detector::Level0Config;
use gannet_wire::na62::{FINE_CLOCK, FRAME_FINE_BITS, PmMap, Source, Time, mgp, mtp};
use gannet_wire::trigger_record::TriggerRecordHeader;

use crate::readout::process::{QUIET, Readout, alone, gannet};

/// Datagrams of the RICH that are sent.
const BLOCKS: u64 = 3000;
/// One event in so many has a primitive of the other detector.
const EVERY: u64 = 20;
/// Time at which primitives do not belong together any more, in fine units.
const CUT: u64 = 60;
/// Identifiers of the other detector.
const IDS: [u16; 2] = [0x4100, 0x4200];
/// Of this mask one in so many leads to a record.
const DOWNSCALING: u64 = 200;

fn config(rich: SocketAddr, chod: SocketAddr, out: &Path) -> String {
    format!(
        "[[source]]\nstreams = {{ packets = \"merged\", links = [0] }}\n\
         udp = {{ listen = [\"{rich}\"] }}\ndepth = \"2 s\"\n\
         [[source]]\nstreams = {{ packets = \"primitives\", links = [0], source = 24 }}\n\
         udp = {{ listen = [\"{chod}\"] }}\ndepth = \"1 s\"\n\
         [pipeline]\ndetector = \"na62-rich\"\n\
         [pipeline.merge]\nhold = \"200 ms\"\n\
         [pipeline.answer]\nbudget = \"1 s\"\n\
         [pipeline.level0]\nreference = 28\nsources = [{{ source = 24, cut_fine = {CUT} }}]\n\
         records_in_flight_max = 65536\n\
         [[pipeline.level0.masks]]\n\
         conditions = [{{ source = 24, care = 0x4300, value = 0x4100 }}]\n\
         [[pipeline.level0.masks]]\n\
         conditions = [{{ source = 24, care = 0x4000, value = 0x4000 }}]\ndownscaling = 7\n\
         [[pipeline.level0.masks]]\ndownscaling = {DOWNSCALING}\n\
         [recorder]\ndirectory = {out:?}\n"
    )
}

/// What is sent: datagrams of the RICH, packets of the other detector, each with the time at which it is
/// complete; times of the events, and of the primitives with their identifiers; when the last datagram of the
/// RICH begins.
struct Sent {
    datagrams: Vec<(u64, bool, Vec<u8>)>,
    events: Vec<u64>,
    primitives: Vec<(u64, u16)>,
    newest: u64,
}

fn sent() -> Sent {
    let config = Config {
        packets: Packets::Merged,
        lanes: 1,
        rate_hz: 50_000.0,
        pool: 4096,
        seed: 11,
        ..Config::default()
    };
    let mut front_end = RichFrontEnd::new(&config, &PmMap::numbered()).unwrap();
    let mut datagrams = Vec::new();
    let mut events = Vec::new();
    for block in 0..BLOCKS {
        let datagram = front_end.frame(0, block);
        let read = mgp::Datagram::new_checked(&datagram).unwrap();
        events.extend(read.events().map(|event| event.unwrap().time().fine_units()));
        datagrams.push((front_end.begin(block + 1), true, datagram));
    }
    // Before and behind the event, within the cut and beyond it.
    let apart = [20, -25, 59, -59, 60, -60, 100, -100_i64];
    let of_event = |(number, time): (u64, &u64)| {
        let apart = apart[(number / EVERY) as usize % apart.len()];
        (time.checked_add_signed(apart).unwrap(), IDS[(number / EVERY / 3) as usize % 2])
    };
    let last = events.len() as u64 - 1;
    let chosen = (0..last).zip(&events).filter(|(number, _)| number % EVERY == 0);
    let mut primitives: Vec<_> = chosen.map(of_event).collect();
    // The window of the last trigger reaches beyond all that the RICH sends.
    primitives.push((events[last as usize] + 20, IDS[0]));
    let newest = front_end.begin(BLOCKS - 1);
    let frames = (front_end.begin(BLOCKS) >> FRAME_FINE_BITS) + 2;
    let mut rest = primitives.as_slice();
    for frame in 0..frames {
        let here = rest.partition_point(|(time, _)| time >> FRAME_FINE_BITS <= frame);
        let (own, later) = rest.split_at(here);
        rest = later;
        let mut packet = [0; mtp::LEN_MAX];
        let mut writer = mtp::Writer::new(Source::Chod, 0, frame as u32, &mut packet);
        for &(time, id) in own {
            assert!(writer.primitive(mtp::Primitive { id, time: Time::from_fine_units(time) }));
        }
        let len = writer.finish();
        datagrams.push(((frame + 1) << FRAME_FINE_BITS, false, packet[..len].to_vec()));
    }
    datagrams.sort_by_key(|datagram| datagram.0);
    Sent { datagrams, events, primitives, newest }
}

/// The triggers: time, and a bit for each mask.
fn expected(sent: &Sent) -> BTreeMap<u64, u64> {
    let mut passed = [0; 3];
    let mut triggers = BTreeMap::new();
    for &time in &sent.events {
        let near = sent.primitives.iter().find(|(other, _)| {
            let is_of_slots = (other >> 6).abs_diff(time >> 6) <= 1;
            other.abs_diff(time) < CUT && is_of_slots && other >> 19 == time >> 19
        });
        let holds = [near.is_some_and(|it| it.1 == IDS[0]), near.is_some(), true];
        let mut masks = 0;
        for (mask, downscaling) in [1, 7, DOWNSCALING].into_iter().enumerate() {
            passed[mask] += u64::from(holds[mask]);
            if holds[mask] && passed[mask].is_multiple_of(downscaling) {
                masks |= 1 << mask;
            }
        }
        if masks != 0 {
            triggers.insert(time, masks);
        }
    }
    assert!(passed[0] > 30 && passed[1] > 60 && passed[1] < passed[2] / EVERY, "{passed:?}");
    triggers
}

fn send(sent: &Sent, rich: SocketAddr, chod: SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let begin = Instant::now();
    for (number, (time, is_rich, datagram)) in sent.datagrams.iter().enumerate() {
        if number % 64 == 0 {
            let due = Duration::from_nanos(3 * FINE_CLOCK.ns(*time));
            thread::sleep(due.saturating_sub(begin.elapsed()));
        }
        socket.send_to(datagram, if *is_rich { rich } else { chod }).unwrap();
    }
}

/// The frames of a part of a record, each behind its length.
fn frames(mut payload: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let Some((len, rest)) = payload.split_first_chunk() {
        let (frame, rest) = rest.split_at(u32::from_le_bytes(*len) as usize);
        frames.push(frame);
        payload = rest;
    }
    frames
}

/// Whether the window of this trigger reaches beyond all that the RICH sends, so that nobody knows that its
/// record is complete.
fn is_last(time: u64, sent: &Sent) -> bool {
    time + FINE_CLOCK.ticks(Level0Config::default().after.ns()) > sent.newest
}

/// Reads a record, which has to have the event that led to it and the primitive that belongs to it.
fn read(bytes: &[u8], sent: &Sent) -> (u64, u64) {
    let record = StoredRecord::trigger_record(bytes).unwrap();
    let header = TriggerRecordHeader::new_checked(record.header()).unwrap().header();
    let time = header.trigger_timestamp;
    assert_eq!(header.error_bits != 0, is_last(time, sent), "{header:?}");
    let parts: Vec<_> = record.fragments().map(Result::unwrap).collect();
    assert_eq!(parts.len(), 2);
    let has_event = frames(parts[0].payload()).into_iter().any(|frame| {
        let datagram = mgp::Datagram::new_checked(frame).unwrap();
        datagram.events().any(|event| event.unwrap().time().fine_units() == time)
    });
    assert!(has_event, "{header:?}");
    if header.trigger_type & 1 != 0 {
        let near = |other: u64| other.abs_diff(time) < CUT;
        let expected = sent.primitives.iter().find(|(other, _)| near(*other)).unwrap();
        let has_primitive = frames(parts[1].payload()).into_iter().any(|frame| {
            let packet = mtp::Packet::new_checked(frame).unwrap();
            let mut primitives = packet.primitives();
            primitives.any(|it| (it.time.fine_units(), it.id) == *expected)
        });
        assert!(has_primitive, "{header:?}");
    }
    (time, header.trigger_type)
}

#[test]
fn primitives_that_belong_together_lead_to_records_of_both_detectors() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    std::fs::create_dir(&out).unwrap();
    let file = directory.path().join("level0.toml");
    let (rich, chod) = (free_address(), free_address());
    std::fs::write(&file, config(rich, chod, &out)).unwrap();
    let sent = sent();
    let expected = expected(&sent);
    let readout = Readout::start(&file);
    thread::sleep(QUIET);
    send(&sent, rich, chod);
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short("matching of primitives") {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    let answered = ended.ledger("answered", "delivered");
    assert_eq!(answered, sent.events.len() as u64, "{}", ended.report["ledger"]);
    assert_eq!(ended.ledger("other_primitives", "delivered"), sent.primitives.len() as u64);
    assert_eq!(ended.ledger("level0", "delivered"), expected.len() as u64);
    assert!(!ended.is_degraded(), "{}", ended.report);
    let last = expected.keys().filter(|time| is_last(**time, &sent)).count();
    assert!(last > 0);
    assert_eq!(ended.number("/recorder/incomplete"), last as u64);
    assert_eq!(ended.number("/recorder/damaged"), 0);
    let logs = std::fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().path());
    let logs: Vec<_> =
        logs.filter(|path| path.extension().is_some_and(|it| it == "glog")).collect();
    let verified = Command::new(gannet()).arg("verify").args(&logs).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
    let mut found = BTreeMap::new();
    for log in &logs {
        let mut reader = Reader::open(log).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind == Kind::TRIGGER_RECORD {
                let (time, masks) = read(chunk.payload, &sent);
                assert_eq!(found.insert(time, masks), None);
            }
        }
    }
    assert_eq!(found, expected);
}
