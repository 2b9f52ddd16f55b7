//! Frames taken by AF_XDP: the front end in one network namespace, the readout in another, and a pair
//! of virtual Ethernet cards between them.

use std::process::Stdio;
use std::thread;

use gannet_control::emulation::EmulationReport;
use gannet_measure::testing::skipped;
use serde_json::Value;

use crate::readout::namespaces::Namespaces;
use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, scale};

/// Ticks from one frame of a stream to the next.
const FRAME_TICKS: u64 = 2048;

fn config(mode: &str, emulate: &str) -> String {
    format!(
        "[[source]]\nstreams = {{ count = 4 }}\ndepth = \"200 ms\"\n\
         xdp = {{ listen = \"10.73.0.2:17477\", {mode} buffer = \"4 MiB\" }}\n\
         [emulate]\nstreams = {{ count = 4 }}\nseed = 11\n{emulate}\n"
    )
}

/// A run over the wire, and how many packets the wire itself lost; none where it cannot be.
fn run(what: &str, emulate: &str, frames: u64) -> Option<(EmulationReport, Ended, u64)> {
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(reason) => {
            skipped(what, reason);
            return None;
        }
    };
    let bench = Bench::new(&config("mode = \"native\",", emulate));
    let doctor = namespaces.gannet(1).args(["doctor", "--json"]).arg(bench.config()).output();
    let doctor: Value = serde_json::from_slice(&doctor.unwrap().stdout).unwrap();
    let checks = doctor.as_array().unwrap();
    let check = checks.iter().find(|check| check["name"] == "AF_XDP").unwrap();
    if check["verdict"] != "ok" {
        skipped(what, &check["value"]);
        return None;
    }
    let mut command = namespaces.gannet(1);
    let readout = Readout::start_by(command.args(["run", "--json"]).arg(bench.config()));
    thread::sleep(QUIET);
    let mut command = namespaces.gannet(0);
    command.arg("emulate").arg(bench.config()).args(["--json", "--frames", &frames.to_string()]);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    thread::sleep(QUIET);
    let (ended, lost) = (readout.stop(), namespaces.lost());
    let sent: EmulationReport = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ended.open_books(), [""; 0]);
    // The ledger begins at the interface: what came there is taken or dropped for a reason.
    let came = ended.ledger("source", "offered") + ended.ledger("sent", "kernel_queue");
    assert_eq!(came + lost, sent.datagrams_taken(), "{}", ended.report);
    for ((truth, seen), unknown) in
        sent.truth.streams.iter().zip(streams(&ended)).zip(unknown(&sent, &ended))
    {
        let number = |name: &str| seen[name].as_u64().unwrap();
        let known = number("frames") + number("missing");
        assert_eq!(known + unknown, truth.frames_made, "{truth:?}\n{seen}");
    }
    Some((sent, ended, lost))
}

fn streams(ended: &Ended) -> &[Value] {
    ended.report["streams"].as_array().unwrap()
}

/// Of each stream, the last frames that nobody can know of: those after its own last that came, and after the last
/// time that two streams came to.
fn unknown(sent: &EmulationReport, ended: &Ended) -> Vec<u64> {
    let newest = streams(ended).iter().map(|seen| seen["newest_timestamp"].as_u64().unwrap());
    let newest: Vec<_> = newest.collect();
    let mut reached = newest.clone();
    reached.sort_unstable();
    let agreed = reached[reached.len() - 2];
    let last = sent.truth.streams.iter().map(|truth| truth.last_timestamp.unwrap());
    last.zip(newest).map(|(last, own)| last.saturating_sub(own.max(agreed)) / FRAME_TICKS).collect()
}

#[test]
fn faults_are_counted_to_the_frame() {
    let _alone = alone();
    let faults = "pace = { rate_scale = 0.2 }\nfaults = { loss = 0.01, truncation = 0.01 }";
    let what = "a run by AF_XDP";
    let Some((sent, ended, _)) = run(what, faults, 8000 * scale(20)) else { return };
    let truth = sent.truth.total().faults;
    assert!(truth.lost > 100 && truth.truncated > 100);
    assert_eq!(ended.ledger("source", "wrong_length"), truth.truncated);
    assert!(ended.report["sources"][0]["engine"].as_str().unwrap().contains("xdp native"));
    assert!(ended.errors.contains("UDP sockets were measured to be faster"), "{}", ended.errors);
    assert!(ended.is_degraded());
}

#[test]
fn overload_is_counted_to_the_frame() {
    let _alone = alone();
    let what = "overload of a run by AF_XDP";
    let unpaced = "pace = { unpaced = true }";
    let Some((sent, ended, lost)) = run(what, unpaced, 4096 * 4 * scale(10)) else { return };
    let made = sent.truth.total().frames_made;
    let causes = ["kernel_queue", "refused", "before_socket"];
    let missing: u64 = causes.iter().map(|cause| ended.ledger("sent", cause)).sum();
    let known = ended.ledger("sent", "delivered") + missing;
    let unknown: u64 = unknown(&sent, &ended).iter().sum();
    assert_eq!(known + unknown, made, "{}", ended.report);
    assert!(missing >= lost, "{}", ended.report);
}

#[test]
fn zero_copy_that_the_driver_cannot_do_is_refused() {
    let what = "the refusal of zero copy";
    let namespaces = match Namespaces::new() {
        Ok(namespaces) => namespaces,
        Err(reason) => return skipped(what, reason),
    };
    let bench = Bench::new(&config("", ""));
    let output = namespaces.gannet(1).arg("run").arg(bench.config()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("CAP_BPF") {
        return skipped(what, errors.trim());
    }
    assert!(!output.status.success(), "it ran");
    assert!(errors.contains("no zero copy") && errors.contains("udp = "), "{errors}");
}
