//! Optical modules with every fault: their datagrams, and that they are the same as ever.

use gannet_emulate::config::{Faults, Outage, WrongClock};
use gannet_emulate::km3::Config;
use gannet_emulate::{Emulator, FrontEnd, km3};
use gannet_measure::quantity::Span;
use gannet_wire::km3net::DetectorFile;
use gannet_wire::km3net::detector_file::Lattice;
use gannet_wire::{FrameFormat, StreamKey};

use crate::digest::Digest;

const MODULES: usize = 14;
const FRAMES: usize = 9 * 80;

fn emulator(faults: Faults) -> Emulator<km3::Km3FrontEnd> {
    let lattice = Lattice { strings: 7, modules: 2, ..Lattice::default() };
    let mut config = Config { seed: 20_261_123, faults, ..Config::default() };
    config.start_timestamp = Some(1_795_392_000_000_000_000);
    (config.light.muons_hz, config.light.showers_hz) = (50.0, 50.0);
    config.noise.slices = 4;
    config.emulator(&DetectorFile::lattice(&lattice), 0).unwrap()
}

fn busy() -> Faults {
    Faults {
        loss: 0.03,
        duplicate: 0.03,
        reorder: 0.03,
        reorder_distance: 3,
        truncation: 0.03,
        bit_flip: 0.03,
        wrong_id: 0.03,
        sequence_jump: 0.01,
        timestamp_jump: 0.01,
        timestamp_jump_ticks: 100_000_000,
        outages: vec![Outage { stream: 1, stop: Span::ms(30), restart: Some(Span::ms(150)) }],
        clocks: vec![WrongClock {
            stream: 0,
            from: Span::ms(200),
            until: Some(Span::ms(350)),
            ahead: Span::ms(200),
            behind: Span(0),
        }],
        ..Faults::default()
    }
}

/// Passes everything that is sent to `take`, with its module.
fn send(emulator: &mut Emulator<km3::Km3FrontEnd>, mut take: impl FnMut(usize, &[u8])) {
    for round in 0..=FRAMES / 9 {
        for stream in 0..emulator.streams() {
            let burst = match round < FRAMES / 9 {
                true => emulator.next_burst(stream, 9),
                false => emulator.flush(stream),
            };
            burst.datagrams().iter().for_each(|datagram| take(stream, datagram.head));
        }
    }
    emulator.count();
}

#[test]
fn the_same_seed_gives_the_same_datagrams_as_ever() {
    let (mut digest, mut emulator) = (Digest::default(), emulator(busy()));
    send(&mut emulator, |_, datagram| digest.datagram(datagram));
    assert_eq!(digest.value(), 0x4418_777f_bb9d_4bb7);
}

#[test]
fn every_fault_is_counted_and_can_be_seen() {
    let mut emulator = emulator(busy());
    let format = emulator.front_end().format().clone();
    let streams: Vec<StreamKey> = emulator.front_end().streams().to_vec();
    let slices = FRAMES.div_ceil(emulator.front_end().datagrams_per_slice()) as u64;
    let (mut sent, mut strange, mut bad) = (0, 0, 0);
    send(&mut emulator, |stream, datagram| {
        sent += 1;
        match format.heading(datagram) {
            Ok(heading) => strange += u64::from(heading.stream != streams[stream]),
            Err(_) => bad += 1,
        }
    });
    let truth = emulator.truth();
    let total = truth.total();
    assert!(total.statement().closes());
    assert_eq!((sent, truth.streams.len()), (total.datagrams_sent, MODULES));
    let faults = &total.faults;
    assert!(faults.lost > 200 && faults.duplicated > 200 && faults.reordered > 200);
    assert!(faults.wrong_clock > 100 && faults.stopped > 100 && faults.timestamp_jumped > 50);
    assert!(strange >= faults.wrong_id && strange <= faults.wrong_id + faults.flipped_header);
    // Of six cuts one leaves whole hits.
    assert!(bad > faults.truncated * 7 / 10 && bad <= faults.truncated + faults.flipped_header);
    assert_eq!(truth.events["slice"], slices);
    assert!(truth.events["muon"] > 10 && truth.events["shower"] > 10);
}
