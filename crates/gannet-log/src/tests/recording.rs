//! The recorder as a whole: threads, queue, outages and the accounts.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::faulty::FaultyDisk;
use super::*;

/// Waits until `condition` holds; the limit only ends a test that hangs.
fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "{what} did not come");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn chunk(number: u64) -> Chunk {
    Chunk::new(label(number), payload(number))
}

/// Offers chunk `number` until it is accepted.
fn offer_patiently(handle: &RecorderHandle, number: u64) {
    wait_until("room in the queue", || match handle.offer(chunk(number)) {
        Offer::Accepted(accepted) => {
            assert_eq!(accepted, number);
            true
        }
        Offer::Busy(_) => false,
        Offer::Dropped(reason) => panic!("chunk {number} was dropped: {reason:?}"),
    });
}

fn is_degraded(handle: &RecorderHandle, reason: &str) -> bool {
    matches!(handle.status().state, State::Degraded { reason: r, .. } if r == reason)
}

#[test]
fn a_clean_stop_writes_all_that_was_accepted() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(directory.path()), info()).unwrap();
    let handle = recorder.handle();
    for number in 0..400 {
        offer_patiently(&handle, number);
    }
    let status = recorder.stop();
    assert_eq!(status.state, State::Stopped);
    assert_eq!((status.acknowledged, status.account(Item::Chunk).delivered), (400, 400));
    assert!(status.account(Item::Chunk).closes(), "{}", status.account(Item::Chunk));
    let payloads: u64 = (0..400).map(|number| payload(number).len() as u64).sum();
    assert_eq!(status.payload_bytes, payloads);
    assert!(status.files_finished > 3 && status.unfinished.is_empty());
    assert_eq!(files(directory.path(), ".part").len(), 0);
    check_kept(directory.path(), 400, 400);
    assert_eq!(handle.offer(chunk(400)), Offer::Dropped(ChunkDrop::Stopped));
}

#[test]
fn several_threads_may_offer() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(directory.path()), info()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let handle = recorder.handle();
            scope.spawn(move || {
                for _ in 0..500 {
                    let label = Label::new(Kind::TP_SLICE);
                    let mut chunk = Chunk::new(label, vec![thread; 100]);
                    while let Offer::Busy(back) = handle.offer(chunk) {
                        chunk = back;
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let status = recorder.stop();
    assert_eq!(status.account(Item::Chunk).offered, 2000);
    assert_eq!(chunks_in(directory.path()).len(), 2000);
}

#[test]
fn chunks_are_acknowledged_while_the_run_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let recorder = Recorder::start(config(directory.path()), info()).unwrap();
    let handle = recorder.handle();
    for number in 0..10 {
        offer_patiently(&handle, number);
        wait_until("the acknowledgement", || handle.acknowledged() == number + 1);
        // What is acknowledged can be read at once, by anyone.
        let path = handle.status().present_file.unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let mut found = 0;
        while let Some(chunk) = reader.next_chunk().unwrap() {
            found += u64::from(chunk.header.label.kind.is_data());
        }
        assert!(found >= 1);
        assert!(matches!(recover(&path), Err(Error::InUse(_))), "a live file is left alone");
    }
}

#[test]
fn after_an_outage_the_waiting_chunks_are_written_and_the_lost_ones_counted() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(5);
    let recorder =
        Recorder::start_on(Arc::new(disk.clone()), config(directory.path()), info()).unwrap();
    let handle = recorder.handle();
    for number in 0..20 {
        offer_patiently(&handle, number);
    }
    wait_until("the first chunks", || handle.acknowledged() == 20);

    disk.faults().bytes_left = Some(5000);
    let mut accepted = 20;
    let mut dropped = 0;
    // The data path goes on: an offer returns at once, whatever becomes of it.
    while dropped < 50 {
        match handle.offer(chunk(accepted)) {
            Offer::Accepted(_) => accepted += 1,
            Offer::Dropped(reason) => {
                assert_eq!(reason, ChunkDrop::DiskFull);
                dropped += 1;
            }
            Offer::Busy(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    assert!(is_degraded(&handle, "disk_full"), "{:?}", handle.status());
    let error = handle.status().last_error.unwrap();
    assert!(error.contains("No space left") && error.contains("test_run000123"), "{error}");

    disk.faults().bytes_left = None;
    wait_until("the end of the outage", || handle.status().state == State::Recording);
    wait_until("the waiting chunks", || handle.acknowledged() == accepted);
    offer_patiently(&handle, accepted);
    let status = recorder.stop();
    assert_eq!(status.outages, 1);
    assert_eq!(status.account(Item::Chunk).delivered, accepted + 1);
    assert_eq!(status.account(Item::Chunk).dropped_total(), dropped);
    assert!(status.account(Item::Chunk).closes(), "{}", status.account(Item::Chunk));
    assert_eq!(files(directory.path(), ".part").len(), 0);
    check_kept(directory.path(), accepted + 1, accepted + 1);
}

#[test]
fn a_stop_in_an_outage_gives_up_and_counts() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(5);
    let recorder =
        Recorder::start_on(Arc::new(disk.clone()), config(directory.path()), info()).unwrap();
    let handle = recorder.handle();
    offer_patiently(&handle, 0);
    wait_until("the first chunk", || handle.acknowledged() == 1);
    disk.faults().write = 1.0;
    offer_patiently(&handle, 1);
    offer_patiently(&handle, 2);
    let status = recorder.stop();
    assert!(matches!(status.state, State::Degraded { reason: "write_error", .. }), "{status:?}");
    assert_eq!(
        (status.account(Item::Chunk).delivered, status.account(Item::Chunk).dropped_total()),
        (1, 2)
    );
    assert!(status.account(Item::Chunk).closes(), "{}", status.account(Item::Chunk));
    // The file could not be ended; recovery does it.
    assert_eq!(status.unfinished, files(directory.path(), ".part"));
    assert_eq!(status.unfinished.len(), 1);
    disk.process_ends();
    recover_all(directory.path());
    check_kept(directory.path(), 1, 3);
}

#[test]
fn chunks_that_the_disk_did_not_keep_are_counted_as_lost() {
    let mut lost_total = 0;
    for seed in 0..8 {
        let directory = tempfile::tempdir().unwrap();
        let disk = FaultyDisk::new(seed);
        let process =
            RecorderConfig { durability: Durability::Process, ..config(directory.path()) };
        let recorder = Recorder::start_on(Arc::new(disk.clone()), process, info()).unwrap();
        let handle = recorder.handle();
        (0..40).for_each(|number| offer_patiently(&handle, number));
        wait_until("the chunks", || handle.acknowledged() == 40);
        // The flush at the end of the file fails, and takes pages with it.
        disk.faults().sync = 1.0;
        let status = recorder.stop();
        assert_eq!(status.unfinished, files(directory.path(), ".part"));
        disk.process_ends();
        recover_all(directory.path());
        let (kept, account) = (chunks_in(directory.path()).len(), status.account(Item::Chunk));
        assert_eq!(account.delivered, kept as u64, "{account}");
        assert_eq!(account.count("not_kept"), 40 - kept as u64, "{account}");
        lost_total += account.dropped_total();
    }
    assert!(lost_total > 0);
}

#[test]
fn a_defect_ends_the_recorder_and_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FaultyDisk::new(5);
    let recorder =
        Recorder::start_on(Arc::new(disk.clone()), config(directory.path()), info()).unwrap();
    let handle = recorder.handle();
    offer_patiently(&handle, 0);
    wait_until("the first chunk", || handle.acknowledged() == 1);
    // A lock that is poisoned makes every operation panic.
    let poison = std::thread::spawn(move || {
        let _held = disk.faults();
        panic!("poison");
    });
    assert!(poison.join().is_err());
    let _accepted_or_stopped = handle.offer(chunk(1));
    wait_until("the defect", || handle.status().state == State::Failed);
    assert_eq!(handle.offer(chunk(2)), Offer::Dropped(ChunkDrop::Stopped));
    let status = recorder.stop();
    assert_eq!(status.state, State::Failed);
    assert!(status.last_error.as_ref().unwrap().contains("defect of the program"));
    assert!(status.account(Item::Chunk).closes(), "{}", status.account(Item::Chunk));
}

#[test]
fn waits_for_a_missing_directory() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("not_yet");
    let recorder = Recorder::start(config(&directory), info()).unwrap();
    let handle = recorder.handle();
    wait_until("the degraded state", || is_degraded(&handle, "directory_missing"));
    let error = handle.status().last_error.unwrap();
    assert!(error.contains("not_yet does not exist; create it or mount its disk"), "{error}");
    offer_patiently(&handle, 0);
    fs::create_dir(&directory).unwrap();
    wait_until("recording", || handle.acknowledged() == 1);
    let status = recorder.stop();
    assert_eq!((status.state, status.outages), (State::Stopped, 1));
    check_kept(&directory, 1, 1);
}

#[test]
fn notices_that_its_directory_was_removed_even_when_idle() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("data");
    fs::create_dir(&directory).unwrap();
    let recorder = Recorder::start(config(&directory), info()).unwrap();
    let handle = recorder.handle();
    offer_patiently(&handle, 0);
    wait_until("the first chunk", || handle.acknowledged() == 1);
    fs::remove_dir_all(&directory).unwrap();
    wait_until("the degraded state", || is_degraded(&handle, "directory_missing"));
    let gone = || handle.status().account(Item::Chunk).count("file_removed");
    wait_until("the count of what is gone", || gone() == 1);
    // Nothing is acknowledged into a file without a name.
    offer_patiently(&handle, 1);
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(handle.acknowledged(), 1);
    fs::create_dir(&directory).unwrap();
    wait_until("recording", || handle.acknowledged() == 2);
    recorder.stop();
    assert_eq!(chunks_in(&directory).into_keys().collect::<Vec<_>>(), [1]);
}

#[test]
fn keeps_its_hands_off_the_reserve() {
    let directory = tempfile::tempdir().unwrap();
    let reserve = RecorderConfig { disk_reserve: Bytes(u64::MAX), ..config(directory.path()) };
    let recorder = Recorder::start(reserve, info()).unwrap();
    let handle = recorder.handle();
    wait_until("the degraded state", || is_degraded(&handle, "disk_full"));
    let error = handle.status().last_error.unwrap();
    assert!(error.contains("disk_reserve"), "{error}");
    recorder.stop();
    assert_eq!(files(directory.path(), "").len(), 0);
}

#[test]
fn a_configuration_without_sense_is_refused_at_start() {
    let bad = RecorderConfig { prefix: "a/b".into(), ..RecorderConfig::default() };
    assert!(matches!(Recorder::start(bad, info()), Err(Error::Config { key: "prefix", .. })));
}
