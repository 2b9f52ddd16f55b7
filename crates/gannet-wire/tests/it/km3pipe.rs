//! km3pipe reads what is written here.
//!
//! `GANNET_KM3PIPE_PYTHON` names a Python that has it.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;
use std::{env, fs, process};

use gannet_measure::random::Random;
use gannet_measure::testing::skipped;
use gannet_wire::km3net::daq::{
    self, DataType, EventHeader, FrameHeader, SnapshotHit, SummaryFrame, TimeSliceWriter,
    TriggeredHit, rate_hz,
};
use gannet_wire::km3net::{CHANNELS, Hit, Status, clb};

const PYTHON: &str = "GANNET_KM3PIPE_PYTHON";
const BEGIN: u64 = 1_795_392_000_100_000_000;
const MODULES: [u32; 3] = [101, 102, 808_488_895];

fn hits(random: &mut Random, count: u64) -> Vec<Hit> {
    let hit = |random: &mut Random| Hit {
        channel: random.below(CHANNELS as u64) as u8,
        time: random.below(100_000_000) as u32,
        time_over_threshold: random.below(256) as u8,
    };
    (0..count).map(|_| hit(random)).collect()
}

fn hit_line(out: &mut String, hit: &Hit) {
    let Hit { channel, time, time_over_threshold: tot } = hit;
    writeln!(out, "hit {channel} {time} {tot}").unwrap();
}

/// Packets of optical data, as a capture, and what is to be read of them.
fn capture(random: &mut Random, expected: &mut String) -> Vec<u8> {
    let mut file = Vec::new();
    for (sequence, module) in (0..).zip(MODULES) {
        let header = clb::Header {
            data_type: clb::DataType::Optical,
            run: 7,
            udp_sequence: sequence,
            utc_seconds: 0,
            ticks: 0,
            module,
        };
        let header = header.with_begin_ns(BEGIN);
        let status = Status::new(true, 1 << 5, false, 0);
        let hits = hits(random, 100 * u64::from(sequence));
        let mut packet = vec![0; clb::optical_len(clb::OPTICAL_STATUS_WORDS, hits.len())];
        clb::emit_optical(&header, &status, clb::OPTICAL_STATUS_WORDS, &hits, &mut packet);
        file.extend(clb::capture_length(&packet));
        file.extend(packet);
        let (seconds, ticks, [status, ..]) = (header.utc_seconds, header.ticks, status.0);
        writeln!(expected, "packet TTDC 7 {sequence} {seconds} {ticks} {module} {status}").unwrap();
        hits.iter().for_each(|hit| hit_line(expected, hit));
    }
    file
}

fn header() -> daq::Header {
    let header = daq::Header { detector: 29, run: 7, frame_index: 5, ..daq::Header::default() };
    header.with_begin_ns(BEGIN)
}

fn time_slice(data_type: DataType, random: &mut Random, file: &mut Vec<u8>, expected: &mut String) {
    let header = header();
    let (seconds, nanoseconds) = (header.utc_seconds, header.ticks * 16);
    writeln!(expected, "slice 5 {seconds} {nanoseconds} {}", MODULES.len()).unwrap();
    let mut writer = TimeSliceWriter::new(data_type, &header, file);
    for module in MODULES {
        let hits = hits(random, u64::from(module % 7));
        let status = Status::new(true, 0, true, 0);
        let frame = FrameHeader { header, module, daq_status: 19 << 16 | 20, status };
        writer.frame(&frame, &hits);
        writeln!(expected, "frame {module} 29 7 5 {}", hits.len()).unwrap();
        hits.iter().for_each(|hit| hit_line(expected, hit));
    }
    writer.finish();
}

/// Codes from 128 on are left out: km3pipe takes them as less than none.
fn summary_slice(random: &mut Random, file: &mut Vec<u8>, expected: &mut String) {
    let header = daq::Header { white_rabbit: true, ..header() };
    let frames = MODULES.map(|module| SummaryFrame {
        module,
        status: Status([7, 1 << 30, 3, 4]),
        rates: std::array::from_fn(|_| random.below(128) as u8),
        ..SummaryFrame::default()
    });
    daq::emit_summary_slice(&header, &frames, file);
    let (seconds, ticks) = (header.utc_seconds, header.ticks);
    writeln!(expected, "summary 29 7 5 {seconds} {ticks} 1 {}", frames.len()).unwrap();
    for SummaryFrame { module, rates, .. } in frames {
        write!(expected, "rates {module} 7 {} 3 4", 1 << 30).unwrap();
        rates.iter().for_each(|&code| write!(expected, " {:.0}", rate_hz(code)).unwrap());
        expected.push('\n');
    }
}

fn event(random: &mut Random, file: &mut Vec<u8>, expected: &mut String) {
    let snapshot = hits(random, 40).into_iter().zip(MODULES.into_iter().cycle());
    let snapshot: Vec<_> = snapshot.map(|(hit, module)| SnapshotHit { module, hit }).collect();
    let triggered = snapshot.iter().step_by(4);
    let trigger_mask = 1 << daq::trigger_bit::MUON | 1 << daq::trigger_bit::SHOWER;
    let triggered: Vec<_> =
        triggered.map(|&snapshot| TriggeredHit { snapshot, trigger_mask }).collect();
    let header = header();
    let (seconds, ticks, trigger_counter) = (header.utc_seconds, header.ticks, 1 << 40);
    let event = EventHeader { header, trigger_counter, trigger_mask, overlays: 2 };
    daq::emit_event(&event, &triggered, &snapshot, file);
    writeln!(expected, "event 29 7 5 {seconds} {ticks} 0 {trigger_counter} {trigger_mask} 2")
        .unwrap();
    let words = |SnapshotHit { module, hit }: &SnapshotHit| {
        format!("{module} {} {} {}", hit.channel, hit.time, hit.time_over_threshold)
    };
    for hit in &triggered {
        writeln!(expected, "triggered {} {trigger_mask}", words(&hit.snapshot)).unwrap();
    }
    snapshot.iter().for_each(|hit| writeln!(expected, "snapshot {}", words(hit)).unwrap());
}

#[test]
fn km3pipe_reads_the_same_hits() {
    let Some(python) = env::var_os(PYTHON) else {
        return skipped("files read by km3pipe", format!("set {PYTHON} to a Python that has it"));
    };
    let (mut random, mut expected) = (Random::new(3), String::new());
    let capture = capture(&mut random, &mut expected);
    let mut objects = Vec::new();
    for data_type in [DataType::TimeSliceL0, DataType::TimeSliceL1, DataType::TimeSliceSn] {
        time_slice(data_type, &mut random, &mut objects, &mut expected);
    }
    summary_slice(&mut random, &mut objects, &mut expected);
    event(&mut random, &mut objects, &mut expected);
    event(&mut random, &mut objects, &mut expected);
    let directory = env::temp_dir().join(format!("gannet-km3pipe-{}", process::id()));
    fs::create_dir_all(&directory).unwrap();
    let files = ["capture.dqd", "objects.dat"].map(|name| directory.join(name));
    fs::write(&files[0], capture).unwrap();
    fs::write(&files[1], objects).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/judges/km3pipe_files.py");
    let output = Command::new(python).arg(script).args(&files).output().unwrap();
    fs::remove_dir_all(directory).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    // km3pipe tells what it does as well.
    let told = ["packet", "hit", "slice", "frame", "summary", "rates", "event", "triggered"];
    let is_told = |line: &&str| {
        let first = line.split(' ').next().unwrap_or_default();
        told.contains(&first) || ["snapshot", "bytes"].contains(&first)
    };
    let read: Vec<&str> = text.lines().filter(is_told).collect();
    assert_eq!(read, expected.lines().collect::<Vec<_>>());
}
