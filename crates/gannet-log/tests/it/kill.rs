//! Kills a recording process again and again: what it had acknowledged is there afterwards.
//!
//! The test program starts itself as the process to be killed. `GANNET_LONG=1` kills it 1000
//! times instead of 12.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use gannet_log::{
    Chunk, Durability, Error, Kind, Label, Offer, Outcome, Reader, Recorder, RecorderConfig,
    RunInfo, recover_directory, verify,
};
use gannet_measure::quantity::{Bytes, Span};
use gannet_measure::random::Random;

/// Directory that the process to be killed works in.
const DIRECTORY: &str = "GANNET_LOG_KILL_DIRECTORY";
/// Seed of the process to be killed.
const SEED: &str = "GANNET_LOG_KILL_SEED";

/// Payload of chunk `number`, up to 30 kB.
fn payload(number: u64) -> Vec<u8> {
    let mut random = Random::stream(77, number);
    let words = random.below(3750);
    (0..words).flat_map(|_| random.bits().to_le_bytes()).collect()
}

/// What the killed process is told by its environment; `None` in an ordinary test run.
fn orders() -> Option<(PathBuf, u64)> {
    let directory = std::env::var_os(DIRECTORY)?;
    Some((directory.into(), std::env::var(SEED).ok()?.parse().ok()?))
}

/// The process that records until it is killed, and prints what was acknowledged.
#[test]
fn child_records() {
    let Some((directory, seed)) = orders() else { return };
    let durability = if seed % 4 == 0 { Durability::Power } else { Durability::Process };
    let config = RecorderConfig {
        directory,
        file_size_max: Bytes::mib(1),
        queue_bytes_max: Bytes::mib(4),
        commit_interval: Span::ms(1),
        disk_reserve: Bytes(0),
        durability,
        ..RecorderConfig::default()
    };
    let recorder = Recorder::start(config, RunInfo::default()).unwrap();
    let handle = recorder.handle();
    let mut told = 0;
    for number in 0.. {
        let label = Label::new(Kind::TRIGGER_RECORD).times(number, number + 1);
        let mut chunk = Chunk::new(label, payload(number));
        while let Offer::Busy(back) = handle.offer(chunk) {
            chunk = back;
            std::thread::sleep(Duration::from_millis(1));
        }
        let acknowledged = handle.acknowledged();
        if acknowledged != told {
            println!("acknowledged {acknowledged}");
            told = acknowledged;
        }
    }
}

/// The process that recovers until it is killed.
#[test]
fn child_recovers() {
    let Some((directory, _)) = orders() else { return };
    recover_directory(&directory).unwrap();
}

/// Starts this program as the child `test`.
fn start(test: &str, directory: &Path, seed: u64) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("kill::{test}"), "--nocapture"])
        .env(DIRECTORY, directory)
        .env(SEED, seed.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Kills the process as `kill -9` does, and returns the last number that it printed.
fn kill(mut child: Child) -> u64 {
    child.kill().unwrap();
    child.wait().unwrap();
    BufReader::new(child.stdout.take().unwrap())
        .lines()
        .filter_map(|line| line.ok()?.split_once("acknowledged ")?.1.parse().ok())
        .last()
        .unwrap_or(0)
}

/// Reads every file of `directory`, all of which must be finished and sound.
fn read_all(directory: &Path) -> BTreeMap<u64, Vec<u8>> {
    let mut chunks = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_str().unwrap();
        // What was moved aside, and the manifest of what was finished, of which a new one may have been
        // begun.
        if name.contains(".torn_") || name.contains(".sha256") {
            continue;
        }
        assert!(name.ends_with(".glog"), "{name}");
        let report = verify(&path).unwrap();
        assert!(report.is_complete(), "{report}");
        let mut reader = Reader::open(&path).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind.is_data() {
                chunks.insert(chunk.header.sequence, chunk.payload.to_vec());
            }
        }
    }
    chunks
}

/// One kill of a recording process, and some of the recovery. Returns what had been acknowledged.
fn kill_and_recover(random: &mut Random) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let recording = start("child_records", directory, random.bits());
    std::thread::sleep(Duration::from_millis(20 + random.below(150)));
    // A live recording cannot be recovered by mistake.
    for (path, outcome) in recover_directory(directory).unwrap() {
        // Or it is just being made, or just ended.
        let harmless = match &outcome {
            Ok(recovered) => recovered.outcome != Outcome::Finished,
            Err(error) => matches!(error, Error::InUse(_) | Error::Io { .. }),
        };
        assert!(harmless, "{}: {outcome:?}", path.display());
    }
    let acknowledged = kill(recording);
    for _ in 0..random.below(3) {
        let recovery = start("child_recovers", directory, 0);
        std::thread::sleep(Duration::from_micros(random.below(8000)));
        kill(recovery);
    }
    for (path, outcome) in recover_directory(directory).unwrap() {
        outcome.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
    let chunks = read_all(directory);
    for number in 0..acknowledged {
        let kept = chunks.get(&number);
        assert!(kept.is_some(), "acknowledged chunk {number} of {acknowledged} is lost");
    }
    // In order and without holes, and what was kept beyond the acknowledged is right too.
    for (number, (sequence, bytes)) in (0..).zip(&chunks) {
        assert_eq!(*sequence, number);
        assert_eq!(*bytes, payload(number), "chunk {number} has changed");
    }
    acknowledged
}

#[test]
fn no_kill_loses_an_acknowledged_chunk() {
    let kills = if std::env::var_os("GANNET_LONG").is_some() { 1000 } else { 12 };
    let mut random = Random::new(u64::from(std::process::id()));
    let acknowledged: u64 = (0..kills).map(|_| kill_and_recover(&mut random)).sum();
    println!("{kills} kills, {acknowledged} acknowledged chunks");
    assert!(acknowledged > kills, "the children hardly recorded anything");
}
