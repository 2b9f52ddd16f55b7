//! The same seed gives the same datagrams from version to version: digests of a busy run.

use gannet_emulate::config::{Faults, Outage, WrongClock};
use gannet_emulate::tpc::Config;
use gannet_emulate::tpc::config::{Pattern, Pulser};
use gannet_measure::quantity::Span;
use gannet_wire::{ChannelMap, TpcFormat};

use crate::digest::Digest;

const FRAMES: usize = 9 * 60;

/// Everything that draws a random number or changes a byte.
fn busy(format: TpcFormat) -> Config {
    let mut config =
        Config { seed: 20_261_122, start_timestamp: Some(1 << 40), ..Config::default() };
    config.streams.count = 3;
    config.streams.format = format;
    config.noise.blocks = 4;
    config.tracks.rate_hz = 400.0;
    config.deposits.rate_hz = 2000.0;
    config.pulser = (format == TpcFormat::TdeEth).then(Pulser::default);
    config.pattern = Some(Pattern { rate_hz: 20.0 });
    config.faults = Faults {
        loss: 0.03,
        duplicate: 0.03,
        reorder: 0.03,
        reorder_distance: 3,
        truncation: 0.03,
        bit_flip: 0.3,
        wrong_id: 0.06,
        sequence_jump: 0.02,
        sequence_jump_size: 4001,
        timestamp_jump: 0.02,
        outages: vec![Outage { stream: 1, stop: Span::ms(3), restart: Some(Span::ms(5)) }],
        clocks: vec![WrongClock {
            stream: 2,
            from: Span::ms(2),
            until: Some(Span::ms(9)),
            ahead: Span(0),
            behind: Span::ms(1),
        }],
        ..Faults::default()
    };
    config
}

/// Digest of all datagrams, stream by stream and burst by burst.
fn digest(config: &Config) -> u64 {
    let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
    let mut emulator = config.emulator(&map, 0).unwrap();
    let mut digest = Digest::default();
    for round in 0..=FRAMES / 9 {
        for stream in 0..3 {
            let burst = match round < FRAMES / 9 {
                true => emulator.next_burst(stream, 9),
                false => emulator.flush(stream),
            };
            for datagram in burst.datagrams() {
                digest.add(&(datagram.len() as u32).to_le_bytes());
                digest.add(datagram.head);
                digest.add(datagram.body);
            }
        }
    }
    let total = emulator.truth().total();
    assert!(total.faults.flipped_header > 0 && total.faults.flipped_body > 10);
    assert!(total.faults.wrong_id > 10 && total.faults.reordered > 10);
    assert!(total.faults.stopped > 10 && total.faults.wrong_clock > 10);
    digest.value()
}

#[test]
fn the_same_seed_gives_the_same_datagrams_as_ever() {
    assert_eq!(digest(&busy(TpcFormat::WibEth)), 0xbabc_7f09_8180_78f4);
    assert_eq!(digest(&busy(TpcFormat::TdeEth)), 0x453a_55ab_b79b_28f7);
}
