//! Wrong clocks: the streams whose time is right lose nothing, and the wrong one is named.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::Duration;

use gannet_dune::trigger_fragments::FragmentCut;
use gannet_measure::ledger::Reason;
use gannet_wire::{GeoId, tpc_frame, wibeth};

use crate::readout::process::{Bench, Ended, QUIET, Readout, alone, scale};
use crate::readout::trigger_fragments;

/// Time stamp of the first frame.
const START: u64 = 107_544_625_968_525_251;
/// Ticks of a day.
const DAY: u64 = 86_400 * 62_500_000;
/// Records that the periodic trigger asks for in 0.65 s of data, but for those at the edges.
const RECORDS_MIN: u64 = 28;

/// As many streams as are expected and emulated, and a trigger every 20 ms.
fn bench(expected: usize, emulated: usize, faults: &str) -> Bench {
    Bench::new(&format!(
        r#"
        [[source]]
        streams = {{ count = {expected} }}
        udp = {{ listen = ["127.0.0.1:0"] }}
        depth = "400 ms"
        [pipeline.tpg]
        threshold = [60, 60, 60]
        [[pipeline.trigger.source]]
        kind = "periodic"
        interval_ticks = 1_250_000
        [emulate]
        seed = 7
        streams = {{ count = {emulated} }}
        start_timestamp = {START}
        pace = {{ rate_scale = 0.15 }}
        tracks = {{ rate_hz = 50.0 }}
        {faults}
        "#
    ))
}

/// The books close, no primitive but those of stream `faulty` was dropped, and no record is
/// missing.
fn assert_unharmed(ended: &Ended, faulty: usize) {
    assert_eq!(ended.open_books(), [""; 0]);
    let primitives = ended.number(&format!("/streams/{faulty}/primitives"));
    let (offered, merged) = (ended.ledger("merge", "offered"), ended.ledger("merge", "delivered"));
    assert!(offered > 1000 && offered - merged <= primitives, "{}", ended.report);
    assert_eq!(ended.ledger("merge", "late"), 0, "{}", ended.report);
    assert!(ended.number("/recorder/records") >= RECORDS_MIN, "{}", ended.report);
}

#[test]
fn a_front_end_one_second_ahead_costs_the_other_seven_nothing() {
    let _alone = alone();
    let bench = bench(8, 8, "faults = { clocks = [{ stream = 3, ahead = \"1 s\" }] }");
    let (sent, ended) = bench.run(20_000 * scale(5));
    if ended.kernel_was_short("a front end one second ahead") {
        return;
    }
    assert!(sent.truth.streams[3].faults.wrong_clock > 0);
    assert_unharmed(&ended, 3);
    let apart = ended.ledger("merge", "set_apart");
    assert_eq!(apart, ended.ledger("merge", "offered") - ended.ledger("merge", "delivered"));
    for stream in 0..8 {
        assert_eq!(ended.report["streams"][stream]["set_apart"], stream == 3);
    }
    let offset = ended.report["streams"][3]["time_offset_s"].as_f64().unwrap();
    assert!((0.9..1.1).contains(&offset), "{offset}");
    let alarm = "is set apart: its time is 1.0 s ahead of the other 7 streams";
    assert!(ended.errors.contains(alarm), "{}", ended.errors);
    let alarms = ended.report["alarms"].as_array().unwrap();
    assert!(alarms.iter().any(|alarm| alarm["kind"] == "stream_set_apart"), "{alarms:?}");

    // Records have the primitives of the others, whole, and none of those with the wrong time.
    let (mut recorded, records) = trigger_fragments::read(&bench.files()[0]);
    let wrong = &bench.tpc().streams[3].channels;
    recorded.retain(|tp| !wrong.offline.contains(&tp.channel()));
    let seen = records.iter().map(|record| {
        assert_eq!(record.primitives(), record.cut(&recorded));
        record.primitives().len()
    });
    assert!(seen.sum::<usize>() > 0);
    let cut_short: u64 =
        FragmentCut::ALL.iter().map(|cut| ended.ledger("trigger_fragments", cut.name())).sum();
    assert!(cut_short < records.len() as u64 / 2, "{}", ended.report["ledger"]);
}

/// A leap by a multiple of 4096 frames agrees with the sequence number, as an outage does.
#[test]
fn a_leap_that_looks_like_an_outage_is_no_lost_frame() {
    const LEAP: &str = "1073741824 ns";
    let _alone = alone();
    for until in ["", "until = \"400 ms\", "] {
        let clock = format!("{{ stream = 1, from = \"200 ms\", {until}ahead = \"{LEAP}\" }}");
        let bench = bench(4, 4, &format!("faults = {{ clocks = [{clock}] }}"));
        let (sent, ended) = bench.run(20_000);
        if ended.kernel_was_short("a leap that looks like an outage") {
            return;
        }
        assert!(sent.truth.streams[1].faults.wrong_clock > 0);
        assert_eq!(ended.number("/frames_lost"), 0, "{}", ended.report);
        assert_eq!(ended.ledger("sent", "offered"), 4 * 20_000, "{until}");
        assert_eq!(ended.number("/streams/1/restarts"), u64::from(!until.is_empty()));
    }
}

#[test]
fn a_clock_that_leaps_and_comes_back_costs_the_others_nothing() {
    let _alone = alone();
    let clock = "{ stream = 1, from = \"200 ms\", until = \"400 ms\", behind = \"86400 s\" }";
    let bench = bench(4, 4, &format!("faults = {{ clocks = [{clock}] }}"));
    let (_, ended) = bench.run(20_000);
    if ended.kernel_was_short("a clock that leaps") {
        return;
    }
    assert_unharmed(&ended, 1);
    let named = "is set apart: its time is 86400.0 s behind the other 3 streams";
    let cleared = ended.errors.contains(&format!("cleared: stream 3/1/0/1 {named}"));
    assert!(cleared && ended.errors.contains(named), "{}", ended.errors);
    assert_eq!(ended.report["streams"][1]["set_apart"], false);
}

/// Sends a frame in the name of `stream`.
fn send_stray(to: SocketAddr, stream: GeoId, timestamp: u64, sequence: u64) {
    let mut frame = [0u8; tpc_frame::FRAME_LEN];
    let mut view = wibeth::Frame::new_unchecked(&mut frame[..]);
    view.daq_mut().set_geo_id(stream);
    view.daq_mut().set_seq_id((sequence % 4096) as u16);
    view.daq_mut().set_block_length(tpc_frame::BLOCK_LENGTH);
    view.daq_mut().set_timestamp(timestamp);
    UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&frame, to).unwrap();
}

/// Three front ends whose clocks leap while they are out, and three that are out while somebody sends
/// two frames in their names: of each it is known what it lost at least and at most.
#[test]
fn what_a_stream_lost_while_its_clock_was_wrong_is_counted_or_bounded() {
    const OUT: std::ops::Range<usize> = 7..13;
    let _alone = alone();
    let outage = |stream| match stream {
        12 => "{ stream = 12, stop = \"150 ms\" }".to_owned(),
        _ => format!("{{ stream = {stream}, stop = \"150 ms\", restart = \"450 ms\" }}"),
    };
    let outages: Vec<_> = OUT.map(outage).collect();
    let bench = bench(
        13,
        13,
        &format!(
            r#"
            [emulate.faults]
            outages = [{}]
            clocks = [
                {{ stream = 7, from = "300 ms", until = "550 ms", ahead = "86400 s" }},
                {{ stream = 8, from = "300 ms", ahead = "86400 s" }},
                {{ stream = 9, from = "300 ms", ahead = "1073741824 ns" }},
            ]
            "#,
            outages.join(", ")
        ),
    );
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let emulation = bench.emulate(readout.address, Some(20_000));
    thread::sleep(Duration::from_millis(2000));
    // The sequence number of stream 11 agrees with the time.
    let day = DAY / 2048;
    for (stream, sequence) in [(10, 77), (11, day), (12, 77)] {
        let geo_id = bench.tpc().streams[stream].geo_id;
        for frame in 0..2 {
            send_stray(readout.address, geo_id, START + DAY + 2048 * frame, sequence + frame);
        }
    }
    let sent = emulation.join().unwrap();
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short("clocks that leap during an outage") {
        return;
    }
    assert_eq!(ended.open_books(), [""; 0]);
    let told = |stream: usize, name: &str| ended.number(&format!("/streams/{stream}/{name}"));
    for stream in 0..13 {
        let faults = &sent.truth.streams[stream].faults;
        assert_eq!(faults.stopped > 0, OUT.contains(&stream));
        let (least, most) = match stream {
            10..13 => (faults.stopped - 2, faults.stopped),
            _ => (faults.stopped, faults.stopped + faults.wrong_clock),
        };
        assert_eq!(told(stream, "missing"), least, "{stream}: {}", ended.report["streams"][stream]);
        assert_eq!(told(stream, "missing_max"), most, "{stream}");
    }
    let sum = |name: &str| (0..13).map(|stream| told(stream, name)).sum::<u64>();
    assert_eq!(ended.number("/frames_lost"), sum("missing"));
    assert_eq!(ended.number("/frames_lost_max"), sum("missing_max"));
    assert!(ended.is_degraded());
}

/// One datagram a day ahead for a stream that is silent otherwise, before the others begin or
/// while they run.
fn stray_datagram(early: bool) {
    let _alone = alone();
    let bench = bench(5, 4, "");
    let stray = bench.tpc().streams[4].geo_id;
    let readout = Readout::start(&bench.config());
    let send = || send_stray(readout.address, stray, START + DAY, 0);
    if early {
        send();
        thread::sleep(Duration::from_millis(300));
    }
    let emulation = bench.emulate(readout.address, Some(20_000));
    if !early {
        thread::sleep(Duration::from_millis(1500));
        send();
    }
    emulation.join().unwrap();
    let ended = readout.stop();
    if ended.kernel_was_short("a stray datagram") {
        return;
    }
    assert_unharmed(&ended, 4);
    assert_eq!(ended.number("/streams/4/frames"), 1);
    assert_eq!(ended.report["streams"][4]["set_apart"], true);
    let named = format!("stream {stray} is set apart: its time is 86");
    assert!(ended.errors.contains(&named), "{}", ended.errors);
}

#[test]
fn a_stray_datagram_a_day_ahead_costs_nothing_before_the_others_begin() {
    stray_datagram(true);
}

#[test]
fn a_stray_datagram_a_day_ahead_costs_nothing_in_mid_run() {
    stray_datagram(false);
}

/// A stray frame in the name of two streams, before their own first frames.
#[test]
fn a_stray_datagram_before_the_first_frame_is_no_lost_frame() {
    let _alone = alone();
    for time in [START + DAY, START - DAY, START + 50_000_000] {
        let bench = bench(4, 4, "");
        let readout = Readout::start(&bench.config());
        for stream in bench.tpc().streams.iter().take(2) {
            send_stray(readout.address, stream.geo_id, time, 7);
        }
        thread::sleep(Duration::from_millis(300));
        bench.emulate(readout.address, Some(20_000)).join().unwrap();
        thread::sleep(QUIET);
        let ended = readout.stop();
        if ended.kernel_was_short("a stray datagram before the first frame") {
            return;
        }
        assert_unharmed(&ended, 1);
        assert_eq!(ended.number("/streams/1/frames"), 20_001);
        assert_eq!(ended.number("/frames_lost_max"), 0, "{}", ended.report);
    }
}

/// Somebody who sends two frames in the name of each stream hides no loss of one that ends.
#[test]
fn streams_that_came_back_prove_what_another_lost_at_its_end() {
    let _alone = alone();
    let outages = "[emulate.faults]\noutages = [{ stream = 3, stop = \"400 ms\" }]";
    let bench = bench(4, 4, outages);
    let readout = Readout::start(&bench.config());
    thread::sleep(QUIET);
    let emulation = bench.emulate(readout.address, Some(20_000));
    thread::sleep(Duration::from_millis(1000));
    for stream in bench.tpc().streams.iter() {
        for frame in 0..2 {
            send_stray(readout.address, stream.geo_id, START + DAY + 2048 * frame, 77 + frame);
        }
    }
    let sent = emulation.join().unwrap();
    thread::sleep(QUIET);
    let ended = readout.stop();
    if ended.kernel_was_short("strangers before the end of a stream") {
        return;
    }
    let stopped = sent.truth.streams[3].faults.stopped;
    assert!(stopped > 1000);
    assert_eq!(ended.number("/frames_lost"), stopped, "{}", ended.report["streams"]);
    assert_eq!(ended.number("/frames_lost_max"), stopped);
}

/// Two clocks that agree with each other are as many as the edges of a small run need for a proof.
#[test]
fn two_front_ends_an_hour_ahead_prove_no_frame_of_the_others_lost() {
    let _alone = alone();
    let clocks =
        "faults = { clocks = [{ stream = 0, ahead = \"1 h\" }, { stream = 1, ahead = \"1 h\" }] }";
    let bench = bench(8, 8, clocks);
    let (sent, ended) = bench.run(20_000);
    if ended.kernel_was_short("two front ends an hour ahead") {
        return;
    }
    assert!(sent.truth.streams[1].faults.wrong_clock > 0);
    assert_eq!(ended.number("/frames_lost"), 0, "{}", ended.report);
    assert_eq!(ended.number("/frames_lost_max"), 0, "{}", ended.report);
    assert_eq!(ended.ledger("sent", "offered"), 8 * 20_000);
}
