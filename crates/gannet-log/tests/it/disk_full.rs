//! Fills a real file system: recording pauses, what waits is kept, and it goes on with new space.
//!
//! A test program of its own, because a process that starts another one shares its file locks
//! with it for a moment, which would disturb tests of recovery beside it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use gannet_log::{
    Chunk, Item, Kind, Label, Offer, Reader, Recorder, RecorderConfig, RunInfo, State, verify,
};
use gannet_measure::quantity::{Bytes, Span};

/// A file system of 8 MiB in memory, unmounted at the end.
struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    /// Mounts it; `None` without the right to do so.
    fn mount() -> Option<Self> {
        let directory = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=8m", "gannet-test"])
            .arg(directory.path())
            .output()
            .is_ok_and(|output| output.status.success());
        mounted.then_some(Self(directory))
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Waits until `condition` holds; the limit only ends a test that hangs.
fn wait_until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(30), "hangs");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Numbers of the data chunks in the files of `directory`, which must all be finished and whole.
fn numbers_in(directory: &Path) -> BTreeSet<u64> {
    let mut numbers = BTreeSet::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(path.extension().unwrap(), "glog", "{}", path.display());
        let report = verify(&path).unwrap();
        assert!(report.is_complete(), "{report}");
        let mut reader = Reader::open(&path).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            if chunk.header.label.kind.is_data() {
                numbers.insert(chunk.header.sequence);
            }
        }
    }
    numbers
}

#[test]
fn a_full_disk_pauses_the_recording_and_loses_nothing_that_was_accepted() {
    if std::env::var_os("GANNET_MAY_MOUNT").is_none() {
        let why = "it mounts a file system, which `cargo xtask test` allows by GANNET_MAY_MOUNT";
        return gannet_measure::testing::skipped("a full disk", why);
    }
    let Some(disk) = TinyDisk::mount() else {
        return gannet_measure::testing::skipped("a full disk", "no tmpfs can be mounted (root?)");
    };
    let directory = disk.0.path();
    let ballast = directory.join("ballast");
    fs::write(&ballast, vec![0; 6 << 20]).unwrap();
    let config = RecorderConfig {
        directory: directory.into(),
        file_size_max: Bytes::mib(1),
        queue_bytes_max: Bytes::mib(1),
        commit_interval: Span::ms(1),
        disk_reserve: Bytes(0),
        ..RecorderConfig::default()
    };
    let recorder = Recorder::start(config, RunInfo::default()).unwrap();
    let handle = recorder.handle();
    let mut accepted = 0;
    let mut dropped = 0;
    while dropped < 10 {
        match handle.offer(Chunk::new(Label::new(Kind::TP_SLICE), vec![1; 10_000])) {
            Offer::Accepted(number) => accepted = number + 1,
            Offer::Dropped(_) => dropped += 1,
            Offer::Busy(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
    let status = handle.status();
    assert!(matches!(status.state, State::Degraded { reason: "disk_full", .. }), "{status:?}");

    fs::remove_file(ballast).unwrap();
    wait_until(|| handle.acknowledged() == accepted);
    let status = recorder.stop();
    assert_eq!(status.state, State::Stopped);
    assert_eq!(status.account(Item::Chunk).dropped_total(), 10);
    assert!(status.account(Item::Chunk).closes(), "{}", status.account(Item::Chunk));
    assert_eq!(numbers_in(directory), (0..accepted).collect());
}
