//! What went wrong on purpose is what the readout counts, to the frame.

use gannet_control::emulation::EmulationReport;

use crate::readout::process::{Bench, Ended, alone, scale};

/// Four streams at a third of the true rate, so that nothing else goes wrong.
const FAULTY: &str = r#"
[[source]]
streams = { count = 4 }
udp = { listen = ["127.0.0.1:0"] }
depth = "200 ms"

[emulate]
seed = 11
pace = { rate_scale = 0.33 }
"#;

fn bench(faults: &str) -> Bench {
    Bench::new(&format!("{FAULTY}{faults}"))
}

/// Every frame made is taken, missing or out of place.
fn assert_explained(sent: &EmulationReport, ended: &Ended) {
    assert_eq!(ended.open_books(), [""; 0]);
    let came = ended.ledger("source", "offered") + ended.ledger("sent", "kernel_queue");
    assert!(came == sent.datagrams_taken() || !is_counted(ended), "{}", ended.report);
    let streams = ended.report["streams"].as_array().unwrap();
    for (truth, seen) in sent.truth.streams.iter().zip(streams) {
        let number = |name: &str| seen[name].as_u64().unwrap();
        let explained = number("frames") + number("missing");
        assert_eq!(explained, truth.frames_made, "{truth:?}\n{seen}");
    }
}

/// Whether the kernel has told how many datagrams it dropped.
fn is_counted(ended: &Ended) -> bool {
    let source = |figure: &str| ended.number(&format!("/sources/0/{figure}"));
    source("kernel_drops") == source("kernel_drops_max")
}

/// The sum of a figure of all streams.
fn sum(ended: &Ended, figure: &str) -> u64 {
    let streams = ended.report["streams"].as_array().unwrap();
    streams.iter().map(|stream| stream[figure].as_u64().unwrap()).sum()
}

fn assert_degraded(ended: &Ended) {
    assert!(ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.status.code(), Some(3));
}

/// A run with faults put in; none when the kernel lost frames of its own accord.
fn run(faults: &str) -> Option<(EmulationReport, Ended)> {
    let _alone = alone();
    let (sent, ended) = bench(faults).run(20_000 * scale(20));
    assert_explained(&sent, &ended);
    (!ended.kernel_was_short(faults)).then_some((sent, ended))
}

#[test]
fn a_good_run_is_not_degraded_and_ends_as_the_signal_says() {
    let Some((sent, ended)) = run("") else { return };
    assert_eq!(ended.ledger("frames", "delivered"), sent.truth.total().frames_made);
    assert!(!ended.is_degraded(), "{}", ended.report);
    assert_eq!(ended.status.code(), Some(130));
}

#[test]
fn lost_frames_are_missing() {
    let Some((sent, ended)) = run("faults = { loss = 0.01 }") else { return };
    let lost = sent.truth.total().faults.lost;
    assert!(lost > 100);
    assert_eq!((sum(&ended, "missing"), ended.ledger("sent", "before_socket")), (lost, lost));
    assert_degraded(&ended);
}

#[test]
fn duplicates_are_dropped_and_do_no_harm() {
    let Some((sent, ended)) = run("faults = { duplicate = 0.01 }") else { return };
    assert_eq!(ended.ledger("frames", "duplicate"), sent.truth.total().faults.duplicated);
    assert!(!ended.is_degraded());
    assert_eq!(ended.status.code(), Some(130));
}

#[test]
fn late_frames_fill_their_gaps() {
    let Some((sent, ended)) = run("faults = { reorder = 0.01, reorder_distance = 5 }") else {
        return;
    };
    let reordered = sent.truth.total().faults.reordered;
    assert!(reordered > 100);
    // A frame held back by one that is held back itself is in order again.
    assert!(sum(&ended, "late") <= reordered && sum(&ended, "late") > reordered * 9 / 10);
    assert_eq!(sum(&ended, "missing"), 0);
    // Their primitives are lost, and so were the hits that were open before them.
    assert_eq!(ended.ledger("tpg", "late"), sum(&ended, "late"));
    assert_degraded(&ended);
}

#[test]
fn cut_datagrams_are_of_wrong_length() {
    let Some((sent, ended)) = run("faults = { truncation = 0.01 }") else { return };
    assert_eq!(ended.ledger("source", "wrong_length"), sent.truth.total().faults.truncated);
    assert_degraded(&ended);
}

#[test]
fn flipped_bits_are_found_in_headers() {
    let Some((sent, ended)) = run("faults = { bit_flip = 0.2 }") else { return };
    assert!(sent.truth.total().faults.flipped_header > 20);
    let drops = ["bad_header", "unknown_stream", "bad_timestamp", "duplicate", "too_old"];
    let refused: u64 = drops.iter().map(|reason| ended.ledger("frames", reason)).sum();
    let found = refused + sum(&ended, "sequence_errors");
    assert!(found <= sent.truth.total().faults.flipped_header);
    assert!(refused > 0 && sum(&ended, "sequence_errors") > 0, "{}", ended.report);
    assert_degraded(&ended);
}

#[test]
fn frames_of_nobody_are_refused_by_name() {
    let Some((sent, ended)) = run("faults = { wrong_id = 0.01 }") else { return };
    assert_eq!(ended.ledger("frames", "unknown_stream"), sent.truth.total().faults.wrong_id);
    assert_degraded(&ended);
}

#[test]
fn jumps_of_the_sequence_number_lose_nothing() {
    let Some((sent, ended)) = run("faults = { sequence_jump = 0.001 }") else { return };
    assert_eq!(sum(&ended, "sequence_errors"), sent.truth.total().faults.sequence_jumped);
    assert!(!ended.is_degraded(), "{}", ended.report);
}

#[test]
fn jumps_of_time_are_restarts() {
    let Some((sent, ended)) = run("faults = { timestamp_jump = 0.001 }") else { return };
    assert_eq!(sum(&ended, "restarts"), sent.truth.total().faults.timestamp_jumped);
    assert_degraded(&ended);
}

#[test]
fn a_stream_that_stops_and_comes_back_is_missed_and_reported() {
    let outages =
        "faults = { outages = [{ stream = 1, stop = \"200 ms\", restart = \"500 ms\" }] }";
    let Some((sent, ended)) = run(outages) else { return };
    let stopped = sent.truth.total().faults.stopped;
    assert!(stopped > 9_000);
    assert_eq!(ended.report["streams"][1]["missing"], stopped);
    assert_eq!(sum(&ended, "missing"), stopped);
    assert!(ended.errors.contains("frames have stopped coming"), "{}", ended.errors);
    assert_degraded(&ended);
}

#[test]
fn overload_loses_counted_frames_only() {
    let _alone = alone();
    let bench = Bench::new(
        r#"
        [[source]]
        streams = { count = 16 }
        udp = { listen = ["127.0.0.1:0"], kernel_buffer = "512 KiB" }
        depth = "100 ms"
        [emulate]
        streams = { count = 16 }
        pace = { unpaced = true }
        "#,
    );
    let (sent, ended) = bench.run(30_000 * scale(25));
    // The end may be lost of so many streams that none proves it; the kernel has counted it.
    let (made, told) = (sent.truth.total().frames_made, ended.ledger("sent", "offered"));
    let least = told + ended.ledger("source", "kernel_queue");
    assert_eq!(ended.open_books(), [""; 0]);
    assert!(least <= made && (least == made || !is_counted(&ended)), "{made}: {}", ended.report);
    let dropped = ended.number("/sources/0/kernel_drops");
    assert_eq!(dropped > 0, ended.is_degraded());
    if dropped > 0 {
        assert_degraded(&ended);
    }
    assert!(dropped <= ended.number("/sources/0/kernel_drops_max"));
}
