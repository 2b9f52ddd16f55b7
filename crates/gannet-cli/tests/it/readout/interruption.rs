//! Starts and stops in the middle of everything.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use gannet_measure::random::Random;
use gannet_measure::testing::free_address;

use crate::readout::process::{Bench, Readout, alone, gannet, rounds, scale};

/// Streams with a trigger 200 times a second, to an address of their own. In the long version they are
/// sixteen at the true rate, so that starts and stops happen at 0.488 Mframe/s.
fn bench() -> Bench {
    let (count, rate_scale) = if scale(2) == 1 { (8, 0.5) } else { (16, 1.0) };
    let address = free_address();
    Bench::new(&format!(
        r#"
        [[source]]
        streams = {{ count = {count} }}
        udp = {{ listen = ["{address}"] }}
        depth = "300 ms"

        [pipeline]
        slice_ticks = 1_000_000

        [metrics]
        listen = "127.0.0.1:0"

        [[pipeline.trigger.source]]
        kind = "periodic"
        interval_ticks = 312_500

        [emulate]
        streams = {{ count = {count} }}
        pace = {{ rate_scale = {rate_scale} }}
        "#
    ))
}

/// Whether any socket of this machine is bound to the address.
fn is_bound(address: SocketAddr) -> bool {
    let table = std::fs::read_to_string("/proc/net/udp").unwrap();
    table.contains(&format!("0100007F:{:04X} 00000000:0000", address.port()))
}

#[test]
fn starts_and_stops_amid_traffic_lose_nothing_and_leave_nothing() {
    let _alone = alone();
    let bench = bench();
    let traffic = bench.traffic();
    for round in rounds(5, 100) {
        let mut random = Random::stream(1, round);
        let readout = Readout::start(&bench.config());
        let address = readout.address;
        assert!(is_bound(address));
        thread::sleep(Duration::from_millis(100 + random.below(200)));
        let ended = readout.stop();
        if ended.kernel_was_short("starts and stops amid traffic") {
            return;
        }
        assert_eq!(ended.status.code(), Some(130), "round {round}: {}", ended.report);
        assert!(!ended.is_degraded(), "round {round}: {}", ended.report);
        assert_eq!(ended.open_books(), [""; 0], "round {round}");
        assert_eq!(ended.report["state"], "stopped");
        assert!(ended.ledger("frames", "delivered") > 0);
        assert!(!is_bound(address), "round {round}");
        let files = bench.files();
        assert_eq!(files.len(), 1, "{files:?}");
        assert!(gannet_log::verify(&files[0]).unwrap().is_complete());
        std::fs::remove_file(&files[0]).unwrap();
    }
    drop(traffic);
}

/// Chunks of data in a finished file.
fn chunks(file: &Path) -> u64 {
    let report = gannet_log::verify(file).unwrap();
    assert!(report.is_complete(), "{}: {report}", file.display());
    report.data_chunks
}

#[test]
fn a_kill_loses_no_acknowledged_chunk() {
    let _alone = alone();
    let bench = bench();
    let traffic = bench.traffic();
    for round in rounds(4, 52) {
        let mut random = Random::stream(2, round);
        let readout = Readout::start(&bench.config());
        let moment = Instant::now() + Duration::from_millis(200 + random.below(400));
        let mut acknowledged = 0;
        while Instant::now() < moment {
            acknowledged = readout.snapshot()["recorder"]["acknowledged"].as_u64().unwrap();
        }
        readout.kill();
        let mut recover = Command::new(gannet());
        let recover = recover.arg("recover").args(bench.files()).output().unwrap();
        assert!(recover.status.success(), "{recover:?}");
        // What the kill cut in two lies beside the log, where nobody loses a byte of it.
        let (torn, files): (Vec<_>, Vec<_>) =
            bench.files().into_iter().partition(|file| file.to_str().unwrap().contains(".torn_"));
        let [file] = &files[..] else { panic!("{files:?}") };
        assert!(file.extension().is_some_and(|extension| extension == "glog"), "{files:?}");
        torn.iter().for_each(|file| std::fs::remove_file(file).unwrap());
        let kept = chunks(file);
        assert!(kept >= acknowledged, "round {round}: {kept} of {acknowledged}");
        std::fs::remove_file(file).unwrap();
    }
    drop(traffic);
}

#[test]
fn the_next_run_recovers_a_log_beside_its_own() {
    let _alone = alone();
    let bench = bench();
    let traffic = bench.traffic();
    let killed = Readout::start(&bench.config());
    while killed.snapshot()["recorder"]["acknowledged"].as_u64() < Some(3) {
        thread::sleep(Duration::from_millis(20));
    }
    killed.kill();
    let [unfinished] = &bench.files()[..] else { panic!("{:?}", bench.files()) };
    assert!(unfinished.extension().is_some_and(|extension| extension == "part"));
    let readout = Readout::start(&bench.config());
    let begin = Instant::now();
    while unfinished.exists() {
        assert!(begin.elapsed() < Duration::from_secs(20), "{:?}", bench.files());
        thread::sleep(Duration::from_millis(20));
    }
    let ended = readout.stop();
    drop(traffic);
    assert_eq!(ended.status.code(), Some(130), "{}", ended.report);
    let mut files = bench.files();
    files.retain(|file| !file.to_str().unwrap().contains(".torn_"));
    assert_eq!(files.len(), 2, "{files:?}");
    assert!(files.iter().all(|file| chunks(file) > 0));
    assert_eq!(ended.report["recorder"]["files"].as_array().unwrap().len(), 1, "its own alone");
}

#[test]
fn a_directory_that_goes_away_degrades_the_run_and_recording_resumes() {
    let _alone = alone();
    let bench = bench();
    let readout = Readout::start(&bench.config());
    let traffic = bench.traffic();
    let until = |what: &str, done: &dyn Fn(&serde_json::Value) -> bool| {
        let begin = Instant::now();
        while !done(&readout.snapshot()) {
            assert!(begin.elapsed() < Duration::from_secs(20), "{what}: {}", readout.snapshot());
            thread::sleep(Duration::from_millis(20));
        }
    };
    let records = |snapshot: &serde_json::Value| snapshot["recorder"]["acknowledged"].as_u64();
    until("recording", &|snapshot| records(snapshot) > Some(10));
    std::fs::remove_dir_all(bench.out()).unwrap();
    until("trouble", &|snapshot| {
        snapshot["recorder"]["trouble"].is_string() && snapshot["degraded"] == true
    });
    let frames = |snapshot: &serde_json::Value| snapshot["sources"][0]["frames"].as_u64();
    let before = frames(&readout.snapshot());
    until("frames go on", &|snapshot| frames(snapshot) > before.map(|n| n + 1000));
    std::fs::create_dir(bench.out()).unwrap();
    until("no trouble", &|snapshot| snapshot["recorder"]["trouble"].is_null());
    drop(traffic);
    let ended = readout.stop();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.report);
    assert_eq!(ended.ledger("source", "offered"), ended.ledger("frames", "delivered"));
    bench.files().iter().for_each(|file| assert!(chunks(file) > 0));
}
