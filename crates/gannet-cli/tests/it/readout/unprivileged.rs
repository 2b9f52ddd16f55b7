//! The account of a user without any capability, with the kernel's default buffer: frames lost are
//! those that the front ends made and the readout did not take, whatever else the kernel tells.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::thread;

use gannet_control::emulation::EmulationReport;
use gannet_emulate::Truth;

use crate::readout::process::{
    Bench, Ended, QUIET, Readout, alone, can_drop_capabilities, gannet, rounds,
};

const STREAMS: usize = 16;
/// Sequence numbers wrap after so many frames, so that a second emulation goes on from the first.
const WRAP: u64 = 4096;
/// Frames of each stream at the end of the run, sent slowly so that they arrive.
const TAIL: u64 = 20;
const START: u64 = 107_544_625_968_523_275;
const TICKS_PER_FRAME: u64 = 2048;

/// A configuration whose front ends begin with frame `begin`.
fn config(seed: u64, begin: u64, emulate: &str) -> String {
    let start = START + TICKS_PER_FRAME * begin;
    format!(
        "[[source]]\nstreams = {{ count = {STREAMS} }}\ndepth = \"100 ms\"\n\
         udp = {{ listen = [\"127.0.0.1:0\"], kernel_buffer = \"212992 B\" }}\n\
         [emulate]\nstreams = {{ count = {STREAMS} }}\nseed = {seed}\nstart_timestamp = {start}\n\
         {emulate}\n"
    )
}

/// `gannet emulate --json` with its own configuration.
fn emulate(bench: &Bench, config: &str, frames: u64, to: SocketAddr) -> EmulationReport {
    let path = bench.directory.path().join("emulate.toml");
    std::fs::write(&path, config).unwrap();
    let (frames, to) = (frames.to_string(), to.to_string());
    let mut command = Command::new(gannet());
    command.arg("emulate").arg(path).args(["--json", "--frames", &frames, "--to", &to]);
    let output = command.stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What the front ends did, and what the readout says.
struct Told {
    truth: Vec<Truth>,
    ended: Ended,
}

impl Told {
    fn made(&self) -> u64 {
        self.truth.iter().map(|truth| truth.total().frames_made).sum()
    }

    /// Frames of which nothing was sent that could be taken.
    fn spoilt(&self) -> u64 {
        let faults = self.truth.iter().map(|truth| truth.total().faults);
        faults.map(|faults| faults.lost + faults.stopped + faults.truncated).sum()
    }

    fn lost(&self) -> u64 {
        let causes = ["kernel_queue", "refused", "before_socket"];
        causes.iter().map(|cause| self.ended.ledger("sent", cause)).sum()
    }
}

/// A run of 16 streams without capabilities: `frames` frames each as `emulate` says, then `tail`.
fn run(seed: u64, frames: u64, emulated: &str, tail: &str) -> Told {
    let slow = format!("pace = {{ rate_scale = 0.003, burst = 1 }}\n{tail}");
    let bench = Bench::new(&config(seed, 0, emulated));
    let readout = Readout::start_without_capabilities(&bench.config());
    thread::sleep(QUIET);
    assert_eq!(frames % WRAP, 0);
    let truth = [(0, frames, emulated), (frames, TAIL, &slow)].map(|(begin, frames, emulated)| {
        let report = emulate(&bench, &config(seed, begin, emulated), frames, readout.address);
        assert_eq!(report.datagrams_unsent(), 0);
        report.truth
    });
    thread::sleep(QUIET);
    let told = Told { truth: truth.into(), ended: readout.stop() };
    assert_exact(&told, &format!("seed {seed}, {emulated}"));
    told
}

/// The account is the front ends' truth, stream by stream.
fn assert_exact(told: &Told, what: &str) {
    let Told { truth, ended } = told;
    assert_eq!(ended.open_books(), [""; 0], "{what}");
    let taken = ended.ledger("frames", "delivered");
    assert_eq!(ended.ledger("sent", "offered"), told.made(), "{what}: {}", ended.report);
    assert_eq!(ended.ledger("sent", "delivered"), taken, "{what}");
    assert_eq!(told.lost(), told.made() - taken, "{what}");
    let kernel_drops = ended.number("/sources/0/kernel_drops");
    if kernel_drops == 0 {
        assert_eq!(told.lost(), told.spoilt(), "{what}: {}", ended.report);
        let truncated: u64 = truth.iter().map(|truth| truth.total().faults.truncated).sum();
        assert_eq!(ended.ledger("sent", "refused"), truncated, "{what}");
        assert_eq!(ended.ledger("sent", "before_socket"), told.spoilt() - truncated, "{what}");
    }
    assert_eq!(ended.is_degraded(), told.lost() > 0, "{what}");
    for (place, seen) in ended.report["streams"].as_array().unwrap().iter().enumerate() {
        let number = |name: &str| seen[name].as_u64().unwrap();
        let made: u64 = truth.iter().map(|truth| truth.streams[place].frames_made).sum();
        let told = number("frames") + number("missing");
        assert_eq!(told, made, "{what}: {seen}");
    }
}

const FAULTS: &str = "faults = { loss = 0.01, duplicate = 0.01, reorder = 0.01, \
                      reorder_distance = 5, truncation = 0.01 }";

#[test]
fn frames_lost_in_overload_are_counted_to_the_frame_without_capabilities() {
    let _alone = alone();
    if !can_drop_capabilities("overload without capabilities") {
        return;
    }
    for seed in rounds(2, 40) {
        let faults = if seed % 2 == 0 { "" } else { FAULTS };
        run(seed, 4 * WRAP, &format!("pace = {{ unpaced = true }}\n{faults}"), "");
    }
}

#[test]
fn frames_lost_at_a_steady_rate_are_counted_to_the_frame_without_capabilities() {
    let _alone = alone();
    if !can_drop_capabilities("a steady rate without capabilities") {
        return;
    }
    for seed in rounds(1, 40) {
        let rate_scale = [0.3, 0.1, 1.0, 0.5][seed as usize % 4];
        let pace = format!("pace = {{ rate_scale = {rate_scale} }}\n{FAULTS}");
        run(100 + seed, WRAP, &pace, "");
    }
}

#[test]
fn the_first_and_the_last_second_of_a_stream_are_lost_frames() {
    let _alone = alone();
    if !can_drop_capabilities("the edges of a run without capabilities") {
        return;
    }
    // 49,152 frames are 1.61 s.
    let frames = 12 * WRAP;
    let lost = "pace = { unpaced = true }\nfaults = { outages = [\
                { stream = 3, stop = \"0 s\", restart = \"1 s\" }, { stream = 5, stop = \"610 ms\" }] }";
    let told = run(7, frames, lost, "faults = { outages = [{ stream = 5, stop = \"0 s\" }] }");
    let missing = |stream: usize| told.ended.report["streams"][stream]["missing"].as_u64().unwrap();
    assert!(missing(3) >= 30_518 && missing(5) >= 30_518 + TAIL, "{}", told.ended.report);
}
