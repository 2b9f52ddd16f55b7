//! The same frames, recorded in files of every kind.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use gannet_dune::raw_file::{Catalogue, FileInfo, RawFileWriter, RecordKind, TakenAt};
use gannet_emulate::FrontEnd;
use gannet_emulate::tpc::{Config, TpcFrontEnd};
use gannet_log::{Chunk, Kind, Label, Offer, Recorder, RecorderConfig, RunInfo};
use gannet_record::{Fragment, TriggerRecord};
use gannet_wire::capture::{ByteOrder, LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::{
    ChannelMap, FragmentRepr, FragmentType, SourceId, Subsystem, TriggerRecordRepr, ethernet,
    fragment, pcap, pcapng, trigger_record, wibeth,
};

pub const STREAMS: usize = 2;
/// Frames of each stream.
pub const FRAMES: u64 = 20;
const RUN: u32 = 4711;
const START: u64 = 1 << 56;

/// Frames of all streams in the order of time: first the one, then the other stream.
pub fn frames() -> Vec<Vec<u8>> {
    let mut config = Config { start_timestamp: Some(START), ..Config::default() };
    config.streams.count = STREAMS;
    let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
    let mut front_end = TpcFrontEnd::new(&config, &map, START).unwrap();
    let places = (0..FRAMES).flat_map(|index| (0..STREAMS).map(move |stream| (stream, index)));
    let frame = |(stream, index)| {
        let frame = front_end.frame(stream, index);
        frame.to_vec()
    };
    places.map(frame).collect()
}

/// Ethernet frames of all `frames`, one every 16 us, with a stray packet before each tenth.
fn packets(frames: &[Vec<u8>]) -> Vec<(u64, Vec<u8>)> {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7000),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7001),
    };
    let mut packets = Vec::new();
    for (index, frame) in (0..).zip(frames) {
        let time_ns = 1_700_000_000_000_000_000 + index * 16_384;
        if index % 10 == 0 {
            let arp = [&[0xff; 6][..], &[2, 0, 0, 0, 0, 1, 0x08, 0x06], &[0; 46]].concat();
            packets.push((time_ns, arp));
        }
        let mut bytes = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(frame, &mut bytes).unwrap();
        packets.push((time_ns, bytes));
    }
    packets
}

fn packet((time_ns, data): &(u64, Vec<u8>)) -> Packet<'_> {
    Packet {
        interface: 0,
        link_type: LINK_TYPE_ETHERNET,
        timestamp_ns: Some(*time_ns),
        original_len: data.len() as u32,
        data,
    }
}

pub fn pcap_file(directory: &Path, frames: &[Vec<u8>]) -> PathBuf {
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    packets(frames).iter().for_each(|p| writer.packet(&packet(p), &mut file).unwrap());
    let path = directory.join("capture.pcap");
    fs::write(&path, file).unwrap();
    path
}

pub fn pcapng_file(directory: &Path, frames: &[Vec<u8>]) -> PathBuf {
    let mut file = Vec::new();
    let mut writer = pcapng::Writer::new(ByteOrder::Little, &mut file);
    writer.interface(pcapng::Interface::new(LINK_TYPE_ETHERNET), &mut file).unwrap();
    packets(frames).iter().for_each(|p| writer.packet(&packet(p), &mut file).unwrap());
    let path = directory.join("capture.pcapng");
    fs::write(&path, file).unwrap();
    path
}

/// Two records whose windows overlap and together hold all frames, each with a fragment of
/// primitives.
fn records(frames: &[Vec<u8>]) -> [TriggerRecord; 2] {
    let middle = FRAMES as usize / 2;
    let window = |number: u64, rows: std::ops::Range<usize>| {
        let stream = |stream: usize| {
            let rows = rows.clone().map(|row| &frames[row * STREAMS + stream][..]);
            let source = SourceId::new(Subsystem::DetectorReadout, 100 + stream as u32);
            fragment(number, source, FragmentType::WibEth, rows.collect::<Vec<_>>().concat())
        };
        let primitives = SourceId::new(Subsystem::Trigger, 0);
        let mut fragments =
            vec![fragment(number, primitives, FragmentType::TriggerPrimitive, vec![0; 48])];
        // The order of the fragments must not matter.
        fragments.extend((0..STREAMS).rev().map(stream));
        TriggerRecord { header: header(number), requests: Vec::new(), fragments }
    };
    [window(1, 0..middle + 3), window(2, middle - 2..FRAMES as usize)]
}

fn header(number: u64) -> TriggerRecordRepr {
    TriggerRecordRepr {
        version: trigger_record::Version::V4,
        trigger_number: number,
        trigger_timestamp: START,
        run_number: RUN,
        error_bits: 0,
        trigger_type: 1 << 7,
        sequence_number: 0,
        max_sequence_number: 0,
        source_id: TriggerRecord::BUILDER,
    }
}

fn fragment(number: u64, source_id: SourceId, kind: FragmentType, payload: Vec<u8>) -> Fragment {
    let header = FragmentRepr {
        version: fragment::Version::V5,
        size: 0,
        trigger_number: number,
        trigger_timestamp: START,
        window_begin: START,
        window_end: START + FRAMES * wibeth::TICKS_PER_FRAME,
        run_number: RUN,
        error_bits: 0,
        fragment_type: kind,
        sequence_number: 0,
        detector_id: 3,
        source_id,
    };
    Fragment { header: header.with_payload_len(payload.len()), payload }
}

/// Frames of the records that both of them hold.
pub const REPEATED: u64 = 5 * STREAMS as u64;

pub fn raw_file(directory: &Path, frames: &[Vec<u8>]) -> PathBuf {
    let info = FileInfo {
        kind: RecordKind::TriggerRecord,
        run_number: RUN,
        file_index: 0,
        application_name: "gannet".into(),
        geo_ids: Default::default(),
        catalogue: Catalogue::default(),
        taken_at: TakenAt::default(),
        run_start: None,
    };
    let mut file = RawFileWriter::create(&directory.join("records.hdf5"), &info).unwrap();
    for record in &records(frames) {
        file.write_trigger_record(record).unwrap();
    }
    file.close().unwrap()
}

/// Frames of each stream that the second record holds.
pub const SECOND: usize = FRAMES as usize / 2 + 2;

/// A log of the records, of a chunk that is neither, and of the last frames as raw frames again.
pub fn log_file(directory: &Path, frames: &[Vec<u8>]) -> PathBuf {
    let raw = frames[frames.len() - STREAMS..].concat();
    let mut chunks: Vec<_> = records(frames).into_iter().map(TriggerRecord::into_chunk).collect();
    chunks.push(primitives());
    let label = Label::new(Kind::RAW_FRAMES).counts(STREAMS as u32, 0);
    chunks.push(Chunk::new(label, raw));
    write_log(&directory.join("log"), chunks)
}

/// A log without frames.
pub fn log_without_frames(directory: &Path) -> PathBuf {
    write_log(&directory.join("log_without_frames"), vec![primitives()])
}

fn primitives() -> Chunk {
    Chunk::new(Label::new(Kind::TP_SLICE), vec![1; 100])
}

fn write_log(directory: &Path, chunks: Vec<Chunk>) -> PathBuf {
    fs::create_dir(directory).unwrap();
    let config = RecorderConfig { directory: directory.into(), ..RecorderConfig::default() };
    let recorder = Recorder::start(config, RunInfo { run: RUN, ..RunInfo::default() }).unwrap();
    for chunk in chunks {
        assert!(matches!(recorder.handle().offer(chunk), Offer::Accepted(_)));
    }
    recorder.stop();
    fs::read_dir(directory).unwrap().next().unwrap().unwrap().path()
}
