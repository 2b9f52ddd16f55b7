//! What comes out under faults, frame by frame, against the truth.

use std::collections::BTreeMap;

use gannet_emulate::config::{Faults, Outage};
use gannet_emulate::tpc::{Config, TpcFrontEnd};
use gannet_emulate::{Burst, Emulator, FaultCounts, FrontEnd, InjectedEvent, Truth};
use gannet_measure::quantity::Span;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{ChannelMap, wibeth};

const START: u64 = 1 << 40;
const FRAMES: usize = 9 * 400;

fn config(faults: Faults) -> Config {
    let mut config = Config { faults, ..Config::default() };
    config.streams.count = 3;
    config.noise.blocks = 4;
    config.tracks.rate_hz = 100.0;
    config.start_timestamp = Some(START);
    config
}

fn emulator(config: &Config) -> Emulator<TpcFrontEnd> {
    let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
    config.emulator(&map, 0).unwrap()
}

fn collect(burst: &Burst<'_>, sent: &mut Vec<Vec<u8>>) {
    for datagram in burst.datagrams() {
        let mut bytes = vec![0; datagram.len()];
        datagram.copy_to(&mut bytes);
        sent.push(bytes);
    }
}

/// All datagrams of each stream, and the truth.
fn run(config: &Config, burst: usize) -> (Vec<Vec<Vec<u8>>>, Truth) {
    let mut emulator = emulator(config);
    let mut sent = vec![Vec::new(); emulator.streams()];
    for _ in 0..FRAMES / burst {
        for (stream, sent) in sent.iter_mut().enumerate() {
            collect(&emulator.next_burst(stream, burst), sent);
        }
    }
    for (stream, sent) in sent.iter_mut().enumerate() {
        collect(&emulator.flush(stream), sent);
    }
    (sent, emulator.truth())
}

/// Frame of stream 0 by its number, as the front end makes it.
fn pristine(config: &Config) -> Vec<Vec<u8>> {
    let mut emulator = emulator(config);
    (0..FRAMES as u64).map(|index| emulator.front_end().frame(0, index)).collect()
}

#[test]
fn without_faults_every_frame_is_sent_once_as_the_front_end_makes_it() {
    let config = config(Faults::default());
    let (sent, truth) = run(&config, 9);
    assert!(sent[0] == pristine(&config));
    let total = truth.total();
    assert_eq!((total.frames_made, total.datagrams_sent), (3 * FRAMES as u64, 3 * FRAMES as u64));
    assert_eq!(total.faults, FaultCounts::default());
    assert_eq!(total.first_timestamp, Some(START));
    assert_eq!(total.last_timestamp, Some(START + 2048 * (FRAMES as u64 - 1)));
}

#[test]
fn faults_do_not_depend_on_the_size_of_bursts() {
    let faults = Faults {
        loss: 0.05,
        duplicate: 0.05,
        reorder: 0.05,
        reorder_distance: 5,
        truncation: 0.05,
        bit_flip: 0.05,
        wrong_id: 0.05,
        sequence_jump: 0.01,
        timestamp_jump: 0.01,
        ..Faults::default()
    };
    let config = config(faults);
    let (nine, one) = (run(&config, 9), run(&config, 1));
    assert!(nine == one);
}

/// Kinds of datagrams of stream 0, told from the bytes alone.
fn classify(config: &Config, sent: &[Vec<u8>]) -> FaultCounts {
    let pristine = pristine(config);
    let number: BTreeMap<&[u8], usize> =
        pristine.iter().enumerate().map(|(n, frame)| (&frame[..], n)).collect();
    let mut counts = FaultCounts::default();
    let mut times = vec![0u32; FRAMES];
    let mut newest = None;
    for bytes in sent {
        if bytes.len() < FRAME_LEN {
            counts.truncated += 1;
        } else if let Some(&index) = number.get(&bytes[..]) {
            times[index] += 1;
            counts.duplicated += u64::from(times[index] == 2);
            counts.reordered += u64::from(newest.is_some_and(|newest| index < newest));
            newest = newest.max(Some(index));
        } else {
            let flipped = |frame: &&Vec<u8>| {
                let bits = frame.iter().zip(bytes).map(|(a, b)| (a ^ b).count_ones());
                bits.sum::<u32>() == 1
            };
            match pristine.iter().find(flipped) {
                Some(frame) if frame[..32] != bytes[..32] => counts.flipped_header += 1,
                Some(_) => counts.flipped_body += 1,
                None => counts.wrong_id += 1,
            }
        }
    }
    counts
}

#[test]
fn each_kind_is_found_in_the_bytes_as_often_as_the_truth_tells() {
    let config = config(Faults {
        loss: 0.02,
        duplicate: 0.02,
        reorder: 0.02,
        reorder_distance: 3,
        truncation: 0.02,
        bit_flip: 0.002,
        wrong_id: 0.002,
        ..Faults::default()
    });
    let (sent, truth) = run(&config, 9);
    let told = truth.streams[0].faults;
    let mut found = classify(&config, &sent[0]);
    // Two reordered frames may have each other's later frames between them.
    assert!(found.reordered <= told.reordered && found.reordered + 5 > told.reordered);
    found.reordered = told.reordered;
    // A wrong identifier may differ from the right one in one bit, which looks like a flip.
    assert_eq!(
        found.wrong_id + found.flipped_header + found.flipped_body,
        told.wrong_id + told.flipped_header + told.flipped_body
    );
    (found.wrong_id, found.flipped_header) = (told.wrong_id, told.flipped_header);
    found.lost = told.lost;
    assert_eq!(found, told);
    assert!(told.lost > 30 && told.duplicated > 30 && told.truncated > 30 && told.reordered > 30);

    for stream in truth.streams.iter().chain([&truth.total()]) {
        let faults = stream.faults;
        let expected = stream.frames_made - faults.lost - faults.stopped + faults.duplicated;
        assert_eq!((stream.datagrams_sent, stream.held_back), (expected, 0));
        assert!(stream.statement().closes(), "{}", stream.statement());
    }
    assert_eq!(truth.streams[0].datagrams_sent, sent[0].len() as u64);
}

/// Timestamp and sequence number of every datagram.
fn times(sent: &[Vec<u8>]) -> Vec<(u64, u16)> {
    sent.iter()
        .map(|bytes| {
            let frame = wibeth::Frame::new_checked(bytes).unwrap();
            assert_eq!(u64::from(frame.wib().colddata_timestamp_0()), frame.timestamp() & 0x7fff);
            (frame.timestamp(), frame.daq().seq_id())
        })
        .collect()
}

#[test]
fn a_reordered_frame_comes_after_the_given_number_of_later_frames() {
    let config = config(Faults { reorder: 0.01, reorder_distance: 4, ..Faults::default() });
    let (sent, truth) = run(&config, 9);
    let order: Vec<u64> =
        times(&sent[0]).into_iter().map(|(time, _)| (time - START) / 2048).collect();
    let mut late = 0;
    for (place, &index) in order.iter().enumerate() {
        let overtaken = order[..place].iter().filter(|&&other| other > index).count();
        late += u64::from(overtaken >= 3);
        assert!(overtaken <= 4);
    }
    assert_eq!(late, truth.streams[0].faults.reordered);
    let mut sorted = order.clone();
    sorted.sort_unstable();
    assert!(sorted.into_iter().eq(0..FRAMES as u64));
}

#[test]
fn held_back_frames_are_in_the_account() {
    let config = config(Faults { reorder: 1.0, reorder_distance: 16, ..Faults::default() });
    let mut emulator = emulator(&config);
    for _ in 0..10 {
        let sent = emulator.next_burst(1, 9).datagrams().len();
        assert!(sent <= 9);
    }
    let truth = emulator.truth().streams[1].clone();
    assert_eq!((truth.frames_made, truth.datagrams_sent, truth.held_back), (90, 74, 16));
    assert!(truth.statement().closes());
    assert_eq!(emulator.flush(1).datagrams().len(), 16);
    assert_eq!(emulator.truth().streams[1].held_back, 0);
}

#[test]
fn jumps_last_and_their_sum_is_told() {
    let config = config(Faults {
        sequence_jump: 0.01,
        sequence_jump_size: 7,
        timestamp_jump: 0.01,
        timestamp_jump_ticks: 10 * 2048,
        ..Faults::default()
    });
    let (sent, truth) = run(&config, 9);
    let (mut sequence, mut time) = (0, 0);
    for pair in times(&sent[2]).windows(2) {
        match pair[1].0 - pair[0].0 {
            2048 => {}
            step => {
                assert_eq!(step, 11 * 2048);
                time += 1;
            }
        }
        match (4096 + pair[1].1 - pair[0].1) % 4096 {
            1 => {}
            step => {
                assert_eq!(step, 8);
                sequence += 1;
            }
        }
    }
    let told = &truth.streams[2];
    assert_eq!((sequence, time), (told.faults.sequence_jumped, told.faults.timestamp_jumped));
    assert!(sequence > 10 && time > 10);
    assert_eq!(told.ticks_jumped, time * 10 * 2048);
}

#[test]
fn a_stream_stops_and_starts_again_where_it_would_be() {
    let outage = Outage { stream: 1, stop: Span::ms(10), restart: Some(Span::ms(30)) };
    let config = config(Faults { outages: vec![outage], ..Faults::default() });
    let (sent, truth) = run(&config, 9);
    // 10 ms are 305.2 frames, 30 ms 915.5.
    assert_eq!(truth.streams[1].faults.stopped, 916 - 306);
    assert_eq!(sent[1].len(), FRAMES - 610);
    let times = times(&sent[1]);
    assert_eq!(times[306].0 - times[305].0, 611 * 2048);
    assert_eq!(truth.streams[0].faults.stopped, 0);
    assert!(truth.total().statement().closes());
}

#[test]
fn the_truth_is_written_and_read_back() {
    let (_, truth) = run(&config(Faults { loss: 0.1, ..Faults::default() }), 9);
    let text = serde_json::to_string(&truth).unwrap();
    assert_eq!(serde_json::from_str::<Truth>(&text).unwrap(), truth);
}

#[test]
fn events_are_reported_once_however_often_one_asks() {
    let config = config(Faults::default());
    let (mut often, mut once) = (Vec::new(), Vec::new());
    let mut emulator = emulator(&config);
    for round in 0..FRAMES / 9 {
        for stream in 0..3 {
            let _ = emulator.next_burst(stream, 9);
        }
        if round % 7 == 0 {
            emulator.report(|event| often.push(line(event)));
        }
    }
    emulator.report(|event| often.push(line(event)));
    emulator.front_end().report(0..FRAMES as u64, &mut |event| once.push(line(event)));
    assert!(once.len() > 5 && often == once);
    let truth = emulator.truth();
    assert_eq!(truth.events.values().sum::<u64>() as usize, once.len());
    assert!(truth.events["track"] > 0 && truth.events["deposit"] > 0);
}

/// An event as it is written.
fn line(event: &dyn InjectedEvent) -> String {
    let mut line = Vec::new();
    event.write_json(&mut line).unwrap();
    String::from_utf8(line).unwrap()
}
