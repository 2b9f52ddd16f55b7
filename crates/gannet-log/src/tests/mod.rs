//! Tests over several files of the log.

mod damage;
mod failures;
mod faulty;
mod recording;
mod recovery;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use gannet_measure::quantity::{Bytes, Span};
use gannet_measure::random::Random;

use super::format::encode_chunk;
use super::*;

/// Payload of data chunk `sequence`: a function of the number, up to 20 kB, sometimes 300 kB.
fn payload(sequence: u64) -> Vec<u8> {
    let mut random = Random::stream(1, sequence);
    let len = match random.below(20) {
        0 => random.below(300_000),
        1 => 0,
        _ => random.below(20_000),
    };
    (0..len).map(|_| random.bits() as u8).collect()
}

/// Label of data chunk `sequence`.
fn label(sequence: u64) -> Label {
    let kinds = [Kind::TRIGGER_RECORD, Kind::TP_SLICE, Kind::BUSY, Kind(777)];
    let kind = kinds[(sequence % 4) as usize];
    Label::new(kind).times(1000 * (sequence + 1), 1000 * (sequence + 1) + 999).counts(5, 1)
}

/// A small configuration that writes to `directory`.
fn config(directory: &Path) -> RecorderConfig {
    RecorderConfig {
        directory: directory.into(),
        prefix: "test".into(),
        file_size_max: Bytes::mib(1),
        queue_bytes_max: Bytes::mib(1),
        commit_interval: Span::ms(1),
        durability: Durability::Process,
        disk_reserve: Bytes(0),
        drain_within: Span::ms(200),
        ..RecorderConfig::default()
    }
}

/// A fresh directory, in memory where the system offers that: some tests make thousands.
fn scratch() -> tempfile::TempDir {
    let shared_memory = Path::new("/dev/shm");
    tempfile::tempdir_in(shared_memory).or_else(|_| tempfile::tempdir()).unwrap()
}

fn info() -> RunInfo {
    RunInfo {
        run: 123,
        application: "test".into(),
        host: "here".into(),
        config_digest: digest(""),
        ticks_hz: 62_500_000,
        started_unix_ns: 0,
    }
}

/// A whole file with the data chunks `numbers`, each with a payload of `payload_len` bytes,
/// end chunk included. Returns the offset of every chunk too.
fn file_of(numbers: std::ops::Range<u64>, payload_len: usize) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut offsets) = (Vec::new(), vec![0]);
    let header = FileHeader::new(&info(), 0, 1).encode();
    encode_chunk(&Label::new(Kind::FILE_HEADER), 123, numbers.start, &[header], &mut bytes);
    for number in numbers.clone() {
        offsets.push(bytes.len());
        let payload = vec![number as u8 + 1; payload_len];
        encode_chunk(&label(number), 123, number, &[payload], &mut bytes);
    }
    offsets.push(bytes.len());
    let end = EndOfFile {
        cause: EndCause::Closed,
        data_chunks: numbers.end - numbers.start,
        chunks_missing: 0,
        closed_unix_ns: 2,
        error: None,
        account: Vec::new(),
    };
    encode_chunk(&Label::new(Kind::END_OF_FILE), 123, numbers.end, &[end.encode()], &mut bytes);
    (bytes, offsets)
}

/// Paths in `directory` whose names end in `suffix`, sorted.
fn files(directory: &Path, suffix: &str) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.to_str().unwrap().ends_with(suffix))
        .collect();
    paths.sort();
    paths
}

/// The data chunks of one sound file.
fn chunks_of(path: &Path) -> BTreeMap<u64, Vec<u8>> {
    let report = verify(path).unwrap();
    assert!(report.is_sound(), "{report}");
    let mut chunks = BTreeMap::new();
    let mut reader = Reader::open(path).unwrap();
    while let Some(chunk) = reader.next_chunk().unwrap() {
        if chunk.header.label.kind.is_data() {
            chunks.insert(chunk.header.sequence, chunk.payload.to_vec());
        }
    }
    chunks
}

/// The data chunks of all finished files of `directory`; every file must be sound.
fn chunks_in(directory: &Path) -> BTreeMap<u64, Vec<u8>> {
    let mut all = BTreeMap::new();
    for path in files(directory, ".glog") {
        for (sequence, bytes) in chunks_of(&path) {
            if let Some(other) = all.insert(sequence, bytes) {
                assert_eq!(all[&sequence], other, "two different chunks {sequence}");
            }
        }
    }
    all
}

/// Recovers what is unfinished in `directory`, without an error for any file.
fn recover_all(directory: &Path) {
    for (path, outcome) in recover_directory(directory).unwrap() {
        outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    assert_eq!(files(directory, ".part"), Vec::<PathBuf>::new());
}

/// Checks that the first `acknowledged` chunks are in the finished files, and nothing that was
/// never written.
fn check_kept(directory: &Path, acknowledged: u64, appended: u64) {
    let chunks = chunks_in(directory);
    for sequence in 0..acknowledged {
        assert!(chunks.contains_key(&sequence), "acknowledged chunk {sequence} is lost");
    }
    for (sequence, bytes) in &chunks {
        assert!(*sequence < appended);
        assert_eq!(*bytes, payload(*sequence), "chunk {sequence} has changed");
    }
}
