//! A recorder whose disk gets into trouble for a while: what waits, what is dropped, and that it goes on after.

use std::path::PathBuf;
use std::process::Command;

use gannet_log::{Kind, Reader};
use serde_json::Value;

use crate::readout::pages::Demo;
use crate::readout::process::{alone, gannet};

/// So slow that a busy machine takes all frames, of which one stream is recorded as it comes.
const EMULATE: &str = "pace = { rate_scale = 0.02 }";

fn logs(run: &Demo) -> Vec<PathBuf> {
    let files = std::fs::read_dir(run.directory()).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|it| it == "glog")).collect();
    logs.sort();
    logs
}

/// Raw frames in the log of a run, which is sound.
fn recorded(run: &Demo) -> u64 {
    let (mut frames, logs) = (0, logs(run));
    let verified = Command::new(gannet()).arg("verify").args(&logs).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
    for log in logs {
        let mut reader = Reader::open(&log).unwrap();
        while let Some(chunk) = reader.next_chunk().unwrap() {
            let label = chunk.header.label;
            frames += if label.kind == Kind::RAW_FRAMES { u64::from(label.items) } else { 0 };
        }
    }
    frames
}

fn stage<'a>(report: &'a Value, name: &str) -> &'a Value {
    report["ledger"].as_array().unwrap().iter().find(|stage| stage["stage"] == name).unwrap()
}

/// A figure of a stage: `offered`, `delivered`, or the name of a reason.
fn figure(stage: &Value, name: &str) -> u64 {
    let drop = |drop: &&Value| drop["reason"] == name;
    let dropped = stage["dropped"].as_array().unwrap().iter().find(drop);
    dropped.map_or(&stage[name], |drop| &drop["count"]).as_u64().unwrap()
}

#[test]
fn what_waits_for_a_disk_in_trouble_is_written_once_it_is_over() {
    let _alone = alone();
    let mut run = Demo::emulated(1, "raw_streams = [\"3/1/0/0\"]", EMULATE, "");
    let cookie = run.cookie();
    run.wait_for("snapshot", &cookie, |now| now["recorder"]["raw_frames"].as_u64() > Some(0));
    for fault in ["stalled-disk", "full-disk"] {
        let put_in = run.put_in(fault, 1.5, &cookie);
        // It is seen from outside while it is on: by an alarm, and by what waits.
        run.wait_for("snapshot", &cookie, |now| {
            let mut alarms = now["alarms"].as_array().unwrap().iter();
            let waiting = stage(now, "recorder")["under_way"].as_u64().unwrap();
            waiting > 0 && alarms.any(|alarm| alarm["kind"] == "recorder")
        });
        let before = run.wait_for("faults", &cookie, |listed| {
            let mut all = listed["injections"].as_array().unwrap().iter();
            all.any(|it| it["number"] == put_in["number"] && it["under_way"] == false)
        });
        let mut faults = before["faults"].as_array().unwrap().iter();
        let told = faults.find(|told| told["name"] == fault).unwrap();
        assert_eq!((&told["truth"], &told["chunks"]["dropped"]), (&1.into(), &0.into()), "{told}");
        // Recording goes on.
        let frames = |now: &Value| now["recorder"]["raw_frames"].as_u64().unwrap();
        let seen = frames(&run.json("snapshot", &cookie).1);
        run.wait_for("snapshot", &cookie, |now| {
            frames(now) > seen && now["recorder"]["trouble"].is_null()
        });
    }
    run.interrupt();
    let (_, report) = run.finish();
    let recorder = &report["recorder"];
    assert_eq!((&recorder["silences"], &recorder["outages"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(report["degraded"], true, "an outage makes a run one to be looked at");
    let (raw, chunks) = (stage(&report, "raw_frames"), stage(&report, "recorder"));
    assert_eq!(figure(raw, "delivered"), figure(raw, "offered"), "nothing was dropped: {raw}");
    assert_eq!(figure(chunks, "delivered"), figure(chunks, "offered"), "nothing: {chunks}");
    let made = report["front_end"]["streams"][0]["frames_made"].as_u64().unwrap();
    assert_eq!((figure(raw, "delivered"), recorded(&run)), (made, made));
}

#[test]
fn what_does_not_fit_the_memory_while_the_disk_is_full_is_dropped_and_counted() {
    let _alone = alone();
    let recorder = "raw_streams = [\"3/1/0/0\"]\nqueue_bytes_max = \"1 MiB\"";
    let mut run = Demo::emulated(2, recorder, EMULATE, "depth = \"20 ms\"");
    let cookie = run.cookie();
    run.wait_for("snapshot", &cookie, |now| now["recorder"]["raw_frames"].as_u64() > Some(0));
    run.put_in("full-disk", 5.0, &cookie);
    // Whoever copies the frames waits for the recorder, and falls behind in the latency buffer.
    run.wait_for("snapshot", &cookie, |now| now["sources"][0]["buffer_fill"] == 1.0);
    let after = run.wait_for("snapshot", &cookie, |now| {
        now["recorder"]["outages"] == 1 && now["recorder"]["trouble"].is_null()
    });
    let frames = |now: &Value| now["recorder"]["raw_frames"].as_u64().unwrap();
    run.wait_for("snapshot", &cookie, |now| {
        frames(now) > frames(&after) && now["sources"][0]["buffer_fill"].as_f64() < Some(0.5)
    });
    run.interrupt();
    let (_, report) = run.finish();
    let (raw, made) = (
        stage(&report, "raw_frames"),
        report["front_end"]["streams"][0]["frames_made"].as_u64().unwrap(),
    );
    let dropped: Vec<_> = raw["dropped"].as_array().unwrap().iter().collect();
    let lost: u64 = dropped.iter().map(|drop| drop["count"].as_u64().unwrap()).sum();
    assert!(lost > 0, "{raw}");
    assert_eq!(figure(raw, "recorder_busy"), lost, "for one reason: {raw}");
    assert_eq!((figure(raw, "offered"), figure(raw, "delivered")), (made, made - lost), "{raw}");
    assert_eq!(recorded(&run), made - lost);
}
