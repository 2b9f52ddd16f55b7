//! Raw frames give what the run recorded.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use gannet_log::Chunk;
use gannet_wire::wibeth::Frame;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::record;

use super::recordings::{self, RUN, Row, emulated, raw_frames, run_start, searched, slices};
use super::{Slice, find, find_told, gannet, primitives_in, slices_in};

const FRAMES: u64 = 600;

/// What `gannet export` makes of a log of the slices: a table, and slices.
fn exported(directory: &Path, chunks: Vec<Chunk>) -> (Vec<record::Row>, Vec<Slice>) {
    let log = recordings::log(&directory.join("recorded"), RUN, chunks);
    assert_eq!(gannet(&[&"export", &log[0]]).status.code(), Some(0));
    let made = |ending: &str| {
        let name = log[0].to_str().unwrap().replace(".glog", ending);
        std::path::PathBuf::from(name)
    };
    (rows(&made("_tps.parquet")), slices_in(&made("_tps.hdf5")))
}

/// The rows of a table.
fn rows(table: &Path) -> Vec<record::Row> {
    let table = SerializedFileReader::new(fs::File::open(table).unwrap()).unwrap();
    table.get_row_iter(None).unwrap().map(Result::unwrap).collect()
}

#[test]
fn raw_frames_from_the_start_give_what_the_run_recorded_record_for_record() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let plan = recordings::plan(directory.path());
    let frames = emulated(&plan, FRAMES);
    let expected = searched(&plan, &frames);
    assert!(expected.len() > 1000, "{}", expected.len());
    let recorded = slices(&plan, &expected);
    assert!(recorded.len() > 3);

    let chunks = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let mut log = recordings::log(&at("log"), RUN, chunks);
    assert!(log.len() > 2, "the run has several files");
    log.reverse();
    let (table, slices) = exported(directory.path(), [vec![run_start(&plan)], recorded].concat());
    for threads in ["1", "2", "5"] {
        let (parquet, hdf5) = (at("found.parquet"), at("found.hdf5"));
        let options = ["--threads", threads, "--overwrite", "--out"];
        let report = find(
            &log,
            &[&options[0], &options[1], &options[2], &"--out", &parquet, &"--out", &hdf5],
        );
        assert_eq!(report["total"]["tps"], expected.len(), "{report}");
        assert_eq!((&report["pedestals"], &report["source"]), (&"run".into(), &"raw".into()));
        assert_eq!(
            (&report["total"]["frames"], &report["total"]["gaps"]),
            (&(3 * FRAMES).into(), &0.into())
        );
        assert_eq!((&report["run"], &report["out_of_order"]), (&RUN.into(), &0.into()));
        assert!(slices_in(&hdf5) == slices, "{threads} threads: the slices differ");
        assert!(rows(&parquet) == table, "{threads} threads: the tables differ");
    }
}

#[test]
fn exported_raw_frames_give_what_the_log_gives() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let plan = recordings::plan(directory.path());
    let frames = emulated(&plan, FRAMES);
    let expected = searched(&plan, &frames);
    let chunks = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&at("log"), RUN, chunks);
    let mut exported = recordings::exported(&log, "raw", "_raw.hdf5");
    exported.reverse();
    let report = find(&log, &[]);
    let from_export = find(&exported, &[&"--out", &at("found.hdf5")]);
    assert!(primitives_in(&at("found.hdf5")) == expected, "{from_export}");
    for told in ["run", "total", "tpg", "pedestals", "source", "streams"] {
        assert_eq!(from_export[told], report[told]);
    }
    // A later file alone tells channels too, but not where pedestals were at its start.
    let later = find(&exported[..1], &[]);
    assert_eq!((&later["pedestals"], &later["tpg"]), (&"data".into(), &report["tpg"]));

    // All of one kind.
    let records = at("records.hdf5");
    recordings::raw_file(&records, &plan, &recordings::records(&frames, &[(0, 9)]));
    let (code, _, told) = find_told(&[exported[0].clone(), records], &[]);
    assert_eq!(code, Some(1));
    assert!(told.contains("records.hdf5 is of another kind"), "{told}");
}

#[test]
fn the_start_is_found_in_the_first_file_that_is_a_log_of_the_run() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let frames = emulated(&plan, FRAMES);
    let chunks = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, chunks);
    let (first, last) = (&log[0], log[log.len() - 1..].to_vec());
    let expected = find(&last, &[]);
    assert_eq!(expected["pedestals"], "data");
    // Something else had the first name, so the run took another. Another run has its number.
    let named = |index: &str| PathBuf::from(first.to_str().unwrap().replace("_f0000", index));
    fs::rename(first, named("0_f0001")).unwrap();
    let other = recordings::log(&directory.path().join("other"), RUN, vec![run_start(&plan)]);
    fs::rename(&other[0], named("0_f0000")).unwrap();
    for trap in 0..4 {
        match trap {
            0 => fs::write(first, "holiday pictures").unwrap(),
            1 => fs::create_dir(first).unwrap(),
            2 => std::os::unix::fs::symlink("/dev/zero", first).unwrap(),
            _ => assert!(Command::new("mkfifo").arg(first).status().unwrap().success()),
        }
        let report = find(&last, &[]);
        assert_eq!((&report["tpg"], &report["total"]), (&expected["tpg"], &expected["total"]));
        assert!(fs::remove_file(first).or_else(|_| fs::remove_dir(first)).is_ok());
    }
}

#[test]
fn a_capture_and_the_configuration_give_what_the_run_found() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let plan = recordings::plan(directory.path());
    let frames = emulated(&plan, 300);
    let expected = searched(&plan, &frames);
    let capture = at("capture.pcap");
    recordings::capture(&capture, &frames);
    let config = recordings::config_in(directory.path());
    let options: [&dyn AsRef<std::ffi::OsStr>; 6] =
        [&"--config", &config, &"--initial-pedestal", &"run", &"--out", &at("capture.hdf5")];
    let report = find(&[capture], &options);
    assert_eq!(report["source"], "capture");
    assert!(!expected.is_empty());
    assert!(primitives_in(&at("capture.hdf5")) == expected);
}

#[test]
fn missing_displaced_and_doubled_frames_are_counted_truly_and_sorted() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("found.hdf5");
    let plan = recordings::plan(directory.path());
    let mut frames = emulated(&plan, 400);
    let index = |row: &Row| (Frame::new_unchecked(&row.1[..]).timestamp() >> 11) % 400;
    let complete = searched(&plan, &frames);
    // Frames of stream 1 are lost one by one, and all streams have an outage.
    let is_lost = |row: &Row| row.0 == 1 && index(row) % 7 == 0 && index(row) > 0;
    let is_outage = |row: &Row| (250..253).contains(&index(row));
    let lost = frames.iter().filter(|row| is_lost(row) || is_outage(row)).count();
    frames.retain(|row| !is_lost(row) && !is_outage(row));
    let expected = searched(&plan, &frames);
    assert!(expected != complete && expected.len() > 100);
    // Frames of one stream come after the next of it, and some come twice.
    for place in (600..900).step_by(60) {
        frames.swap(place, place + 30);
        frames.insert(place + 20, frames[place + 15].clone());
    }
    let log = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, log);
    let (code, report, told) = find_told(&log, &[&"--out", &out]);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains(&format!("{lost} frames are missing in the files")), "{told}");
    assert!(primitives_in(&out) == expected, "{report}");
    let total = |name: &str| report["total"][name].as_u64().unwrap();
    assert_eq!((total("missing"), total("repeated"), total("late")), (lost as u64, 5, 0));
    assert!(total("gaps") > 50 && total("sorted") > 5 && total("hits_cut") > 0, "{report}");
}

#[test]
fn options_change_the_chain_as_the_configuration_would() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("found.hdf5");
    let mut plan = recordings::plan(directory.path());
    let frames = emulated(&plan, 300);
    let log = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, log);
    plan.config.pipeline.tpg.chain = gannet_dune::tpg::Chain::AbsRs;
    plan.config.pipeline.tpg.threshold = [90, 95, 100];
    plan.config.pipeline.tpg.sot_minimum = [2; 3];
    plan.config.pipeline.tpg.memory_factor = [7; 3];
    plan.config.pipeline.tpg.scale_factor = [2, 3, 4];
    plan.config.pipeline.tpg.accum_limit = 1;
    plan.config.pipeline.tpg.initial_pedestal = gannet_dune::tpg::InitialPedestal::Counts(8000);
    plan.config.pipeline.tpg.mask = (9000..9030).collect();
    let options = "--chain abs-rs --threshold 90,95,100 --sot-minimum 2 --memory-factor 7 \
                   --scale-factor 2,3,4 --accum-limit 1 --initial-pedestal 8000 \
                   --mask 9000-9029 --isa scalar --out";
    let options: Vec<&str> = options.split_whitespace().collect();
    let mut options: Vec<&dyn AsRef<std::ffi::OsStr>> = options.iter().map(|o| o as _).collect();
    options.push(&out);
    let report = find(&log, &options);
    let expected = searched(&plan, &frames);
    assert!(!expected.is_empty() && report["isa"] == "scalar");
    assert!(primitives_in(&out) == expected, "{report}");
}

#[test]
fn a_scan_counts_what_each_threshold_gives() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let frames = emulated(&plan, 400);
    let log = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, log);
    let scan = find(&log, &[&"--scan-threshold", &"40..120:40"]);
    let tried = scan["thresholds"].as_array().unwrap();
    assert_eq!(tried.len(), 3);
    let mut last = u64::MAX;
    for (threshold, tried) in [40, 80, 120].into_iter().zip(tried) {
        let alone = find(&log, &[&"--threshold", &threshold.to_string()]);
        let tps = tried["tps"].as_u64().unwrap();
        assert_eq!((&tried["threshold"], &alone["total"]["tps"]), (&threshold.into(), &tps.into()));
        assert!(tps > 0 && tps < last, "{scan}");
        let rate = tps as f64 / (3.0 * 64.0 * 400.0 * 32.768e-6);
        assert!((tried["hz_per_channel"].as_f64().unwrap() / rate - 1.0).abs() < 1e-9, "{scan}");
        last = tps;
    }
}
