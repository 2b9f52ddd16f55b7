//! Streams recorded as they come: the log holds every frame that was taken, and the chain finds in
//! them what it found live.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use gannet_dune::raw_file::RawFileReader;
use gannet_dune::tpg::StreamTpg;
use gannet_emulate::FrontEnd;
use gannet_log::{ChunkView, Kind, Reader, verify};
use gannet_readout::raw_stream::CHUNK_FRAMES;
use gannet_wire::TpcFormat;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{Fragment, GeoId, daq_ethernet, trigger_primitive, wibeth};
use serde_json::Value;

use crate::readout::equality::recorded;
use crate::readout::process::{Bench, Readout, alone, gannet};

/// Bytes of the frames of a full chunk.
const CHUNK_BYTES: u64 = (CHUNK_FRAMES * FRAME_LEN) as u64;

/// Four streams at a tenth of the true rate, with tracks that trigger.
fn config(emulate: &str) -> String {
    format!(
        r#"
        [[source]]
        streams = {{ count = 4 }}
        udp = {{ listen = ["127.0.0.1:0"] }}
        [pipeline.tpg]
        threshold = [60, 60, 60]
        [emulate]
        seed = 5
        streams = {{ count = 4 }}
        pace = {{ rate_scale = 0.1 }}
        tracks = {{ rate_hz = 200.0 }}
        {emulate}
        "#
    )
}

/// Calls `take` with each chunk of raw frames of the log.
fn raw_chunks(bench: &Bench, mut take: impl FnMut(&ChunkView<'_>)) {
    for file in bench.files() {
        assert!(verify(&file).unwrap().is_complete());
        let mut reader = Reader::open(&file).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind == Kind::RAW_FRAMES {
                take(&chunk);
            }
        }
    }
}

/// Frames of the log by stream, in its order; each chunk must be as it says.
fn raw_frames(bench: &Bench) -> BTreeMap<GeoId, Vec<Vec<u8>>> {
    let mut streams: BTreeMap<GeoId, Vec<Vec<u8>>> = BTreeMap::new();
    raw_chunks(bench, |chunk| {
        let frames = chunk.payload.chunks_exact(FRAME_LEN);
        let label = &chunk.header.label;
        assert!(frames.remainder().is_empty() && frames.len() <= CHUNK_FRAMES);
        assert_eq!((label.items as usize, label.items_missing), (frames.len(), 0));
        let headers = frames.clone().map(daq_ethernet::Header::new_unchecked);
        let times: Vec<u64> = headers.clone().map(|daq| daq.timestamp()).collect();
        assert!(times.is_sorted_by(|one, next| one < next));
        assert_eq!([label.first_ticks, label.last_ticks], [times[0], times[times.len() - 1]]);
        let geo_ids: Vec<GeoId> = headers.map(|daq| daq.geo_id()).collect();
        assert!(geo_ids.iter().all(|geo_id| *geo_id == geo_ids[0]), "one stream a chunk");
        streams.entry(geo_ids[0]).or_default().extend(frames.map(<[u8]>::to_vec));
    });
    streams
}

/// The primitives that the chain finds in the frames of the log, sorted.
fn found_again(bench: &Bench, streams: &BTreeMap<GeoId, Vec<Vec<u8>>>) -> Vec<[u64; 3]> {
    let mut found = Vec::new();
    for planned in bench.tpc().streams.iter() {
        let Some(frames) = streams.get(&planned.geo_id) else { continue };
        let detector = planned.geo_id.detector as u8;
        let config = &bench.tpc().config.pipeline.tpg;
        let mut tpg =
            StreamTpg::new(config, &planned.channels, detector, TpcFormat::WibEth).unwrap();
        for frame in frames {
            let frame = wibeth::Frame::new_unchecked(&frame[..]);
            assert!(tpg.process(frame.adc_block(), frame.timestamp(), &mut found));
        }
    }
    let mut words: Vec<_> = found.iter().map(|primitive| primitive.words).collect();
    words.sort_unstable();
    words
}

/// The primitives that `gannet find` finds in the log without being told anything else, sorted.
fn found_by_the_program(bench: &Bench) -> Vec<[u64; 3]> {
    let out = bench.directory.path().join("found.hdf5");
    let output = gannet_on_files(bench, &["find", "--out", out.to_str().unwrap()]);
    // Exit code 3 where the recording lacks frames: the search is complete all the same.
    let is_complete = matches!(output.status.code(), Some(0 | 3));
    assert!(is_complete, "{}", String::from_utf8_lossy(&output.stderr));
    let file = RawFileReader::open(&out).unwrap();
    let entries = file.records().iter().flat_map(|slice| slice.entries().unwrap());
    let mut words = Vec::new();
    for bytes in entries.map(|entry| entry.bytes().unwrap()) {
        let Ok(fragment) = Fragment::new_checked(&bytes) else { continue };
        let found = trigger_primitive::primitives(fragment.payload()).unwrap();
        words.extend(found.map(|primitive| primitive.words));
    }
    words.sort_unstable();
    words
}

/// The frames are those that the emulator made, from its first on.
fn assert_emulated(bench: &Bench, streams: &BTreeMap<GeoId, Vec<Vec<u8>>>) {
    let first = |frames: &Vec<Vec<u8>>| daq_ethernet::Header::new_unchecked(&frames[0]).timestamp();
    let mut config = bench.tpc().config.emulate.clone();
    config.start_timestamp = streams.values().map(first).min();
    let mut emulator = config.emulator(&bench.tpc().channel_map, 0).unwrap();
    let mut expected = [0; FRAME_LEN];
    for (stream, planned) in bench.tpc().streams.iter().enumerate() {
        for (index, frame) in (0..).zip(&streams[&planned.geo_id]) {
            expected.copy_from_slice(&emulator.front_end().frame(stream, index));
            assert!(frame[..] == expected, "stream {stream}, frame {index}");
        }
    }
}

/// The output of the binary with these arguments and then the files of the bench.
fn gannet_on_files(bench: &Bench, arguments: &[&str]) -> Output {
    Command::new(gannet()).args(arguments).args(bench.files()).output().unwrap()
}

#[test]
fn the_log_holds_every_frame_from_the_first_on_and_gives_the_same_primitives() {
    let _alone = alone();
    let bench = Bench::with_recorder(&config(""), "raw_streams = \"all\"");
    let frames = 4000;
    let (_, ended) = bench.run(frames);
    if ended.kernel_was_short("raw streams") {
        return;
    }
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    for figure in ["offered", "delivered"] {
        assert_eq!(ended.ledger("raw_frames", figure), 4 * frames);
    }
    assert_eq!(ended.number("/recorder/raw_bytes"), 4 * frames * FRAME_LEN as u64);
    assert!(ended.number("/trigger/decisions") > 0);

    let streams = raw_frames(&bench);
    assert!(streams.values().all(|recorded| recorded.len() as u64 == frames));
    assert_emulated(&bench, &streams);
    let live = recorded(&bench);
    assert!(live.len() > 100, "{}", live.len());
    assert!(found_again(&bench, &streams) == live, "{} primitives differ", live.len());
    assert!(found_by_the_program(&bench) == live, "{} primitives differ", live.len());
}

/// Frames that come twice, late or never: the log holds those that were searched, in that order.
#[test]
fn faulty_streams_give_the_same_primitives_too() {
    let _alone = alone();
    let faults = "faults = { loss = 0.01, duplicate = 0.01, reorder = 0.01, reorder_distance = 3, \
                  timestamp_jump = 0.001 }";
    let bench = Bench::with_recorder(&config(faults), "raw_streams = \"all\"");
    let (_, ended) = bench.run(4000);
    if ended.kernel_was_short("faulty raw streams") {
        return;
    }
    assert!(ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    let searched = ended.ledger("tpg", "delivered");
    assert!(ended.ledger("tpg", "late") > 0, "{}", ended.report);
    assert_eq!(ended.ledger("raw_frames", "offered"), searched);
    assert_eq!(ended.ledger("raw_frames", "delivered"), searched);
    let streams = raw_frames(&bench);
    assert_eq!(streams.values().map(Vec::len).sum::<usize>() as u64, searched);
    let live = recorded(&bench);
    assert!(found_again(&bench, &streams) == live, "{} primitives differ", live.len());
    assert!(found_by_the_program(&bench) == live, "{} primitives differ", live.len());
}

#[test]
fn only_the_streams_that_are_listed_are_recorded() {
    let _alone = alone();
    let bench = Bench::with_recorder(&config(""), "raw_streams = [\"3/1/0/1\"]");
    let (_, ended) = bench.run(500);
    if ended.kernel_was_short("listed raw streams") {
        return;
    }
    let streams = raw_frames(&bench);
    assert_eq!(streams.keys().map(GeoId::to_string).collect::<Vec<_>>(), ["3/1/0/1"]);
    assert_eq!(streams.values().map(Vec::len).sum::<usize>(), 500);
    assert_eq!(ended.ledger("raw_frames", "delivered"), 500);
}

/// Records stand before raw frames of the same time in the log; the readout of the replay still
/// gets each frame once, in order.
#[test]
fn a_replay_gives_the_same_frames_and_primitives_to_another_readout() {
    let _alone = alone();
    let bench = Bench::with_recorder(&config(""), "raw_streams = \"all\"");
    let again = Bench::with_recorder(&config(""), "raw_streams = \"all\"");
    let (_, ended) = bench.run(3000);
    if ended.kernel_was_short("replay of raw streams") {
        return;
    }
    assert!(ended.number("/recorder/records") > 0);
    let readout = Readout::start(&again.config());
    let to = readout.address.to_string();
    let output = gannet_on_files(&bench, &["replay", "--to", &to, "--rate-scale", "0.1", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let replayed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(replayed["datagrams"], 4 * 3000);
    let ended = readout.stop();
    if ended.kernel_was_short("replay of raw streams") {
        return;
    }
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert!(raw_frames(&again) == raw_frames(&bench));
    assert!(recorded(&again) == recorded(&bench));
}

#[test]
fn what_a_killed_run_leaves_is_recovered_from_the_first_frame_on() {
    let _alone = alone();
    let text = config("[metrics]\nlisten = \"127.0.0.1:0\"");
    // Nothing but raw frames takes room in the log.
    let text = text.replace("rate_hz = 200.0", "rate_hz = 0.0");
    let bench = Bench::with_recorder(&text, "raw_streams = \"all\"");
    let readout = Readout::start(&bench.config());
    let sending = bench.emulate(readout.address, Some(6000));
    let begin = Instant::now();
    // Safe bytes: at least two chunks of each stream.
    while readout.snapshot()["recorder"]["bytes"].as_u64() < Some(8 * CHUNK_BYTES) {
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", readout.snapshot());
        thread::sleep(Duration::from_millis(10));
    }
    readout.kill();
    sending.join().unwrap();
    assert_eq!(gannet_on_files(&bench, &["verify"]).status.code(), Some(6));
    assert_eq!(gannet_on_files(&bench, &["recover"]).status.code(), Some(0));
    // What was just being written at the kill is set aside, and is no log.
    let is_torn = |file: &&PathBuf| file.to_str().unwrap().contains(".glog.torn_");
    bench.files().iter().filter(is_torn).for_each(|torn| fs::remove_file(torn).unwrap());
    let verified = gannet_on_files(&bench, &["verify"]);
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
    let streams = raw_frames(&bench);
    assert_eq!(streams.len(), 4);
    let bytes: usize = streams.values().flatten().map(Vec::len).sum();
    assert!(bytes as u64 >= 4 * CHUNK_BYTES, "{bytes}");
    assert_emulated(&bench, &streams);
}

#[test]
fn raw_frames_are_listed_and_leave_the_log_on_demand() {
    let _alone = alone();
    let bench = Bench::with_recorder(&config(""), "raw_streams = [\"3/1/0/2\"]");
    let (_, ended) = bench.run(500);
    if ended.kernel_was_short("raw frames in a listing") {
        return;
    }
    let listed = gannet_on_files(&bench, &["inspect", "--json"]);
    let listed: Vec<Value> = serde_json::from_slice(&listed.stdout).unwrap();
    let raw: Vec<_> = listed.iter().filter(|entry| entry["kind"] == "raw frames").collect();
    assert!(raw.iter().all(|entry| entry["stream"] == "3/1/0/2"), "{raw:?}");
    assert_eq!(raw.iter().map(|entry| entry["items"].as_u64().unwrap()).sum::<u64>(), 500);
    let place = raw[0]["chunk"].to_string();
    let printed = gannet_on_files(&bench, &["inspect", "--chunk", &place]);
    let printed = String::from_utf8(printed.stdout).unwrap();
    let header = printed.lines().next().unwrap();
    assert!(header.contains("raw frames") && header.contains("stream 3/1/0/2  ticks"), "{header}");
    assert!(printed.lines().count() > 16, "{printed}");

    let export = |formats: &[&str]| {
        let exported = gannet_on_files(&bench, &[&["export", "--json"], formats].concat());
        let reports: Value = serde_json::from_slice(&exported.stdout).unwrap();
        let figures = ["raw_frames", "raw_frames_kept"].map(|name| reports[0][name].clone());
        (figures, reports, String::from_utf8(exported.stderr).unwrap())
    };
    let (figures, _, told) = export(&["--format", "parquet"]);
    assert_eq!(figures, [0, 500]);
    assert!(told.contains("500 raw frames stay in the log"), "{told}");
    let (figures, reports, _) = export(&["--format", "raw"]);
    assert_eq!(figures, [500, 0]);
    assert!(reports[0]["files"][0].as_str().unwrap().ends_with("_raw.hdf5"), "{reports}");
}
