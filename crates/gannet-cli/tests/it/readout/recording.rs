//! What the ledger says of recorded items is what is in the files, by a reader of its own; and where
//! nothing can be recorded, the run says so before it takes a frame.

#[path = "../../../../gannet-log/tests/it/account/reader.rs"]
mod reader;

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, gannet, has_program};
use reader::Run;

/// Four streams at a tenth of the true rate, all recorded, with records and busy times.
const CONFIG: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }
depth = "200 ms"

[pipeline]
slice_ticks = 1_000_000

[pipeline.trigger.module_level]
records_in_flight_max = 2

[[pipeline.trigger.source]]
kind = "periodic"
interval_ticks = 312_500

[metrics]
listen = "127.0.0.1:0"

[emulate]
seed = 3
streams = { count = 4 }
pace = { rate_scale = 0.1 }
tracks = { rate_hz = 200.0 }
"#;

/// Stages whose items are recorded.
const RECORDED: [&str; 4] = ["records", "recorded_primitives", "raw_frames", "busy_intervals"];

/// Checks ledger and figures of the run against its files.
fn check(bench: &Bench, ended: &Ended) -> Run {
    let run = Run::read(&bench.out());
    assert_eq!(ended.open_books(), [""; 0]);
    for stage in RECORDED.into_iter().chain(["recorder"]) {
        assert_eq!(ended.ledger(stage, "delivered"), run.items(stage), "{stage}");
    }
    assert_eq!(ended.number("/recorder/records"), run.items("records"));
    assert_eq!(ended.number("/recorder/primitives"), run.items("recorded_primitives"));
    assert_eq!(ended.number("/recorder/raw_frames"), run.items("raw_frames"));
    run
}

/// Checks that the end of the log has the account of the run.
fn check_told(run: &Run, ended: &Ended) {
    let totals = run.totals().expect("totals in the log");
    for stage in RECORDED {
        let (offered, delivered) =
            (ended.ledger(stage, "offered"), ended.ledger(stage, "delivered"));
        if offered > 0 {
            assert_eq!(run.told(stage), Some((offered, delivered, offered - delivered)), "{stage}");
        }
        let in_totals = totals["ledger"].as_array().unwrap().iter().find(|s| s["stage"] == stage);
        assert_eq!(in_totals.unwrap()["delivered"], delivered, "{stage}");
    }
}

fn wait_until(readout: &Readout, what: &str, done: impl Fn(&Value) -> bool) {
    let begin = Instant::now();
    while !done(&readout.snapshot()) {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}: {}", readout.snapshot());
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_ledger_counts_what_is_in_the_files() {
    let _alone = alone();
    let bench = Bench::with_recorder(CONFIG, "raw_streams = \"all\"\nfile_size_max = \"8 MiB\"");
    let (_, ended) = bench.run(4000);
    let run = check(&bench, &ended);
    check_told(&run, &ended);
    assert!(RECORDED[..3].iter().all(|stage| run.items(stage) > 0), "{}", ended.report["ledger"]);
    assert!(
        run.files.len() > 3 && run.files.iter().all(|file| file.end.is_some() && file.rest == 0)
    );
}

#[test]
fn what_goes_with_a_removed_directory_is_counted_in_frames() {
    let _alone = alone();
    let bench = Bench::with_recorder(CONFIG, "raw_streams = \"all\"");
    let readout = Readout::start(&bench.config());
    let sending = bench.emulate(readout.address, Some(3000));
    wait_until(&readout, "frames", |now| now["recorder"]["raw_frames"].as_u64() > Some(500));
    std::fs::remove_dir_all(bench.out()).unwrap();
    wait_until(&readout, "alarm", |now| now["recorder"]["trouble"].is_string());
    std::fs::create_dir(bench.out()).unwrap();
    sending.join().unwrap();
    wait_until(&readout, "recovery", |now| now["recorder"]["trouble"].is_null());
    let ended = readout.stop();
    let run = check(&bench, &ended);
    check_told(&run, &ended);
    assert!(ended.ledger("raw_frames", "file_removed") > 500, "{}", ended.report["ledger"]);
    assert_eq!(ended.status.code(), Some(3));
    let files = run.files.iter().map(|file| &file.path);
    let verified = Command::new(gannet()).arg("verify").args(files).output().unwrap();
    assert_eq!(verified.status.code(), Some(0), "the files are as written");
    let text = String::from_utf8(verified.stdout).unwrap();
    assert!(text.contains("raw frames are missing: file_removed"), "{text}");
}

#[test]
fn what_is_cut_off_a_log_is_counted_in_frames_and_the_rest_is_kept() {
    let _alone = alone();
    let bench = Bench::with_recorder(CONFIG, "raw_streams = \"all\"");
    let readout = Readout::start(&bench.config());
    let sending = bench.emulate(readout.address, Some(3000));
    wait_until(&readout, "frames", |now| now["recorder"]["raw_frames"].as_u64() > Some(1500));
    let [part] = &bench.files()[..] else { panic!("{:?}", bench.files()) };
    let file = std::fs::File::options().write(true).open(part).unwrap();
    file.set_len(5_000_000).unwrap();
    let is_told = |now: &Value| {
        let alarms = now["alarms"].as_array().unwrap().iter();
        let mut texts = alarms.map(|alarm| alarm["text"].as_str().unwrap());
        texts.any(|text| text.contains(part.to_str().unwrap()) && text.contains("to 5000000 B"))
    };
    wait_until(&readout, "alarm", is_told);
    sending.join().unwrap();
    let ended = readout.stop();
    let run = check(&bench, &ended);
    check_told(&run, &ended);
    assert!(ended.ledger("raw_frames", "file_truncated") > 500, "{}", ended.report["ledger"]);
    assert_eq!(ended.status.code(), Some(3));
    assert!(is_told(&ended.report), "{}", ended.report["alarms"]);
    let files = run.files.iter().map(|file| &file.path);
    let verified = Command::new(gannet()).arg("verify").args(files).output().unwrap();
    assert_eq!(verified.status.code(), Some(6), "chunks are missing from a file");
    let text = String::from_utf8(verified.stdout).unwrap();
    assert!(text.contains("sound, ") && text.contains(" chunks were lost before"), "{text}");
    assert!(text.contains("raw frames are missing: file_truncated"), "{text}");
}

/// A command whose files may have at most this number of blocks of 512 bytes.
fn limited(blocks: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -f {blocks} && exec \"$@\""), "sh"]).arg(gannet());
    command
}

/// Bytes that a file of the process may have.
fn file_size_limit(id: u32) -> u64 {
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max file size")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn under_a_limit_of_file_sizes_everything_is_recorded_in_more_files() {
    let _alone = alone();
    for blocks in [4096, 5000, 9999] {
        let bench = Bench::with_recorder(CONFIG, "raw_streams = \"all\"");
        let readout =
            Readout::start_by(limited(blocks).args(["run", "--json"]).arg(bench.config()));
        let limit = file_size_limit(readout.id());
        thread::sleep(QUIET);
        bench.emulate(readout.address, Some(1000)).join().unwrap();
        thread::sleep(QUIET);
        let ended = readout.stop();
        let run = check(&bench, &ended);
        check_told(&run, &ended);
        assert_eq!(ended.ledger("recorder", "offered"), ended.ledger("recorder", "delivered"));
        assert!(run.files.iter().all(|file| file.end.is_some() && file.rest == 0));
        let sizes = run.files.iter().map(|file| file.path.metadata().unwrap().len());
        assert!(sizes.max() <= Some(limit) && run.files.len() > 5, "{limit}: {:?}", bench.files());
        if !ended.kernel_was_short("a limit of file sizes") {
            assert_eq!(ended.status.code(), Some(130), "{}", ended.report);
        }
    }
}

#[test]
fn a_limit_of_file_sizes_that_is_set_in_mid_run_is_kept() {
    if !has_program("prlimit") {
        return gannet_measure::testing::skipped("a limit in mid-run", "there is no `prlimit`");
    }
    let _alone = alone();
    let bench = Bench::with_recorder(CONFIG, "raw_streams = \"all\"");
    let readout = Readout::start(&bench.config());
    let sending = bench.emulate(readout.address, Some(3000));
    wait_until(&readout, "frames", |now| now["recorder"]["raw_frames"].as_u64() > Some(1500));
    let mut limit = Command::new("prlimit");
    limit.args(["--pid", &readout.id().to_string(), "--fsize=2100000"]);
    assert!(limit.status().unwrap().success());
    sending.join().unwrap();
    thread::sleep(QUIET);
    let ended = readout.stop();
    check(&bench, &ended);
    assert_eq!(ended.ledger("recorder", "offered"), ended.ledger("recorder", "delivered"));
    // The first file is larger than the limit, which leaves no room for its end.
    let [part] = &ended.report["recorder"]["unfinished"].as_array().unwrap()[..] else {
        panic!("{}", ended.report["recorder"])
    };
    let recovered = Command::new(gannet()).arg("recover").arg(part.as_str().unwrap()).output();
    assert_eq!(recovered.unwrap().status.code(), Some(0));
    let run = check(&bench, &ended);
    assert!(run.files.iter().all(|file| file.end.is_some()) && run.files.len() > 5);
}

#[test]
fn a_limit_of_file_sizes_that_no_log_fits_is_told_before_the_start() {
    let bench = Bench::with_recorder(CONFIG, "");
    for (verb, blocks) in [("run", 4095), ("check", 4095), ("run", 1), ("run", 0)] {
        let refused = limited(blocks).arg(verb).arg(bench.config()).output().unwrap();
        let told = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(5), "{verb} {blocks}: {told}");
        let texts = ["2097152 B", "ulimit -f unlimited", "LimitFSIZE=infinity"];
        assert!(texts.iter().all(|text| told.contains(text)), "{verb} {blocks}: {told}");
        assert_eq!(bench.files().len(), 0);
    }
}

/// `gannet run` for a second with these arguments.
fn run_a_second(bench: &Bench, arguments: &[&str]) -> Output {
    let mut command = Command::new(gannet());
    command.arg("run").arg(bench.config()).args(["--seconds", "1", "--quiet"]).args(arguments);
    command.output().unwrap()
}

#[test]
fn a_run_that_can_record_nothing_is_refused_unless_that_is_allowed() {
    let _alone = alone();
    let full = Bench::with_recorder(CONFIG, "disk_reserve = \"1000000 GiB\"");
    let missing = Bench::with_recorder(CONFIG, "");
    std::fs::remove_dir(missing.out()).unwrap();
    let unwritable = Bench::with_recorder(CONFIG, "");
    let text = std::fs::read_to_string(unwritable.config()).unwrap();
    // A directory that no user can make files in.
    let text = text.replace(unwritable.out().to_str().unwrap(), "/proc");
    std::fs::write(unwritable.config(), text).unwrap();
    for (bench, why) in
        [(&full, "disk_reserve"), (&missing, "does not exist"), (&unwritable, "/proc")]
    {
        let refused = run_a_second(bench, &[]);
        let told = String::from_utf8(refused.stderr).unwrap();
        assert_eq!(refused.status.code(), Some(5), "{told}");
        assert!(told.contains(why) && told.contains("--no-record"), "{told}");
    }

    let allowed = run_a_second(&missing, &["--no-record", "--json"]);
    let report: Value = serde_json::from_slice(&allowed.stdout).unwrap();
    assert_ne!(allowed.status.code(), Some(5), "{allowed:?}");
    assert!(report["alarms"].as_array().unwrap().iter().all(|alarm| alarm["kind"] != "recorder"));

    let later = Bench::with_recorder(CONFIG, "required = false\ndrain_within = \"1 s\"");
    std::fs::remove_dir(later.out()).unwrap();
    let readout = Readout::start(&later.config());
    let sending = later.emulate(readout.address, Some(100));
    wait_until(&readout, "trouble", |now| now["recorder"]["trouble"].is_string());
    sending.join().unwrap();
    let ended = readout.stop();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.report);
    assert_eq!(ended.ledger("recorder", "delivered"), 0);
}

#[test]
fn a_run_that_is_not_recorded_loses_nothing() {
    let _alone = alone();
    let bench = Bench::with_recorder(CONFIG, "enabled = false");
    let (_, ended) = bench.run(1000);
    if ended.kernel_was_short("a run without recording") {
        return;
    }
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.open_books(), [""; 0]);
    assert!(ended.ledger("records", "not_recorded") > 0);
    assert_eq!(bench.files().len(), 0);
}
