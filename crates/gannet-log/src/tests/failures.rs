//! Whatever fails, and whenever: the acknowledged chunks are there, in order, bit for bit.

use std::sync::Arc;

use gannet_measure::random::Random;

use super::faulty::{EIO, ENOSPC, FaultyDisk};
use super::*;

/// How a writer comes to its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Close,
    Kill,
    PowerCut,
}

/// One life of a writer among faults drawn from `seed`. Returns the acknowledged and the
/// appended chunks.
fn write_among_faults(directory: &Path, seed: u64) -> (u64, u64, bool) {
    let mut random = Random::new(seed);
    let disk = FaultyDisk::new(seed);
    let durability = if random.chance(0.5) { Durability::Power } else { Durability::Process };
    let endings = [Ending::Close, Ending::Kill, Ending::PowerCut];
    let ending = match durability {
        Durability::Power => endings[random.below(3) as usize],
        Durability::Process => endings[random.below(2) as usize],
    };
    let mut writer = Writer::new(
        Arc::new(disk.clone()),
        RecorderConfig { durability, ..config(directory) },
        info(),
    )
    .unwrap();
    {
        let mut faults = disk.faults();
        faults.write = 0.08 * random.unit();
        faults.short_write = 0.3 * random.unit();
        faults.other = 0.08 * random.unit();
        // A flush that fails may take chunks that were acknowledged as safe from a kill only.
        if durability == Durability::Power {
            faults.sync = 0.1 * random.unit();
        }
        if random.chance(0.3) {
            faults.bytes_left = Some(random.below(2_000_000));
        }
    }
    let mut appended = 0;
    let mut failed = false;
    for _ in 0..20 + random.below(200) {
        if writer.append(&label(appended), &[payload(appended)]).is_ok() {
            appended += 1;
        }
        if random.chance(0.3) || !writer.has_room(payload(appended).len()) {
            failed |= writer.commit().is_err();
        }
        if random.chance(0.1) {
            failed |= writer.seal_pending().is_err();
        }
        if random.chance(0.02) {
            disk.faults().bytes_left = None;
        }
    }
    let acknowledged = match ending {
        Ending::Close => {
            let before = writer.acknowledged();
            writer.close().unwrap_or(before)
        }
        Ending::Kill | Ending::PowerCut => writer.acknowledged(),
    };
    if ending == Ending::PowerCut {
        disk.power_cut();
    }
    disk.process_ends();
    (acknowledged, appended, failed)
}

#[test]
fn acknowledged_chunks_survive_every_sequence_of_failures() {
    let (mut failures, mut acknowledged_total) = (0, 0);
    for seed in 0..250 {
        let directory = scratch();
        let (acknowledged, appended, failed) = write_among_faults(directory.path(), seed);
        recover_all(directory.path());
        check_kept(directory.path(), acknowledged, appended);
        failures += u32::from(failed);
        acknowledged_total += acknowledged;
    }
    assert!(failures > 100 && acknowledged_total > 5000, "{failures} {acknowledged_total}");
}

#[test]
fn a_write_may_fail_at_every_byte() {
    for left in (0..=8192).step_by(61).chain([4095, 4096, 4097, 8191, 8192]) {
        let (finished, directory) = write_failing_at(left, EIO);
        assert_eq!(finished.len(), if left == 8192 { 1 } else { 2 });
        if left < 8192 {
            let end = verify(&finished[0]).unwrap().end.unwrap();
            assert_eq!((end.cause, end.data_chunks), (EndCause::Failed, 1));
            assert!(end.error.unwrap().contains("Input/output error"));
        }
        drop(directory);
    }
}

#[test]
fn want_of_space_spoils_no_file() {
    for left in (0..=8192).step_by(61).chain([4095, 4096, 4097, 8191, 8192]) {
        let (finished, _directory) = write_failing_at(left, ENOSPC);
        let [file] = &finished[..] else { panic!("{finished:?}") };
        assert_eq!(verify(file).unwrap().end.unwrap().cause, EndCause::Closed);
    }
}

/// Writes 3 chunks of one block; the second commit fails after `left` bytes, and is tried again.
fn write_failing_at(left: u64, error: i32) -> (Vec<PathBuf>, tempfile::TempDir) {
    let data = [7u8; 100];
    let directory = scratch();
    let disk = FaultyDisk::new(left);
    disk.faults().bytes_left_error = error;
    let mut writer = Writer::new(Arc::new(disk.clone()), config(directory.path()), info()).unwrap();
    writer.append(&label(0), &[data]).unwrap();
    assert_eq!(writer.commit().unwrap(), 1);
    writer.append(&label(1), &[data]).unwrap();
    writer.append(&label(2), &[data]).unwrap();
    disk.faults().bytes_left = Some(left);
    assert_eq!(writer.commit().is_ok(), left == 8192);
    disk.faults().bytes_left = None;
    // Where the same chunks go to a new file, the failed one is ended where it was sound.
    assert_eq!(writer.commit().unwrap(), 3);
    assert_eq!(writer.close().unwrap(), 3);
    assert_eq!(chunks_in(directory.path()).len(), 3);
    assert_eq!(files(directory.path(), ".part").len(), 0);
    (files(directory.path(), ".glog"), directory)
}

#[test]
fn a_file_that_is_truncated_before_its_end_is_ended_where_it_is_sound() {
    let directory = scratch();
    let disk = Arc::new(FaultyDisk::new(0));
    let mut writer = Writer::new(disk, config(directory.path()), info()).unwrap();
    for number in 0..3 {
        writer.append(&label(number), &[[7; 5000]]).unwrap();
    }
    writer.commit().unwrap();
    let part = writer.present_file().unwrap();
    writer.end_file(EndCause::Rotated);
    fs::File::options().write(true).open(&part).unwrap().set_len(15_000).unwrap();
    let error = writer.seal_pending().unwrap_err();
    assert!(matches!(&error, Error::Truncated { chunks: 2, len: 15_000, .. }), "{error}");
    writer.seal_pending().unwrap();
    let report = verify(&part.with_extension("")).unwrap();
    assert!(report.is_sound(), "{report}");
    assert_eq!((report.data_chunks, report.chunks_missing), (1, 2));
    assert_eq!(report.sequence, Some((0, 3)));
    writer.append(&label(3), &[payload(3)]).unwrap();
    writer.close().unwrap();
    assert_eq!(chunks_in(directory.path()).into_keys().collect::<Vec<_>>(), [0, 3]);
}

#[test]
fn the_chunks_that_are_left_of_a_long_file_are_found() {
    let directory = scratch();
    let long = RecorderConfig { file_size_max: Bytes::mib(64), ..config(directory.path()) };
    let mut writer = Writer::new(Arc::new(FaultyDisk::new(0)), long, info()).unwrap();
    let chunk = vec![7; (1 << 20) - 64];
    for number in 0..30 {
        writer.append(&label(number), &[&chunk]).unwrap();
        writer.commit().unwrap();
    }
    let part = writer.present_file().unwrap();
    let len = 4096 + (21 << 20) + 100;
    fs::File::options().write(true).open(&part).unwrap().set_len(len).unwrap();
    let error = writer.commit().unwrap_err();
    assert!(matches!(&error, Error::Truncated { chunks: 9, .. }), "{error}");
    writer.seal_pending().unwrap();
    assert_eq!(chunks_in(directory.path()).into_keys().collect::<Vec<_>>(), Vec::from_iter(0..21));
}

#[test]
fn a_flush_that_failed_is_never_taken_for_done() {
    let directory = scratch();
    let disk = FaultyDisk::new(3);
    let power = RecorderConfig { durability: Durability::Power, ..config(directory.path()) };
    let mut writer = Writer::new(Arc::new(disk.clone()), power, info()).unwrap();
    for number in 0..20 {
        writer.append(&label(number), &[payload(number)]).unwrap();
        writer.commit().unwrap();
    }
    // The flush at the end fails, and with it the end chunk may be lost.
    disk.faults().sync = 1.0;
    writer.end_file(EndCause::Closed);
    assert!(writer.seal_pending().is_err());
    disk.faults().sync = 0.0;
    writer.seal_pending().unwrap();
    assert_eq!(files(directory.path(), ".glog").len(), 0, "the file must not look finished");
    drop(writer);
    disk.process_ends();
    recover_all(directory.path());
    check_kept(directory.path(), 20, 20);
}

#[test]
fn files_are_rotated_and_their_numbers_go_on() {
    let directory = scratch();
    let disk = Arc::new(FaultyDisk::new(0));
    let mut writer = Writer::new(disk, config(directory.path()), info()).unwrap();
    for number in 0..500 {
        if !writer.has_room(payload(number).len()) {
            writer.commit().unwrap();
        }
        assert_eq!(writer.append(&label(number), &[payload(number)]).unwrap(), number);
        if number % 3 == 0 {
            writer.commit().unwrap();
        }
    }
    writer.close().unwrap();
    let finished = files(directory.path(), ".glog");
    assert!(finished.len() > 5);
    let mut next = 0;
    for (index, path) in finished.iter().enumerate() {
        let report = verify(path).unwrap();
        assert!(report.is_complete(), "{report}");
        assert_eq!(report.header.unwrap().file_index, index as u32);
        assert_eq!(report.sequence.unwrap().0, next);
        next = report.sequence.unwrap().1;
        assert!(report.bytes <= (1 << 20) + 2 * 4096, "{}", report.bytes);
        let last = index + 1 == finished.len();
        let cause = if last { EndCause::Closed } else { EndCause::Rotated };
        assert_eq!(report.end.unwrap().cause, cause);
    }
    assert_eq!(next, 500);
    check_kept(directory.path(), 500, 500);
}

#[test]
fn an_existing_file_is_never_touched() {
    let directory = scratch();
    let write_one = || {
        let disk = Arc::new(FaultyDisk::new(0));
        let mut writer = Writer::new(disk, config(directory.path()), info()).unwrap();
        writer.append(&label(0), &[payload(0)]).unwrap();
        writer.close().unwrap();
    };
    // Three recorders of the same run, most likely in the same second.
    (0..3).for_each(|_| write_one());
    assert_eq!(files(directory.path(), ".glog").len(), 3);
}
