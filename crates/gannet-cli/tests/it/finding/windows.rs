//! Windows of trigger records give what the whole stream gives inside them.

use std::collections::HashSet;
use std::path::PathBuf;

use gannet_record::TriggerRecord;
use gannet_wire::TriggerPrimitive;
use gannet_wire::wibeth::TICKS_PER_FRAME;

use super::recordings::{self, RUN, START, calm, raw_frames, records, run_start, searched};
use super::{find, primitives_in};

/// First frames, and frames behind the last; two windows overlap by more than a stream may be late.
const WINDOWS: [(u64, u64); 4] = [(300, 310), (312, 400), (330, 420), (450, 460)];

fn is_inside(tp: &TriggerPrimitive) -> bool {
    let index = (tp.time_start() - START) / TICKS_PER_FRAME;
    WINDOWS.iter().any(|(begin, end)| (*begin..*end).contains(&index))
}

#[test]
fn windows_give_what_the_whole_stream_gives_in_them_from_log_and_raw_file() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let plan = recordings::plan(directory.path());
    let frames = calm(&plan, 500);
    let whole = searched(&plan, &frames);
    let expected: Vec<_> = whole.iter().copied().filter(is_inside).collect();
    assert!(expected.len() > 5000, "{}", expected.len());

    let windows = records(&frames, &WINDOWS);
    let chunks = windows.iter().cloned().map(TriggerRecord::into_chunk).collect();
    let log = recordings::log(&at("log"), RUN, [vec![run_start(&plan)], chunks].concat());
    let report = find(&log, &[&"--out", &at("log.hdf5")]);
    assert!(primitives_in(&at("log.hdf5")) == expected, "{report}");
    assert_eq!((&report["pedestals"], &report["source"]), (&"data".into(), &"records".into()));
    assert_eq!(report["total"]["repeated"], 3 * 70, "{report}");
    assert_eq!(report["total"]["gaps"], 3 * 2, "{report}");

    let exported = recordings::exported(&log, "hdf5", ".hdf5");
    let from_export = find(&exported, &[&"--out", &at("exported.hdf5")]);
    assert!(primitives_in(&at("exported.hdf5")) == expected, "{from_export}");
    for told in ["run", "total", "tpg", "pedestals", "source", "streams"] {
        assert_eq!(from_export[told], report[told]);
    }

    let raw = at("raw.hdf5");
    recordings::raw_file(&raw, &plan, &windows);
    let config = recordings::config_in(directory.path());
    let from_raw = find(&[raw], &[&"--config", &config, &"--out", &at("found.hdf5")]);
    assert!(primitives_in(&at("found.hdf5")) == expected, "{from_raw}");
    assert_eq!(from_raw["total"], report["total"]);

    // The pedestal of a run that begins above all samples has no time to come down.
    let short = find(&log[..1], &[&"--initial-pedestal", &"run"]);
    assert!(short["total"]["tps"].as_u64() < Some(expected.len() as u64), "{short}");
}

#[test]
fn with_a_map_alone_the_streams_of_a_raw_file_are_searched_by_the_published_chain() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let plan = recordings::plan(directory.path());
    let raw = at("raw.hdf5");
    recordings::raw_file(&raw, &plan, &records(&calm(&plan, 400), &WINDOWS[..1]));
    let map = at("map.txt");
    let report = find(&[raw], &[&"--channel-map", &map, &"--out", &at("found.hdf5")]);
    let numbers: Vec<u32> =
        plan.streams.iter().flat_map(|stream| stream.channels.offline).collect();
    let found = primitives_in(&at("found.hdf5"));
    assert!(!found.is_empty() && found.iter().all(|tp| numbers.contains(&tp.channel())));
    assert_eq!(report["tpg"]["threshold"], serde_json::json!([100, 100, 100]));
}

#[test]
fn raw_frames_are_taken_before_records_unless_records_are_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let frames = calm(&plan, 120);
    let chunks = records(&frames, &[(100, 110)]).into_iter().map(TriggerRecord::into_chunk);
    let all = [vec![run_start(&plan)], raw_frames(&frames), chunks.collect()].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, all);
    assert_eq!(find(&log, &[])["total"]["frames"], 3 * 120);
    let of_records = find(&log, &[&"--frames", &"records"]);
    assert_eq!((&of_records["total"]["frames"], &of_records["other"]), (&30.into(), &1.into()));
}

#[test]
fn a_later_file_of_a_run_takes_the_start_from_the_first_and_pedestals_from_its_frames() {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    let frames = calm(&plan, 600);
    let all = [vec![run_start(&plan)], raw_frames(&frames)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, all);
    let out: PathBuf = directory.path().join("found.hdf5");
    let report = find(&log[1..2], &[&"--out", &out]);
    assert_eq!(report["pedestals"], "data");
    let first = report["total"]["first_ticks"].as_u64().unwrap();
    assert!(first > START);
    // By then the pedestal of the run has come down.
    let settled = START + 260 * TICKS_PER_FRAME;
    let whole: HashSet<_> = searched(&plan, &frames).into_iter().map(|tp| tp.words).collect();
    let mut found = primitives_in(&out);
    found.retain(|tp| tp.time_start() > settled);
    assert!(found.len() > 1000 && found.iter().all(|tp| whole.contains(&tp.words)), "{report}");
}
