//! Whatever the disk does, the recorder's account is what an independent reader finds in the files,
//! item for item, and the end of the log states what is missing.

mod disk;
mod reader;

use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use disk::{EIO, ENOSPC, EROFS, Manner, MannerDisk};
use gannet_log::{
    Chunk, Item, Kind, Label, LastWords, Offer, Recorder, RecorderConfig, RecorderHandle, RunInfo,
    Status, recover_directory, verify,
};
use gannet_measure::quantity::{Bytes, Span};
use reader::Run;

fn config(directory: &Path) -> RecorderConfig {
    RecorderConfig {
        directory: directory.into(),
        file_size_max: Bytes::mib(1),
        queue_bytes_max: Bytes::mib(1),
        commit_interval: Span::ms(1),
        disk_reserve: Bytes(0),
        drain_within: Span::ms(300),
        ..RecorderConfig::default()
    }
}

/// Most bytes that a [`chunk`] takes on the disk.
const CHUNK_BYTES_MAX: u64 = 13 * 4096;

/// Chunk `number`: records, primitives, raw frames and busy times in turn.
fn chunk(number: u64) -> Chunk {
    let (kind, items, bytes) = match number % 4 {
        0 => (Kind::TRIGGER_RECORD, 9, 20_000),
        1 => (Kind::TP_SLICE, 100 + number as u32 % 7, 3000),
        2 => (Kind::RAW_FRAMES, 1 + number as u32 % 128, 50_000),
        _ => (Kind::BUSY, 3, 90),
    };
    let label = Label::new(kind).times(number, number + 1).counts(items, 0);
    Chunk::new(label, vec![number as u8; bytes])
}

/// What was offered, as the program that offers counts it.
#[derive(Default)]
struct Offered([u64; Item::ALL.len()]);

impl Offered {
    /// Offers chunks `numbers`, waiting for room.
    fn offer(&mut self, handle: &RecorderHandle, numbers: std::ops::Range<u64>) {
        for number in numbers {
            let mut next = chunk(number);
            let label = next.label;
            while let Offer::Busy(back) = handle.offer(next) {
                next = back;
                thread::sleep(Duration::from_millis(1));
            }
            self.0[Item::Chunk as usize] += 1;
            let (item, count) = match label.kind {
                Kind::TRIGGER_RECORD => (Item::Record, 1),
                Kind::TP_SLICE => (Item::Primitive, label.items),
                Kind::RAW_FRAMES => (Item::RawFrame, label.items),
                _ => (Item::BusyInterval, label.items),
            };
            self.0[item as usize] += u64::from(count);
        }
    }
}

/// Ends the recording as a run does, with the account as its totals.
fn finish(recorder: Recorder) -> Status {
    let handle = recorder.handle();
    recorder.finish(|| {
        let account = handle.status().accounts;
        let text = serde_json::to_vec(&account).unwrap();
        LastWords { chunk: Chunk::new(Label::new(Kind::RUN_END), text), account }
    })
}

/// Whether the last chunks of the log came through.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    /// The log has to state the loss.
    Stated,
    /// The disk may not have taken the end.
    MayBeMissing,
}

/// Checks the account against the files, and returns what an independent reader found.
fn check(directory: &Path, status: &Status, offered: &Offered, ending: Ending, what: &str) -> Run {
    let run = Run::read(directory);
    // The totals of the run are a chunk that the offering program does not count.
    let totals = u64::from(run.totals().is_some());
    for item in Item::ALL {
        let statement = status.account(item);
        let stage = &statement.stage;
        assert!(statement.closes(), "{what}: {statement}");
        assert_eq!(statement.delivered, run.items(stage), "{what}: {statement}");
        if item == Item::Chunk {
            let last = statement.offered - offered.0[0];
            assert!(last <= 1 && last >= totals, "{what}: {statement}");
        } else {
            assert_eq!(statement.offered, offered.0[item as usize], "{what}: {statement}");
        }
        let told = run.told(stage);
        if ending == Ending::Stated {
            assert!(run.totals().is_some(), "{what}: no totals");
            let lost = statement.dropped_total();
            let expected = match item {
                Item::Chunk => (statement.offered - 1, statement.delivered - 1, lost),
                _ => (statement.offered, statement.delivered, lost),
            };
            assert_eq!(told.unwrap_or_default(), expected, "{what}: {statement}");
        }
    }
    run
}

fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        thread::sleep(Duration::from_millis(1));
    }
}

fn start(disk: &MannerDisk, directory: &Path) -> Recorder {
    start_with(disk, &config(directory))
}

fn start_with(disk: &MannerDisk, config: &RecorderConfig) -> Recorder {
    let info = RunInfo { run: 9, ..RunInfo::default() };
    Recorder::start_on(Arc::new(disk.clone()), config.clone(), info).unwrap()
}

/// The same where the disk takes all in the end, however long that takes.
fn patient(config: RecorderConfig) -> RecorderConfig {
    RecorderConfig { drain_within: Span::s(60), ..config }
}

fn several_chunks_a_commit(directory: &Path) -> RecorderConfig {
    RecorderConfig { commit_interval: Span::ms(30), ..config(directory) }
}

#[test]
fn one_failure_at_each_operation_in_turn_loses_nothing() {
    for error in [EIO, ENOSPC] {
        for good in 0.. {
            let manner = Manner { good, failures: 1, error, reserves: true, ..Manner::default() };
            let disk = MannerDisk::new(manner);
            let directory = tempfile::tempdir().unwrap();
            let recorder = start_with(&disk, &patient(config(directory.path())));
            let mut offered = Offered::default();
            let handle = recorder.handle();
            for round in 0..8 {
                offered.offer(&handle, 10 * round..10 * (round + 1));
                wait_until("the chunks", || handle.acknowledged() == 10 * (round + 1));
            }
            let status = finish(recorder);
            let what = format!("error {error} at operation {good}");
            assert!(!status.stuck, "{what}: {status:?}");
            check(directory.path(), &status, &offered, Ending::MayBeMissing, &what);
            let lost = status.account(Item::Chunk).dropped_total();
            assert!(lost <= 1, "{what}: only the totals may be lost, not {lost}");
            if !disk.is_through() {
                assert!(good > 20, "{good} operations");
                check(directory.path(), &status, &offered, Ending::Stated, &what);
                break;
            }
        }
    }
}

#[test]
fn a_disk_that_fails_for_good_at_each_operation_in_turn_is_told_truly() {
    for good in (0..40).step_by(3) {
        let manner = Manner { good, failures: u64::MAX, error: EROFS, ..Manner::default() };
        let disk = MannerDisk::new(Manner { reserves: good % 2 == 0, ..manner });
        let directory = tempfile::tempdir().unwrap();
        let recorder = start_with(&disk, &several_chunks_a_commit(directory.path()));
        let mut offered = Offered::default();
        offered.offer(&recorder.handle(), 0..80);
        let status = finish(recorder);
        let what = format!("read-only from operation {good} on");
        // Whole chunks that a failed write left behind the acknowledged ones cannot be cut off any
        // more: they are in the file, and counted so.
        check(directory.path(), &status, &offered, Ending::MayBeMissing, &what);
        assert!(good > 0 || status.account(Item::Chunk).delivered == 0, "{what}");
    }
}

#[test]
fn a_full_disk_still_takes_the_end_of_the_run_which_states_the_loss() {
    for space in [1_200_000, 2_600_000, 3_333_333, 5_000_000] {
        let manner = Manner { reserves: true, space: Some(space), ..Manner::default() };
        let disk = MannerDisk::new(manner);
        let directory = tempfile::tempdir().unwrap();
        let recorder = start(&disk, directory.path());
        let mut offered = Offered::default();
        offered.offer(&recorder.handle(), 0..400);
        let status = finish(recorder);
        let what = format!("space for {space} bytes");
        let run = check(directory.path(), &status, &offered, Ending::Stated, &what);
        assert!(run.files.iter().all(|file| file.end.is_some() && file.rest == 0), "{what}");
        let frames = status.account(Item::RawFrame);
        assert!(frames.delivered > 0 && frames.dropped_total() > 0, "{what}: {frames}");
        assert!(disk.space() < Some(CHUNK_BYTES_MAX), "{what}: {:?} are left", disk.space());
        // The program's own reader says the same.
        let last = verify(&run.files.last().unwrap().path).unwrap();
        assert!(last.is_complete() && last.run_lost_items(), "{last}");
        let missing = format!("{} of {} raw frames are", frames.dropped_total(), frames.offered);
        assert!(last.to_string().contains(&missing), "{last}");
        assert!(last.to_string().contains("disk_full"), "{last}");
    }
}

#[test]
fn a_disk_that_cannot_keep_space_is_accounted_for_too() {
    let disk = MannerDisk::new(Manner { space: Some(2_500_000), ..Manner::default() });
    let directory = tempfile::tempdir().unwrap();
    let recorder = start(&disk, directory.path());
    let mut offered = Offered::default();
    offered.offer(&recorder.handle(), 0..400);
    let status = finish(recorder);
    check(directory.path(), &status, &offered, Ending::MayBeMissing, "no reserve");
}

#[test]
fn recording_resumes_when_there_is_space_again() {
    let manner = Manner { reserves: true, space: Some(2_000_000), ..Manner::default() };
    let disk = MannerDisk::new(manner);
    let directory = tempfile::tempdir().unwrap();
    let recorder = start_with(&disk, &patient(config(directory.path())));
    let handle = recorder.handle();
    let mut offered = Offered::default();
    offered.offer(&handle, 0..400);
    let lost = handle.status().account(Item::Chunk).dropped_total();
    assert!(lost > 0);
    disk.set(|manner| manner.space = None);
    wait_until("room", || handle.status().queue_chunks == 0);
    offered.offer(&handle, 400..500);
    let status = finish(recorder);
    check(directory.path(), &status, &offered, Ending::Stated, "space again");
    assert_eq!(status.account(Item::Chunk).dropped_total(), lost);
}

#[test]
fn files_end_where_they_may_not_grow_further() {
    const MIB: u64 = 1 << 20;
    // Known beforehand, as `ulimit -f` is, or not, as the limits of file systems.
    for (tells_file_size, reserves) in [(true, true), (true, false), (false, true), (false, false)]
    {
        for most in [MIB + CHUNK_BYTES_MAX + 4096, 2 * MIB - 5, 2 * MIB, 3 * MIB, 5 * MIB + 4095] {
            let manner = Manner { reserves, tells_file_size, ..Manner::default() };
            let disk = MannerDisk::new(Manner { file_size_max: Some(most), ..manner });
            let directory = tempfile::tempdir().unwrap();
            let large = RecorderConfig {
                file_size_max: Bytes::mib(4096),
                ..patient(several_chunks_a_commit(directory.path()))
            };
            let recorder = start_with(&disk, &large);
            let mut offered = Offered::default();
            offered.offer(&recorder.handle(), 0..400);
            let status = finish(recorder);
            let what = format!("at most {most} bytes, {tells_file_size} {reserves}");
            let run = check(directory.path(), &status, &offered, Ending::Stated, &what);
            assert_eq!(status.account(Item::Chunk).dropped_total(), 0, "{what}");
            assert_eq!((status.outages, status.unfinished.len()), (0, 0), "{what}: {status:?}");
            assert!(run.files.iter().all(|file| file.end.is_some() && file.rest == 0), "{what}");
            let sizes = run.files.iter().map(|file| file.path.metadata().unwrap().len());
            assert!(sizes.max() <= Some(most), "{what}");
            assert!(run.files.len() > 1 && run.files.len() <= 402, "{what}: {}", run.files.len());
        }
    }
}

#[test]
fn a_chunk_that_no_file_may_hold_is_left_out_and_the_others_are_kept() {
    // A chunk of raw frames takes 50 kB, one of a record 24 kB at most.
    let most = (1 << 20) + 4096 + 30_000;
    for reserves in [true, false] {
        let manner = Manner { reserves, tells_file_size: true, ..Manner::default() };
        let disk = MannerDisk::new(Manner { file_size_max: Some(most), ..manner });
        let directory = tempfile::tempdir().unwrap();
        let recorder = start_with(&disk, &patient(several_chunks_a_commit(directory.path())));
        let mut offered = Offered::default();
        offered.offer(&recorder.handle(), 0..200);
        let status = finish(recorder);
        let run = check(directory.path(), &status, &offered, Ending::Stated, "too large");
        let lost = Item::ALL.map(|item| status.account(item).count("file_limit"));
        assert_eq!(lost, [50, 0, 0, offered.0[Item::RawFrame as usize], 0, 0]);
        assert_eq!(run.items("raw_frames"), 0);
        let [told] = &status.losses[..] else { panic!("{:?}", status.losses) };
        assert!(told.contains("ulimit -f unlimited"), "{told}");
        let reports = run.files.iter().map(|file| verify(&file.path).unwrap());
        let missing = reports.inspect(|report| assert!(report.is_sound(), "{report}"));
        assert_eq!(missing.map(|report| report.chunks_missing).sum::<u64>(), 50);
    }
}

#[test]
fn a_limit_that_comes_down_while_files_are_written_is_kept_from_then_on() {
    for tells_file_size in [true, false] {
        let manner = Manner { reserves: true, tells_file_size, ..Manner::default() };
        let disk = MannerDisk::new(manner);
        let directory = tempfile::tempdir().unwrap();
        let large = RecorderConfig {
            file_size_max: Bytes::mib(4096),
            ..patient(several_chunks_a_commit(directory.path()))
        };
        let recorder = start_with(&disk, &large);
        let mut offered = Offered::default();
        let handle = recorder.handle();
        offered.offer(&handle, 0..200);
        wait_until("the first chunks", || handle.acknowledged() == 200);
        let first = handle.status().present_file.unwrap();
        disk.set(|manner| manner.file_size_max = Some(2 << 20));
        offered.offer(&handle, 200..400);
        let status = finish(recorder);
        // The first file is larger than that, and cannot be ended: `recover` does it without limit.
        assert_eq!(status.unfinished, [first]);
        let run = check(directory.path(), &status, &offered, Ending::Stated, "lowered");
        assert_eq!(status.account(Item::Chunk).dropped_total(), 0);
        assert!(run.files.len() > 2);
        assert!(recover_directory(directory.path()).unwrap().iter().all(|(_, done)| done.is_ok()));
        check(directory.path(), &status, &offered, Ending::Stated, "recovered");
    }
}

#[test]
fn a_slow_disk_loses_nothing() {
    let delay = Duration::from_millis(20);
    let disk = MannerDisk::new(Manner { reserves: true, delay, ..Manner::default() });
    let directory = tempfile::tempdir().unwrap();
    let recorder = start_with(&disk, &patient(config(directory.path())));
    let mut offered = Offered::default();
    offered.offer(&recorder.handle(), 0..200);
    let status = finish(recorder);
    check(directory.path(), &status, &offered, Ending::Stated, "slow");
    assert_eq!(status.account(Item::Chunk).dropped_total(), 0);
}

#[test]
fn what_goes_with_a_file_that_was_removed_is_lost() {
    let disk = MannerDisk::new(Manner { reserves: true, ..Manner::default() });
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    std::fs::create_dir(&directory).unwrap();
    let recorder = start(&disk, &directory);
    let handle = recorder.handle();
    let mut offered = Offered::default();
    offered.offer(&handle, 0..8);
    wait_until("the first chunks", || handle.acknowledged() == 8);
    std::fs::remove_dir_all(&directory).unwrap();
    let lost = || handle.status().account(Item::RawFrame).dropped_total();
    wait_until("the loss", || lost() > 0);
    std::fs::create_dir(&directory).unwrap();
    offered.offer(&handle, 8..30);
    let status = finish(recorder);
    check(&directory, &status, &offered, Ending::Stated, "removed");
    // Chunks 2 and 6, with 3 and 7 frames.
    assert_eq!(lost(), 10);
}

/// Makes the file shorter, as `truncate -s` does.
fn truncate(path: &Path, len: u64) {
    std::fs::File::options().write(true).open(path).unwrap().set_len(len).unwrap();
}

/// Chunks, records, primitives, frames and busy times that `status` counts as truncated.
fn truncated(status: &Status) -> [u64; Item::ALL.len()] {
    Item::ALL.map(|item| status.account(item).count("file_truncated"))
}

#[test]
fn what_somebody_cuts_off_a_file_is_lost_and_what_is_left_is_kept() {
    for (len, wait) in [0, 1, 4096, 4097, 28_671, 28_672, 100_000, 245_759]
        .into_iter()
        .flat_map(|len| [(len, true), (len, false)])
    {
        let what = format!("truncated to {len} bytes, waiting: {wait}");
        let disk = MannerDisk::new(Manner { reserves: true, ..Manner::default() });
        let directory = tempfile::tempdir().unwrap();
        let recorder = start(&disk, directory.path());
        let handle = recorder.handle();
        let mut offered = Offered::default();
        offered.offer(&handle, 0..11);
        wait_until("the first chunks", || handle.acknowledged() == 11);
        let file = handle.status().present_file.unwrap();
        let held = Run::read(directory.path());
        assert_eq!(held.chunks.len(), 11);
        truncate(&file, len);
        let left = Run::read(directory.path());
        if wait {
            wait_until("the loss", || !handle.status().losses.is_empty());
            let told = handle.status().losses.remove(0);
            assert!(told.contains(file.to_str().unwrap()), "{told}");
            assert!(told.contains(&format!("to {len} B")), "{told}");
            offered.offer(&handle, 11..30);
        }
        let status = finish(recorder);
        let run = check(directory.path(), &status, &offered, Ending::Stated, &what);
        assert!(run.files.iter().all(|file| file.end.is_some() && file.rest == 0), "{what}");
        let stages = Item::ALL.map(Item::stage);
        let gone = stages.map(|stage| held.items(stage) - left.items(stage));
        assert_eq!(truncated(&status), gone, "{what}");
        // The program's own reader finds the file whole, and the place of the loss in it.
        let report = verify(&file.with_extension("")).unwrap();
        assert!(report.is_sound(), "{what}: {report}");
        assert_eq!((report.data_chunks, report.chunks_missing), (11 - gone[0], gone[0]), "{what}");
        assert!(report.to_string().contains(&format!("{} chunks were lost", gone[0])), "{report}");
        assert!(report.end.unwrap().error.unwrap().contains("truncated"), "{what}");
    }
}

#[test]
fn what_stood_where_a_truncated_file_has_a_hole_is_lost_and_what_follows_is_kept() {
    for len in [0, 4096, 100_000] {
        let disk = MannerDisk::new(Manner { reserves: true, ..Manner::default() });
        let directory = tempfile::tempdir().unwrap();
        let recorder = start(&disk, directory.path());
        let handle = recorder.handle();
        let mut offered = Offered::default();
        offered.offer(&handle, 0..11);
        wait_until("the first chunks", || handle.acknowledged() == 11);
        // Between the last look at the file and the write: its length is as expected again.
        disk.set(|manner| manner.cut = Some(len));
        offered.offer(&handle, 11..14);
        wait_until("the chunks behind the hole", || handle.acknowledged() == 14);
        let status = finish(recorder);
        let what = format!("a hole from byte {len} on");
        let run = check(directory.path(), &status, &offered, Ending::MayBeMissing, &what);
        assert!(truncated(&status)[0] > 4, "{what}: {status:?}");
        assert!((11..14).all(|number| run.chunks.contains_key(&number)), "{what}");
        assert!(status.losses[0].contains("was truncated"), "{:?}", status.losses);
        assert_eq!(status.unfinished.len(), 1, "{what}");
        let [(_, recovered)] = &recover_directory(directory.path()).unwrap()[..] else {
            panic!("{what}")
        };
        let recovered = recovered.as_ref().unwrap();
        // Without a header nobody knows what stood there.
        let told = if len == 0 { 0 } else { truncated(&status)[0] };
        assert_eq!(recovered.chunks_missing, told, "{what}");
        check(directory.path(), &status, &offered, Ending::MayBeMissing, &what);
    }
}

#[test]
fn a_disk_that_hangs_is_told_and_the_end_of_the_run_does_not_wait_for_ever() {
    let disk = MannerDisk::new(Manner { reserves: true, ..Manner::default() });
    let directory = tempfile::tempdir().unwrap();
    let recorder = start(&disk, directory.path());
    let handle = recorder.handle();
    let mut offered = Offered::default();
    offered.offer(&handle, 0..40);
    wait_until("the first chunks", || handle.acknowledged() == 40);
    disk.set(|manner| manner.hangs = true);
    offered.offer(&handle, 40..50);
    wait_until("the alarm", || handle.status().trouble().is_some());
    let trouble = handle.status().trouble().unwrap();
    assert!(trouble.contains("has not answered for"), "{trouble}");

    let status = finish(recorder);
    assert!(status.stuck, "{status:?}");
    let run = check(directory.path(), &status, &offered, Ending::MayBeMissing, "hangs");
    assert_eq!(run.chunks.len(), 40);
    let frames = status.account(Item::RawFrame);
    assert!(frames.to_string().contains(" deadline="), "{frames}");

    // The disk answers after all, and the process is still there: the account stays true.
    disk.set(|manner| manner.hangs = false);
    let is_ended = || Run::read(directory.path()).files.iter().all(|file| file.end.is_some());
    wait_until("the end of the file", is_ended);
    let run = Run::read(directory.path());
    assert_eq!(run.chunks.len(), 40, "what was counted as lost is not in the file");
    assert_eq!(run.told("raw_frames").unwrap().2, frames.dropped_total());
}

#[test]
fn producers_that_wait_for_a_disk_that_hangs_are_let_go_when_the_run_ends() {
    let disk = MannerDisk::new(Manner { reserves: true, ..Manner::default() });
    let directory = tempfile::tempdir().unwrap();
    let recorder = start(&disk, directory.path());
    let handle = recorder.handle();
    wait_until("the first file", || handle.status().present_file.is_some());
    disk.set(|manner| manner.hangs = true);
    let producer = thread::spawn({
        let handle = handle.clone();
        move || {
            let mut offered = Offered::default();
            offered.offer(&handle, 0..500);
            offered
        }
    });
    wait_until("a full queue", || handle.queue_fill() > 0.9);
    handle.begin_drain();
    let offered = producer.join().unwrap();
    let status = finish(recorder);
    check(directory.path(), &status, &offered, Ending::MayBeMissing, "producers");
    assert_eq!(status.account(Item::Chunk).delivered, 0);
    disk.set(|manner| manner.hangs = false);
}

#[test]
fn an_abandoned_drain_gives_up_what_waits_and_closes_the_log() {
    let delay = Duration::from_millis(30);
    let disk = MannerDisk::new(Manner { reserves: true, delay, ..Manner::default() });
    let directory = tempfile::tempdir().unwrap();
    let recorder = start(&disk, directory.path());
    let handle = recorder.handle();
    let mut offered = Offered::default();
    offered.offer(&handle, 0..60);
    handle.abandon();
    let status = finish(recorder);
    assert!(!status.stuck, "{status:?}");
    check(directory.path(), &status, &offered, Ending::Stated, "abandoned");
    let chunks = status.account(Item::Chunk);
    assert!(chunks.to_string().contains(" abandoned="), "{chunks}");
}

#[test]
fn what_is_never_recorded_is_told_so() {
    let recorder = Recorder::off();
    let mut offered = Offered::default();
    offered.offer(&recorder.handle(), 0..8);
    recorder.wait_for_first_file(Duration::ZERO).unwrap();
    let status = recorder.stop();
    let records = status.account(Item::Record).to_string();
    assert_eq!(records, "records: offered 2 delivered 0 dropped 2 not_recorded=2");
}

#[test]
fn a_directory_that_takes_nothing_is_known_at_the_start() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("missing");
    let refusal = |recorder: Recorder| {
        recorder.wait_for_first_file(Duration::from_secs(20)).unwrap_err().to_string()
    };
    let info = RunInfo::default;
    let error = refusal(Recorder::start(config(&missing), info()).unwrap());
    assert!(error.contains("nothing can be recorded") && error.contains("missing"), "{error}");
    let full = RecorderConfig { disk_reserve: Bytes(u64::MAX), ..config(directory.path()) };
    let error = refusal(Recorder::start(full, info()).unwrap());
    assert!(error.contains("disk_reserve"), "{error}");
    let read_only = Manner { failures: u64::MAX, error: EROFS, ..Manner::default() };
    let error = refusal(start(&MannerDisk::new(read_only), directory.path()));
    assert!(error.contains("Read-only file system"), "{error}");
    let most = Some(1 << 20);
    let small = Manner { file_size_max: most, tells_file_size: true, ..Manner::default() };
    let small = MannerDisk::new(Manner { reserves: true, ..small });
    let error = refusal(start(&small, directory.path()));
    assert!(error.contains("would need 1052672 B") && error.contains("ulimit -f"), "{error}");
    let hanging = MannerDisk::new(Manner { hangs: true, ..Manner::default() });
    let recorder = start(&hanging, directory.path());
    let error = recorder.wait_for_first_file(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(error.contains("does not answer"), "{error}");
    drop(recorder);
    hanging.set(|manner| manner.hangs = false);
    assert!(recover_directory(directory.path()).is_ok());
    assert_eq!(Run::read(directory.path()).chunks.len(), 0);
}
