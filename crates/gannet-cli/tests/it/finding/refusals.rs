//! What cannot be searched is refused by name, with what to do, and leaves no file.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;

use gannet_dune::detector::{TpcPlan, hit};
use gannet_dune::run_start::RunStart;
use gannet_log::{Chunk, Kind, Label};
use gannet_record::TriggerRecord;

use super::recordings::{self, RUN, calm, raw_frames, records, run_start, searched, slices};
use super::{errors, gannet};

/// Expects `gannet find` to fail and all words in its message.
fn refused(arguments: &[&dyn AsRef<OsStr>], code: i32, words: &[&str]) {
    refused_by("find", arguments, code, words);
}

/// Expects a verb of `gannet` to fail and all words in its message.
fn refused_by(verb: &str, arguments: &[&dyn AsRef<OsStr>], code: i32, words: &[&str]) {
    let output = gannet(&[&[&verb as &dyn AsRef<OsStr>], arguments].concat());
    let message = errors(&output);
    assert_eq!(output.status.code(), Some(code), "{message}");
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

fn prepare() -> (tempfile::TempDir, TpcPlan) {
    let directory = tempfile::tempdir().unwrap();
    let plan = recordings::plan(directory.path());
    (directory, plan)
}

#[test]
fn files_without_frames_are_refused() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let primitives = slices(&plan, &searched(&plan, &calm(&plan, 300)));
    let log = recordings::log(&at("log"), RUN, [vec![run_start(&plan)], primitives].concat());
    refused(&[&log[0]], 1, &["trigger primitives only", "gannet export"]);
    refused(&[&log[0], &"--frames", &"raw"], 1, &["holds no raw frames"]);
    recordings::raw_file_of_slices(&at("slices.hdf5"), &plan);
    refused(&[&at("slices.hdf5")], 1, &["slices.hdf5", "time slices", "trigger records"]);
    let empty = records(&[], &[(0, 10)]).into_iter().map(TriggerRecord::into_chunk).collect();
    let log = recordings::log(&at("empty"), RUN, [vec![run_start(&plan)], empty].concat());
    refused(&[&log[0]], 1, &["no WIBEth or TDEEth frames", "1 parts of other content"]);
    refused(&[&log[0], &"--frames", &"raw"], 1, &["1 trigger records", "--frames records"]);
    fs::write(at("text"), "not frames").unwrap();
    refused(&[&at("text")], 1, &["text is neither a packet capture"]);
    refused(&[&at("absent")], 1, &["absent", "No such file"]);
}

#[test]
fn files_that_do_not_belong_together_are_refused() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let frames = raw_frames(&calm(&plan, 2));
    let one = recordings::log(&at("one"), 1, frames.clone());
    let two = recordings::log(&at("two"), 2, frames);
    refused(&[&one[0], &two[0]], 1, &["run 2", "run 1", "one run at a time"]);
    refused(&[&one[0], &at("one/../one/").join(one[0].file_name().unwrap())], 1, &["named twice"]);
    recordings::capture(&at("x.pcap"), &calm(&plan, 1));
    refused(&[&one[0], &at("x.pcap")], 1, &["x.pcap is of another kind"]);
}

#[test]
fn two_runs_of_one_number_are_refused() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let frames = raw_frames(&calm(&plan, 600));
    let run =
        |name| recordings::log(&at(name), RUN, [vec![run_start(&plan)], frames.clone()].concat());
    let (one, two) = (run("one"), run("two"));
    let words = ["one", "two", "two different runs of number 4711", "the start", "one run"];
    refused(&[&one[0], &two[0]], 1, &words);
    refused(&[&one[0], &two[1]], 1, &words);
    // A later file of another run does not lend its start, either.
    fs::remove_file(&one[0]).unwrap();
    fs::rename(&two[0], &one[0]).unwrap();
    refused(&[&one[1]], 1, &["start of its run", "--config"]);

    let windows = records(&calm(&plan, 60), &[(10, 20), (30, 40)]);
    let mut others = windows.clone();
    others[1].header.trigger_timestamp += 1;
    recordings::raw_file(&at("a.hdf5"), &plan, &windows);
    recordings::raw_file(&at("b.hdf5"), &plan, &others);
    let config = recordings::config_in(directory.path());
    let words = ["a.hdf5", "b.hdf5", "number 4711", "trigger record 2.0"];
    refused(&[&at("a.hdf5"), &at("b.hdf5"), &"--config", &config], 1, &words);
    // The same file under another name is no other run.
    fs::copy(at("a.hdf5"), at("c.hdf5")).unwrap();
    super::find(&[at("a.hdf5"), at("c.hdf5")], &[&"--config", &config]);
}

#[test]
fn the_trigger_refuses_two_runs_of_one_number_too() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let primitives = slices(&plan, &searched(&plan, &calm(&plan, 300)));
    let export = |name: &str, started_unix_ns: u64| {
        let start = RunStart { started_unix_ns, ..RunStart::of(&plan, 1, "") };
        let start = Chunk::new(Label::new(Kind::RUN_START), start.encode());
        let log = recordings::log(&at(name), RUN, [vec![start], primitives.clone()].concat());
        let exported = gannet(&[&"export", &log[0]]);
        assert!(exported.status.success(), "{}", errors(&exported));
        ["", "_tps.hdf5", "_tps.parquet"].map(|ending| match ending {
            "" => log[0].clone(),
            _ => log[0].with_file_name(format!(
                "{}{ending}",
                log[0].file_stem().unwrap().to_str().unwrap()
            )),
        })
    };
    let (one, two) = (export("one", 1_000_000_000), export("two", 2_000_000_000));
    let config = recordings::config_in(directory.path());
    for (one, two) in one.iter().zip(&two) {
        let words = ["one", "two", "two different runs of number 4711", "the start", "one run"];
        refused_by("trigger", &[one, two, &"--config", &config], 1, &words);
        let alone = gannet(&[&"trigger", one, &"--config", &config]);
        assert!(alone.status.success(), "{}", errors(&alone));
    }
}

#[test]
fn the_trigger_takes_primitives_of_the_last_seconds_that_a_clock_can_count() {
    let (directory, plan) = prepare();
    let primitives: Vec<_> = [200_000_000, 100]
        .map(|before_end| hit(plan.streams[0].channels.offline[0], u64::MAX - before_end, 900))
        .into();
    let chunks = [vec![run_start(&plan)], slices(&plan, &primitives)].concat();
    let log = recordings::log(&directory.path().join("log"), RUN, chunks);
    let told = gannet(&[&"trigger", &log[0], &"--json"]);
    assert!(told.status.success(), "{}", errors(&told));
    assert!(String::from_utf8_lossy(&told.stdout).contains("\"primitives\": 2"), "{told:?}");
}

#[test]
fn the_trigger_finds_the_start_of_the_run_beside_a_later_log() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let frames = calm(&plan, 600);
    let primitives = slices(&plan, &searched(&plan, &frames));
    let chunks = [vec![run_start(&plan)], raw_frames(&frames), primitives].concat();
    let (one, two) = (
        recordings::log(&at("one"), RUN, chunks.clone()),
        recordings::log(&at("two"), RUN, chunks),
    );
    let later = one.last().unwrap();
    let told = gannet(&[&"trigger", later]);
    assert!(one.len() > 1 && told.status.success(), "{}", errors(&told));
    // Without time slices there is nothing to trigger on.
    refused_by("trigger", &[&one[0]], 1, &["no time slices", "gannet find"]);
    // The log of another run does not lend its start.
    fs::rename(&two[0], &one[0]).unwrap();
    refused_by("trigger", &[later], 1, &["does not tell the trigger"]);
}

#[test]
fn a_search_never_writes_what_it_reads() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    recordings::raw_file(&at("raw.hdf5"), &plan, &records(&calm(&plan, 60), &[(10, 20)]));
    let before = fs::read(at("raw.hdf5")).unwrap();
    fs::hard_link(at("raw.hdf5"), at("link.hdf5")).unwrap();
    fs::create_dir(at("d.hdf5")).unwrap();
    let config = recordings::config_in(directory.path());
    let (raw, link, detour) = (at("raw.hdf5"), at("link.hdf5"), at("d.hdf5/../raw.hdf5"));
    let options: [&dyn AsRef<OsStr>; 5] = [&raw, &"--config", &config, &"--overwrite", &"--out"];
    for out in [&raw, &link, &detour] {
        let arguments = [&options[..], &[out]].concat();
        refused(&arguments, 2, &["is read by this search"]);
    }
    refused(&[&options[..], &[&at("d.hdf5")]].concat(), 2, &["d.hdf5 is a directory"]);
    let twice: [&dyn AsRef<OsStr>; 3] = [&at("x.parquet"), &"--out", &at("d.hdf5/../x.parquet")];
    refused(&[&options[..], &twice].concat(), 2, &["x.parquet is to be written twice"]);
    assert_eq!(fs::read(at("raw.hdf5")).unwrap(), before);
}

#[test]
fn streams_whose_channels_are_not_known_are_refused() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let frames = calm(&plan, 2);
    recordings::capture(&at("x.pcap"), &frames);
    refused(&[&at("x.pcap")], 1, &["x.pcap", "--config", "--channel-map"]);
    recordings::raw_file(&at("raw.hdf5"), &plan, &records(&frames, &[(0, 2)]));
    refused(&[&at("raw.hdf5")], 1, &["raw.hdf5", "--config", "--channel-map"]);
    let log = recordings::log(&at("log"), RUN, raw_frames(&frames));
    refused(&[&log[0]], 1, &["start of its run", "f0000.glog", "--config"]);
    let map = "5 4 APA1 1 0 1 1 0 1 1 1 1 0\n";
    fs::write(at("other.txt"), map).unwrap();
    let config = recordings::config_in(directory.path());
    let options: [&dyn AsRef<OsStr>; 5] =
        [&log[0], &"--config", &config, &"--channel-map", &at("other.txt")];
    refused(&options, 1, &["stream 3/1/0/0", "--channel-map"]);
    fs::write(at("other.txt"), "5 4\n").unwrap();
    refused(&options, 4, &["other.txt", "line 1", "columns"]);
    refused(&[&log[0], &"--channel-map", &at("gone.txt")], 4, &["channel map", "gone.txt"]);
    refused(&[&log[0], &"--config", &at("gone.toml")], 4, &["gone.toml"]);
    let broken = Chunk::new(Label::new(Kind::RUN_START), b"{\"run\":4711}".to_vec());
    let log = recordings::log(&at("broken"), RUN, [vec![broken], raw_frames(&frames)].concat());
    refused(&[&log[0]], 1, &["start of its run", "--config"]);
}

#[test]
fn outputs_are_not_overwritten_and_not_left_half_done() {
    let (directory, plan) = prepare();
    let at = |name: &str| directory.path().join(name);
    let log = [vec![run_start(&plan)], raw_frames(&calm(&plan, 2))].concat();
    let log = recordings::log(&at("log"), RUN, log);
    fs::write(at("there.parquet"), "mine").unwrap();
    refused(
        &[&log[0], &"--out", &at("there.parquet")],
        1,
        &["there.parquet exists", "--overwrite"],
    );
    assert_eq!(fs::read(at("there.parquet")).unwrap(), b"mine");
    refused(&[&log[0], &"--out", &at("tps.csv")], 2, &["tps.csv", ".parquet or .hdf5"]);
    refused(&[&log[0], &"--threshold", &"40000"], 2, &["--threshold: each must be 1 to 32767"]);
    let scan: [&dyn AsRef<OsStr>; 3] = [&log[0], &"--scan-threshold", &"60,40000"];
    refused(&scan, 2, &["--scan-threshold: each must be 1 to 32767"]);
    refused(&[&log[0], &"--memory-factor", &"11"], 2, &["--memory-factor: each must be 0 to 10"]);
    refused(&[&log[0], &"--chain", &"fir", &"--threshold", &"512"], 2, &["--threshold: ", "511"]);
    refused(&[&log[0], &"--chain", &"fur"], 2, &["simple-threshold"]);
    refused(&[&log[0], &"--threads", &"0"], 2, &["--threads", "1..=256"]);
    refused(&[&log[0], &"--threads", &"257"], 2, &["--threads", "1..=256"]);
    refused(&[&log[0], &"--mask", &at("gone")], 2, &["--mask", "gone cannot be read"]);
    let empty = records(&[], &[(0, 10)]).into_iter().map(TriggerRecord::into_chunk).collect();
    let log = recordings::log(&at("empty"), RUN, [vec![run_start(&plan)], empty].concat());
    refused(&[&log[0], &"--out", &at("none.parquet")], 1, &["no WIBEth"]);
    let left = |path: &Path| path.exists();
    assert!(!left(&at("none.parquet")) && !left(&at("none.parquet.part")));
}
