//! Recovery keeps every sound chunk and every other byte, and may be interrupted anywhere.

use super::faulty::FaultyDisk;
use super::*;

/// Writes `bytes` as the unfinished file of a fresh directory.
fn unfinished(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let directory = scratch();
    let path = directory.path().join("run_f0000.glog.part");
    fs::write(&path, bytes).unwrap();
    (directory, path)
}

/// Recovery without waiting for the disk, for tests that do it thousands of times.
fn recover_fast(path: &Path) -> Recovered {
    recover_on(&FaultyDisk::new(0), path).unwrap()
}

#[test]
fn a_tail_torn_at_any_byte_is_cut_and_kept_aside() {
    let (bytes, offsets) = file_of(0..3, 600);
    for len in offsets[3]..bytes.len() {
        let (directory, path) = unfinished(&bytes[..len]);
        let recovered = recover_fast(&path);
        let whole = offsets[1..4].iter().filter(|&&offset| offset + 4096 <= len).count();
        assert_eq!(recovered.outcome, Outcome::Finished);
        assert_eq!(recovered.data_chunks, whole as u64, "{len}");
        assert_eq!(chunks_of(&recovered.file).len(), whole);
        let torn = &bytes[len / 4096 * 4096..len];
        assert_eq!(recovered.bytes_set_aside, torn.len() as u64);
        match files(directory.path(), "").as_slice() {
            [_] => assert!(torn.is_empty()),
            [_, side] => assert_eq!(fs::read(side).unwrap(), torn),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn recovering_again_changes_nothing() {
    let (bytes, _) = file_of(0..3, 600);
    let (directory, path) = unfinished(&bytes[..14_000]);
    let first = recover_fast(&path);
    let content = fs::read(&first.file).unwrap();
    // By the old name and by the new one.
    for path in [&path, &first.file] {
        let again = recover(path).unwrap();
        assert_eq!(again.outcome, Outcome::AlreadyFinished);
        assert_eq!(again.data_chunks, first.data_chunks);
    }
    assert_eq!(fs::read(&first.file).unwrap(), content);
    assert_eq!(files(directory.path(), "").len(), 2);
}

#[test]
fn a_file_with_its_end_chunk_only_gets_its_name() {
    let (bytes, _) = file_of(0..3, 600);
    let (_directory, path) = unfinished(&bytes);
    let recovered = recover_fast(&path);
    assert_eq!(recovered.outcome, Outcome::Finished);
    assert_eq!(fs::read(&recovered.file).unwrap(), bytes);
    assert_eq!(verify(&recovered.file).unwrap().end.unwrap().cause, EndCause::Closed);
}

#[test]
fn a_file_without_a_sound_chunk_is_set_aside_whole() {
    let (bytes, _) = file_of(0..1, 600);
    for len in [0, 1, 63, 64, 4095] {
        let (directory, path) = unfinished(&bytes[..len]);
        let recovered = recover_fast(&path);
        assert_eq!(recovered.outcome, Outcome::NothingInside, "{len}");
        assert_eq!(recovered.set_aside.len(), usize::from(len > 0));
        assert_eq!(files(directory.path(), "").len(), usize::from(len > 0));
        for side in recovered.set_aside {
            assert_eq!(fs::read(side).unwrap(), bytes[..len]);
        }
    }
}

#[test]
fn chunks_behind_damage_are_kept_and_the_gap_is_counted() {
    let (mut bytes, offsets) = file_of(100..120, 5000);
    let damaged = [3, 4, 9, 20];
    for index in damaged {
        bytes[offsets[index] + 70] ^= 0x10;
    }
    let (_directory, path) = unfinished(&bytes[..offsets[21]]);
    let recovered = recover_fast(&path);
    assert_eq!((recovered.data_chunks, recovered.chunks_missing), (16, 3));
    // Two chunks in a row are one gap; the last one is cut off with the tail.
    assert_eq!(recovered.set_aside.len(), 3);
    let report = verify(&recovered.file).unwrap();
    assert!(report.is_sound() && !report.is_complete(), "{report}");
    assert_eq!((report.chunks_missing, report.end.unwrap().chunks_missing), (3, 3));
    let kept: Vec<u64> = chunks_of(&recovered.file).into_keys().collect();
    let expected = (100..119).filter(|number| ![102, 103, 108].contains(number));
    assert_eq!(kept, expected.collect::<Vec<_>>());
}

#[test]
fn a_damaged_file_header_is_rebuilt() {
    let (mut bytes, offsets) = file_of(7..12, 5000);
    bytes[10] ^= 1;
    let (_directory, path) = unfinished(&bytes);
    let recovered = recover_fast(&path);
    assert_eq!((recovered.data_chunks, recovered.chunks_missing), (5, 0));
    let header = verify(&recovered.file).unwrap().header.unwrap();
    assert_eq!((header.rebuilt, header.run), (true, 123));

    // The first data chunk is damaged too: a header and a gap take the place.
    bytes[offsets[1] + 100] ^= 1;
    let (_directory, path) = unfinished(&bytes);
    assert_eq!(recover_fast(&path).data_chunks, 4);
}

#[test]
fn long_damage_becomes_several_gaps() {
    // 40 MiB of holes between two chunks: a sparse file costs no space.
    let (bytes, offsets) = file_of(0..2, 600);
    let (_directory, path) = unfinished(&bytes[..offsets[2]]);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    let far = 40 << 20;
    let mut chunk = Vec::new();
    encode_chunk(&label(9), 123, 9, &[vec![10; 600]], &mut chunk);
    std::os::unix::fs::FileExt::write_all_at(&file, &chunk, far).unwrap();
    drop(file);
    let recovered = recover_fast(&path);
    assert_eq!((recovered.data_chunks, recovered.chunks_missing), (2, 8));
    assert_eq!(recovered.bytes_set_aside, far - offsets[2] as u64);
    let mut gaps = 0;
    let mut reader = Reader::open(&recovered.file).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        gaps += u32::from(chunk.header.label.kind == Kind::GAP);
    }
    assert_eq!(gaps, 3);
}

#[test]
fn refuses_what_it_should_not_touch() {
    let (mut bytes, _) = file_of(0..3, 600);
    // A file that is being written.
    let (_directory, path) = unfinished(&bytes[..10_000]);
    let live = fs::File::open(&path).unwrap();
    live.lock().unwrap();
    assert!(matches!(recover(&path), Err(Error::InUse(_))));
    drop(live);
    // A finished file of the same name.
    let finished = name::finished_path(&path).unwrap();
    fs::write(&finished, &bytes).unwrap();
    assert!(matches!(recover(&path), Err(Error::Exists(_))));
    // A finished file that was damaged later stays as it is.
    bytes[5000] ^= 1;
    fs::write(&finished, &bytes).unwrap();
    assert!(matches!(recover(&finished), Err(Error::FinishedDamaged { .. })));
    assert_eq!(fs::read(&finished).unwrap(), bytes);
    // A file of a later version of the format is not damage.
    bytes[4] = 2;
    let crc = crc_fast::crc32_iscsi(&bytes[..60]);
    bytes[60..64].copy_from_slice(&crc.to_le_bytes());
    let (_directory, path) = unfinished(&bytes);
    let error = recover(&path).unwrap_err().to_string();
    assert!(error.contains("format version 2"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), bytes);
    // No file at all.
    assert!(recover(Path::new("/no/such/file.glog.part")).is_err());
}

#[test]
fn what_is_no_log_is_left_alone() {
    use std::os::unix::fs::symlink;

    let (bytes, _) = file_of(0..3, 600);
    let (directory, path) = unfinished(&vec![7; 10_000]);
    assert!(matches!(recover(&path), Err(Error::NotALog(_))));
    assert_eq!(fs::read(&path).unwrap(), vec![7; 10_000]);
    // A link to a log elsewhere, and a second name of one.
    let elsewhere = scratch();
    let target = elsewhere.path().join("private");
    fs::write(&target, &bytes[..10_000]).unwrap();
    let at = |name: &str| directory.path().join(name);
    symlink(&target, at("b_f0000.glog.part")).unwrap();
    symlink("/dev/zero", at("c_f0000.glog.part")).unwrap();
    fs::hard_link(&target, at("d_f0000.glog.part")).unwrap();
    fs::create_dir(at("e_f0000.glog.part")).unwrap();
    let recovered = recover_directory(directory.path()).unwrap();
    assert_eq!(recovered.len(), 5);
    for (path, result) in recovered {
        let told = result.unwrap_err().to_string();
        let says_why = ["is no log", "move it away"].iter().any(|words| told.contains(words));
        assert!(told.contains(path.to_str().unwrap()) && says_why, "{told}");
    }
    assert_eq!(files(directory.path(), "").len(), 5, "nothing was added or removed");
    assert_eq!(fs::read(target).unwrap(), bytes[..10_000]);
}

/// Unfinished files with all sorts of damage.
fn damaged_files() -> Vec<Vec<u8>> {
    let (bytes, offsets) = file_of(0..6, 5000);
    let flipped = |places: &[usize], len: usize| {
        let mut bytes = bytes[..len].to_vec();
        places.iter().for_each(|&place| bytes[place] ^= 4);
        bytes
    };
    vec![
        flipped(&[], offsets[5] + 77),
        flipped(&[], bytes.len()),
        flipped(&[], 100),
        flipped(&[offsets[2] + 1], offsets[5] + 4096),
        flipped(&[5, offsets[1] + 200, offsets[4]], bytes.len()),
        flipped(&[offsets[7]], bytes.len()),
    ]
}

#[test]
fn may_be_interrupted_at_every_operation() {
    for bytes in damaged_files() {
        let (undisturbed, path) = unfinished(&bytes);
        recover_fast(&path);
        let expected = chunks_in(undisturbed.path());
        for operations in 0.. {
            let (directory, path) = unfinished(&bytes);
            let disk = FaultyDisk::new(operations);
            disk.faults().operations_left = Some(operations);
            let interrupted = recover_on(&disk, &path);
            if operations % 2 == 0 {
                disk.process_ends()
            } else {
                disk.power_cut()
            }
            if path.exists() {
                recover_fast(&path);
            }
            assert_eq!(chunks_in(directory.path()), expected, "{operations}");
            check_every_byte_is_somewhere(&bytes, directory.path());
            if interrupted.is_ok() {
                break;
            }
            assert!(operations < 1000);
        }
    }
}

/// Checks that each block that differs in the recovered file is in a side file.
fn check_every_byte_is_somewhere(original: &[u8], directory: &Path) {
    let finished = files(directory, ".glog").first().map(|path| fs::read(path).unwrap());
    let finished = finished.unwrap_or_default();
    let sides: Vec<(usize, Vec<u8>)> = files(directory, "")
        .iter()
        .filter_map(|path| {
            let name = path.to_str().unwrap();
            let at = name.split(".torn_").nth(1)?;
            (!at.ends_with(".tmp")).then(|| (at[..12].parse().unwrap(), fs::read(path).unwrap()))
        })
        .collect();
    for (index, block) in original.chunks(4096).enumerate() {
        let at = index * 4096;
        let in_place = finished.get(at..at + block.len()) == Some(block);
        let aside = sides.iter().any(|(start, bytes)| {
            at.checked_sub(*start).and_then(|from| bytes.get(from..from + block.len()))
                == Some(block)
        });
        assert!(in_place || aside, "block {index} is gone");
    }
}
