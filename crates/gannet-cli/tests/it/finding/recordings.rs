//! Recordings of known frames, and what the chain finds in them.

use std::fs;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::{Path, PathBuf};

use gannet_dune::detector::{PrimitiveStream, TpcPlan};
use gannet_dune::raw_file::{Catalogue, FileInfo, RawFileWriter, RecordKind, TakenAt};
use gannet_dune::run_start::RunStart;
use gannet_dune::time_slice::SliceBuilder;
use gannet_dune::tpg::StreamTpg;
use gannet_emulate::FrontEnd;
use gannet_emulate::tpc::TpcFrontEnd;
use gannet_kernels::tpg::block;
use gannet_log::{Chunk, Kind, Label, Offer, Recorder, RecorderConfig, RunInfo};
use gannet_measure::quantity::Bytes;
use gannet_record::{Fragment, TriggerRecord};
use gannet_wire::TpcFormat;
use gannet_wire::capture::{LINK_TYPE_ETHERNET, Packet};
use gannet_wire::network::Addresses;
use gannet_wire::wibeth::{Frame, TICKS_PER_FRAME};
use gannet_wire::{
    FragmentRepr, FragmentType, SourceId, Subsystem, TriggerPrimitive, TriggerRecordRepr, ethernet,
    fragment, pcap, tpc_frame, trigger_record,
};

pub const RUN: u32 = 4711;
pub const STREAMS: usize = 3;
pub const START: u64 = 1 << 56;

/// The run. The pedestal moves with every sample, so that it is found within some 200 frames.
pub const CONFIG: &str = r#"
[run]
number = 4711
[[source]]
streams = { count = 3 }
udp = { listen = ["127.0.0.1:0"] }
[pipeline.tpg]
threshold = [50, 60, 70]
accum_limit = 0
mask = [9105]
[pipeline]
channel_map = "map.txt"
slice_ticks = 300_000
[emulate]
seed = 5
streams = { count = 3 }
tracks = { rate_hz = 3000.0 }
"#;

/// A channel map whose numbers are none that a run without one would give.
fn channel_map() -> String {
    let row = |stream: usize, channel: usize| {
        let (offline, plane) = (9000 + 64 * stream + channel, channel / 22);
        format!("{offline} 1 APA1 1 0 1 1 {plane} 1 1 1 1 {}\n", 64 * stream + channel)
    };
    (0..STREAMS).flat_map(|stream| (0..64).map(move |channel| row(stream, channel))).collect()
}

/// Writes configuration and channel map into `directory`.
pub fn plan(directory: &Path) -> TpcPlan {
    fs::write(directory.join("map.txt"), channel_map()).unwrap();
    fs::write(config_in(directory), CONFIG).unwrap();
    TpcPlan::load(&config_in(directory)).unwrap()
}

pub fn config_in(directory: &Path) -> PathBuf {
    directory.join("run.toml")
}

/// A frame with its stream.
pub type Row = (usize, Vec<u8>);

/// Emulated frames of all streams, in the order of time.
pub fn emulated(plan: &TpcPlan, frames: u64) -> Vec<Row> {
    let mut front_end = TpcFrontEnd::new(&plan.config.emulate, &plan.channel_map, START).unwrap();
    let places = (0..frames).flat_map(|index| (0..STREAMS).map(move |stream| (stream, index)));
    let frame = |(stream, index)| {
        let frame = front_end.frame(stream, index);
        (stream, frame.to_vec())
    };
    places.map(frame).collect()
}

/// Frames without noise: in each second frame every channel has a pulse, and a dip that takes back
/// what the pulse does to the pedestal.
pub fn calm(plan: &TpcPlan, frames: u64) -> Vec<Row> {
    let geo_ids: Vec<_> = plan.streams.iter().map(|stream| stream.geo_id).collect();
    let one = |index: u64, stream: usize| {
        let adc = |time: usize, channel: usize| {
            let begin = 4 + (channel + 7 * index as usize) % 20;
            let pedestal = 700 + 100 * stream as u16 + channel as u16;
            let is_in = |from: usize| index % 2 == 1 && (from..from + 6).contains(&time);
            match (is_in(begin), is_in(begin + 8)) {
                (true, _) => pedestal + 200 + 10 * (time - begin) as u16 + index as u16 % 50,
                (_, true) => pedestal - 150,
                _ => pedestal,
            }
        };
        let mut frame = vec![0; tpc_frame::FRAME_LEN];
        let mut view = Frame::new_unchecked(&mut frame[..]);
        view.daq_mut().set_geo_id(geo_ids[stream]);
        view.daq_mut().set_timestamp(START + index * TICKS_PER_FRAME);
        *view.adc_block_mut() = *block::pack(adc);
        (stream, frame)
    };
    (0..frames)
        .flat_map(|index| (0..STREAMS).map(move |s| (index, s)))
        .map(|(i, s)| one(i, s))
        .collect()
}

/// What the chain of the run finds in the frames, in the order of time.
pub fn searched(plan: &TpcPlan, frames: &[Row]) -> Vec<TriggerPrimitive> {
    let stream = |stream: &PrimitiveStream| {
        let detector = stream.geo_id.detector as u8;
        StreamTpg::new(&plan.config.pipeline.tpg, &stream.channels, detector, TpcFormat::WibEth)
            .unwrap()
    };
    let mut tpgs: Vec<_> = plan.streams.iter().map(stream).collect();
    let mut found = Vec::new();
    for (stream, frame) in frames {
        let frame = Frame::new_unchecked(&frame[..]);
        tpgs[*stream].process(frame.adc_block(), frame.timestamp(), &mut found);
    }
    found.sort_by_key(TriggerPrimitive::time_order);
    found
}

/// Primitives as slices, as a run records them.
pub fn slices(plan: &TpcPlan, primitives: &[TriggerPrimitive]) -> Vec<Chunk> {
    let mut builder = SliceBuilder::new(RUN, plan.config.pipeline.slice_ticks, 1 << 20);
    let mut slices: Vec<_> = primitives.iter().filter_map(|tp| builder.push(*tp)).collect();
    slices.extend(builder.finish());
    slices.into_iter().map(|slice| slice.into_chunk()).collect()
}

/// Raw frames, some of one stream a chunk.
pub fn raw_frames(frames: &[Row]) -> Vec<Chunk> {
    const ROWS: usize = 40;
    let chunk = |rows: &[Row], stream: usize| {
        let rows: Vec<_> =
            rows.iter().filter(|row| row.0 == stream).map(|row| &row.1[..]).collect();
        let times = rows.iter().map(|row| Frame::new_unchecked(*row).timestamp());
        let (first, last) = (times.clone().min()?, times.max()?);
        let label = Label::new(Kind::RAW_FRAMES).times(first, last).counts(rows.len() as u32, 0);
        Some(Chunk::new(label, rows.concat()))
    };
    let chunks = |rows| (0..STREAMS).filter_map(move |stream| chunk(rows, stream));
    frames.chunks(ROWS * STREAMS).flat_map(chunks).collect()
}

/// The start of the run as it is recorded.
pub fn run_start(plan: &TpcPlan) -> Chunk {
    Chunk::new(Label::new(Kind::RUN_START), RunStart::of(plan, RUN, CONFIG).encode())
}

/// Writes the files of a log, 4 MiB each, into a new directory.
pub fn log(directory: &Path, run: u32, chunks: Vec<Chunk>) -> Vec<PathBuf> {
    fs::create_dir(directory).unwrap();
    let config = RecorderConfig {
        directory: directory.into(),
        file_size_max: Bytes::mib(4),
        disk_reserve: Bytes(0),
        ..RecorderConfig::default()
    };
    let info = RunInfo { run, application: "test".into(), ..RunInfo::default() };
    let recorder = Recorder::start(config, info).unwrap();
    for chunk in chunks {
        assert!(matches!(recorder.handle().offer(chunk), Offer::Accepted(_)));
    }
    recorder.stop();
    let mut files: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// Trigger records of windows of frames, by first frame and the one behind the last.
pub fn records(frames: &[Row], windows: &[(u64, u64)]) -> Vec<TriggerRecord> {
    let record = |(number, &(begin, end)): (usize, &(u64, u64))| {
        let number = number as u64 + 1;
        let window = (START + begin * TICKS_PER_FRAME, START + end * TICKS_PER_FRAME);
        let rows = |stream: usize| {
            let is_in = |row: &&Row| {
                let timestamp = Frame::new_unchecked(&row.1[..]).timestamp();
                row.0 == stream && (window.0..window.1).contains(&timestamp)
            };
            frames.iter().filter(is_in).map(|row| &row.1[..]).collect::<Vec<_>>().concat()
        };
        let source = |stream: usize| SourceId::new(Subsystem::DetectorReadout, 100 + stream as u32);
        let of_stream = |stream: usize| {
            fragment(number, window, source(stream), FragmentType::WibEth, rows(stream))
        };
        let candidates = SourceId::new(Subsystem::Trigger, 1);
        let kind = FragmentType::TriggerCandidate;
        let mut fragments = vec![fragment(number, window, candidates, kind, Vec::new())];
        fragments.extend((0..STREAMS).map(of_stream));
        let header = TriggerRecordRepr {
            version: trigger_record::Version::V4,
            trigger_number: number,
            trigger_timestamp: window.0 + 1000,
            run_number: RUN,
            error_bits: 0,
            trigger_type: 1 << 7,
            sequence_number: 0,
            max_sequence_number: 0,
            source_id: TriggerRecord::BUILDER,
        };
        TriggerRecord { header, requests: Vec::new(), fragments }
    };
    windows.iter().enumerate().map(record).collect()
}

fn fragment(
    number: u64,
    (window_begin, window_end): (u64, u64),
    source_id: SourceId,
    fragment_type: FragmentType,
    payload: Vec<u8>,
) -> Fragment {
    let header = FragmentRepr {
        version: fragment::Version::V5,
        size: 0,
        trigger_number: number,
        trigger_timestamp: window_begin,
        window_begin,
        window_end,
        run_number: RUN,
        error_bits: 0,
        fragment_type,
        sequence_number: 0,
        detector_id: 3,
        source_id,
    };
    Fragment { header: header.with_payload_len(payload.len()), payload }
}

/// A DUNE raw file of the records.
pub fn raw_file(path: &Path, plan: &TpcPlan, records: &[TriggerRecord]) {
    let mut file = RawFileWriter::create(path, &info(plan, RecordKind::TriggerRecord)).unwrap();
    for record in records {
        file.write_trigger_record(record).unwrap();
    }
    file.close().unwrap();
}

/// A DUNE raw file of time slices, without any.
pub fn raw_file_of_slices(path: &Path, plan: &TpcPlan) {
    RawFileWriter::create(path, &info(plan, RecordKind::TimeSlice)).unwrap().close().unwrap();
}

fn info(plan: &TpcPlan, kind: RecordKind) -> FileInfo {
    FileInfo {
        kind,
        run_number: RUN,
        file_index: 0,
        application_name: "test".into(),
        geo_ids: plan
            .streams
            .iter()
            .map(|stream| (stream.source_id, vec![stream.geo_id]))
            .collect(),
        catalogue: Catalogue::default(),
        taken_at: TakenAt::default(),
        run_start: None,
    }
}

/// A capture of the frames.
pub fn capture(path: &Path, frames: &[Row]) {
    let addresses = Addresses {
        source_hardware: ethernet::Address([2, 0, 0, 0, 0, 1]),
        destination_hardware: ethernet::Address([2, 0, 0, 0, 0, 2]),
        source: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 7000),
        destination: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 2), 7001),
    };
    let mut file = Vec::new();
    let writer = pcap::Writer::new(pcap::FileHeader::new(LINK_TYPE_ETHERNET), &mut file);
    for (index, (_, frame)) in (0..).zip(frames) {
        let mut data = vec![0; addresses.buffer_len(frame.len())];
        addresses.emit(frame, &mut data).unwrap();
        let packet = Packet {
            interface: 0,
            link_type: LINK_TYPE_ETHERNET,
            timestamp_ns: Some(1_700_000_000_000_000_000 + index * 16_384),
            original_len: data.len() as u32,
            data: &data,
        };
        writer.packet(&packet, &mut file).unwrap();
    }
    fs::write(path, file).unwrap();
}

/// The files with `ending` that `gannet export` makes of each log.
pub fn exported(logs: &[PathBuf], format: &str, ending: &str) -> Vec<PathBuf> {
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"export", &"--format", &format];
    arguments.extend(logs.iter().map(|log| log as &dyn AsRef<std::ffi::OsStr>));
    let output = super::gannet(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", super::errors(&output));
    let made = |log: &PathBuf| log.to_str().unwrap().replace(".glog", ending).into();
    logs.iter().map(made).collect()
}
