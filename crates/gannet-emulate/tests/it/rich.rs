//! Front ends of the RICH with every fault: their datagrams, and that they are the same as ever.

use gannet_emulate::config::{Faults, Outage, WrongClock};
use gannet_emulate::rich::config::Packets;
use gannet_emulate::rich::{Config, RichFrontEnd};
use gannet_emulate::{Emulator, FrontEnd};
use gannet_measure::quantity::Span;
use gannet_wire::na62::{FINE_CLOCK, PmMap, mgp};
use gannet_wire::{FrameFormat, StreamKey};

use crate::digest::Digest;

const FRAMES: usize = 9 * 400;

fn config(packets: Packets) -> Config {
    let mut config = Config { packets, lanes: 2, pool: 4096, rate_hz: 5e6, ..Config::default() };
    (config.seed, config.start_timestamp) = (20_261_123, Some(1 << 39));
    config
}

fn busy(packets: Packets) -> Config {
    let faults = Faults {
        loss: 0.03,
        duplicate: 0.03,
        reorder: 0.03,
        reorder_distance: 3,
        truncation: 0.03,
        bit_flip: 0.03,
        wrong_id: 0.03,
        sequence_jump: 0.01,
        timestamp_jump: 0.01,
        timestamp_jump_ticks: 1 << 20,
        outages: vec![Outage { stream: 1, stop: Span::ms(3), restart: Some(Span::ms(5)) }],
        clocks: vec![WrongClock {
            stream: 0,
            from: Span::ms(2),
            until: Some(Span::ms(9)),
            ahead: Span(0),
            behind: Span::ms(1),
        }],
        ..Faults::default()
    };
    Config { faults, ..config(packets) }
}

/// Passes everything that is sent to `take`, with its stream.
fn send(emulator: &mut Emulator<RichFrontEnd>, mut take: impl FnMut(usize, &[u8])) {
    for round in 0..=FRAMES / 9 {
        for stream in 0..emulator.streams() {
            let burst = match round < FRAMES / 9 {
                true => emulator.next_burst(stream, 9),
                false => emulator.flush(stream),
            };
            burst.datagrams().iter().for_each(|datagram| take(stream, datagram.head));
        }
        emulator.count();
    }
}

#[test]
fn the_same_seed_gives_the_same_datagrams_as_ever() {
    let digest = |packets| {
        let mut digest = Digest::default();
        let mut emulator = busy(packets).emulator(&PmMap::numbered()).unwrap();
        send(&mut emulator, |_, datagram| digest.datagram(datagram));
        digest.value()
    };
    assert_eq!(digest(Packets::Boards), 0x1c42_6643_55ed_b031);
    assert_eq!(digest(Packets::Merged), 0x51a8_d9cd_25f0_15fa);
}

#[test]
fn every_fault_is_counted_and_can_be_seen() {
    let mut emulator = busy(Packets::Boards).emulator(&PmMap::numbered()).unwrap();
    let format = emulator.front_end().format().clone();
    let (mut sent, mut strange, mut bad) = (0, 0, 0);
    send(&mut emulator, |stream, datagram| {
        sent += 1;
        match format.heading(datagram) {
            Ok(heading) => strange += u64::from(heading.stream != key(stream)),
            Err(_) => bad += 1,
        }
    });
    let total = emulator.truth().total();
    assert!(total.statement().closes());
    assert_eq!(sent, total.datagrams_sent);
    let faults = &total.faults;
    assert!(faults.lost > 300 && faults.duplicated > 300 && faults.reordered > 300);
    assert!(faults.wrong_clock > 100 && faults.stopped > 100 && faults.timestamp_jumped > 50);
    // Bits flipped in a header may change its stream or make it unreadable; most datagrams that are
    // cut are too short for what they say.
    assert!(strange >= faults.wrong_id && strange <= faults.wrong_id + faults.flipped_header);
    assert!(bad > faults.truncated * 9 / 10 && bad <= faults.truncated + faults.flipped_header);
}

#[test]
fn a_wrong_clock_moves_events_too() {
    let clock =
        WrongClock { stream: 2, from: Span(0), until: None, ahead: Span::ms(1), behind: Span(0) };
    let faults = Faults { clocks: vec![clock], ..Faults::default() };
    let wrong = Config { faults, ..config(Packets::Boards) };
    let right = config(Packets::Boards).emulator(&PmMap::numbered()).unwrap();
    let [right, wrong] =
        [right, wrong.emulator(&PmMap::numbered()).unwrap()].map(|mut emulator| {
            let burst = emulator.next_burst(2, 1);
            let datagram = mgp::Datagram::new_checked(burst.datagrams()[0].head).unwrap();
            datagram.events().map(|event| event.unwrap().time()).collect::<Vec<_>>()
        });
    assert!(right.len() > 10 && right.len() == wrong.len());
    // A clock is wrong by whole frames of 6.4 us, which is all that a header tells.
    let ahead = FINE_CLOCK.ticks(1_000_000) >> 16 << 16;
    assert!(right.iter().zip(&wrong).all(|(right, wrong)| wrong.since(*right) == ahead as i64));
}

/// The stream of a board.
fn key(board: usize) -> StreamKey {
    mgp::stream_key(mgp::BOARD_EVENTS, 0x1c, board as u8)
}

#[test]
fn the_truth_counts_all_events_and_time_goes_on() {
    let mut emulator = config(Packets::Boards).emulator(&PmMap::numbered()).unwrap();
    let block = emulator.front_end().block_events();
    let (mut begins, mut last) = ([0; 4], [0; 4]);
    let mut events = 0u64;
    send(&mut emulator, |stream, datagram| {
        let datagram = mgp::Datagram::new_checked(datagram).unwrap();
        let begin = datagram.header().time().fine_units();
        assert!(begin >= begins[stream]);
        begins[stream] = begin;
        for event in datagram.events() {
            let time = event.unwrap().time().fine_units();
            assert!(time > last[stream]);
            last[stream] = time;
            events += 1;
        }
    });
    let truth = emulator.truth();
    assert_eq!(truth.events.values().sum::<u64>(), (FRAMES * block) as u64);
    // Two of three boards have a hit of an event.
    let share = events as f64 / (4 * FRAMES * block) as f64;
    assert!((0.6..0.95).contains(&share), "{share}");
    let seconds = FINE_CLOCK.s(last[0] - (1 << 39));
    let rate = (FRAMES * block) as f64 / seconds;
    assert!((rate / 5e6 - 1.0).abs() < 0.01, "{rate}");
}
