//! What is damaged or missing in the files is told, and the rest searched.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use gannet_dune::detector::TpcPlan;
use gannet_log::{Kind, Offer, Reader, Recorder, RecorderConfig, RunInfo};

use super::recordings::{self, RUN, calm, raw_frames, run_start};
use super::{find, find_told};

/// A log of several files, and how many frames are in it.
fn prepare() -> (tempfile::TempDir, TpcPlan, Vec<PathBuf>, u64) {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let log = [vec![run_start(&plan)], raw_frames(&calm(&plan, 900))].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, log);
    assert!(log.len() >= 4, "{}", log.len());
    (directory, plan, log, 3 * 900)
}

/// Byte at which the first chunk of raw frames of a log begins.
fn first_frames(path: &Path) -> usize {
    let mut reader = Reader::open(path).unwrap();
    while let Some((offset, header)) = reader.next_header().unwrap() {
        if header.label.kind == Kind::RAW_FRAMES {
            return offset as usize;
        }
    }
    panic!("no raw frames");
}

#[test]
fn a_damaged_chunk_costs_itself_and_exit_code_3() {
    let (directory, _, log, frames) = prepare();
    let mut bytes = fs::read(&log[1]).unwrap();
    bytes[first_frames(&log[1]) + 5000] ^= 1;
    fs::write(&log[1], bytes).unwrap();
    let out = directory.path().join("found.parquet");
    let (code, report, told) = find_told(&log, &[&"--out", &out]);
    assert_eq!((code, &report["damaged"]), (Some(3), &1.into()), "{told}");
    assert_eq!(report["total"]["frames"], frames - 40);
    assert!(told.contains("1 parts are damaged") && out.exists(), "{told}");
}

#[test]
fn a_log_that_breaks_off_is_searched_to_there() {
    let (_directory, _, log, frames) = prepare();
    let (last, others) = log.split_last().unwrap();
    let bytes = fs::read(last).unwrap();
    // Once in the middle of a chunk, once behind the last one but without the end.
    for (len, damaged) in [(first_frames(last) + 5000, 1), (bytes.len() - 4096, 0)] {
        fs::write(last, &bytes[..len]).unwrap();
        let (code, report, told) = find_told(&log, &[]);
        assert_eq!((code, &report["damaged"]), (Some(3), &damaged.into()), "{told}");
        assert_eq!(report["unfinished"][0], last.to_str().unwrap());
        assert!(told.contains("has no end") && told.contains("gannet recover"), "{told}");
        let is_all = report["total"]["frames"] == frames;
        assert_eq!(is_all, damaged == 0);
    }
    find(others, &[]);
}

#[test]
fn a_log_that_is_being_written_has_no_end_yet() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let config = RecorderConfig { directory: directory.path().into(), ..RecorderConfig::default() };
    let recorder = Recorder::start(config, RunInfo { run: RUN, ..RunInfo::default() }).unwrap();
    let handle = recorder.handle();
    let chunks = [vec![run_start(&plan)], raw_frames(&calm(&plan, 100))].concat();
    let count = chunks.len() as u64;
    for chunk in chunks {
        assert!(matches!(handle.offer(chunk), Offer::Accepted(_)));
    }
    let begin = Instant::now();
    while handle.acknowledged() < count {
        assert!(begin.elapsed() < Duration::from_secs(30), "the chunks are not written");
        std::thread::sleep(Duration::from_millis(2));
    }
    let part = handle.status().present_file.unwrap();
    let report = find(&[part], &[]);
    assert_eq!((&report["total"]["frames"], &report["unfinished"][0]), (&300.into(), &().into()));
}

#[test]
fn files_that_are_missing_in_between_are_told() {
    let (_directory, _, mut log, _) = prepare();
    let missing = log.remove(1);
    let (code, report, told) = find_told(&log, &[]);
    assert_eq!(code, Some(3), "{told}");
    let gap = &report["breaks"][0];
    assert_eq!((&gap["after"], &gap["before"]), (&log[0].to_str().into(), &log[1].to_str().into()));
    let chunks = gap["chunks"].as_u64().unwrap();
    assert!(told.contains(&format!("{chunks} chunks of the run are missing between")), "{told}");
    log.push(missing);
    find(&log, &[]);
    // Part of a run on purpose: what comes before and behind is not missed.
    find(&log[1..2], &[]);
}

#[test]
fn a_capture_that_breaks_off_is_searched_to_there() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let file = directory.path().join("x.pcap");
    recordings::capture(&file, &calm(&plan, 100));
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 100]).unwrap();
    let config = recordings::config_in(directory.path());
    let (code, report, told) = find_told(&[file], &[&"--config", &config]);
    assert_eq!((code, &report["total"]["frames"]), (Some(3), &299.into()), "{told}");
    assert!(told.contains("x.pcap") && told.contains("1 parts are damaged"), "{told}");
}

#[test]
fn masked_channels_that_nobody_reads_and_pedestals_frozen_above_all_are_told() {
    let (_directory, _, log, _) = prepare();
    let told = |options: &[&dyn AsRef<std::ffi::OsStr>]| find_told(&log, options).2;
    assert_eq!(told(&[]), "");
    let mask = told(&[&"--mask", &"9000,7,8"]);
    assert!(mask.contains("2 masked channels are not in the channel map: 7, 8"), "{mask}");
    let options = ["--chain", "fixed-pedestal", "--accum-limit", "10", "--initial-pedestal"];
    let [chain, fixed, limit, ten, pedestal] = &options;
    let frozen = told(&[chain, fixed, limit, ten, pedestal, &"16384"]);
    assert!(frozen.contains("16384 to 16294 at best"), "{frozen}");
    assert_eq!(told(&[chain, fixed, limit, ten, pedestal, &"data"]), "");
}

#[test]
fn a_search_that_is_interrupted_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let out = directory.path().join("found.parquet");
    // Some seconds of work, of which the signal cuts off most.
    let captures: Vec<_> = (0..10).map(|n| directory.path().join(format!("{n}.pcap"))).collect();
    recordings::capture(&captures[0], &calm(&plan, 900));
    for copy in &captures[1..] {
        fs::copy(&captures[0], copy).unwrap();
    }
    let mut search = Command::new(env!("CARGO_BIN_EXE_gannet"));
    search.arg("find").args(&captures).args(["--threads", "1", "--config"]);
    search.arg(recordings::config_in(directory.path())).arg("--out").arg(&out);
    let mut search = search.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let part = directory.path().join("found.parquet.part");
    let begin = Instant::now();
    while !part.exists() {
        assert!(begin.elapsed() < Duration::from_secs(30), "it does not begin");
        std::thread::sleep(Duration::from_millis(1));
    }
    let killed = Command::new("kill").args(["-INT", &search.id().to_string()]).status();
    assert!(killed.unwrap().success());
    let mut told = String::new();
    search.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(search.wait().unwrap().code(), Some(130), "{told}");
    assert!(!part.exists() && !out.exists() && told.contains("interrupted"), "{told}");
}
