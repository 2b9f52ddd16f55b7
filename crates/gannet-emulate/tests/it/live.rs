//! Faults that are switched on while frames are made.

use std::sync::Arc;
use std::time::Duration;

use gannet_emulate::tpc::{Config, TpcFrontEnd};
use gannet_emulate::{Emulator, FaultSwitch, LiveFault, StreamTruth};
use gannet_wire::ChannelMap;
use gannet_wire::adc14::{BLOCK_LEN, Block, get};

const STREAMS: usize = 3;
const BURST: usize = 9;
/// Bursts in 0.2 seconds, and a little more.
const BURSTS: usize = 700;

fn emulator(seed: u64) -> (Emulator<TpcFrontEnd>, Arc<FaultSwitch>) {
    let mut config = Config { seed, start_timestamp: Some(1 << 40), ..Config::default() };
    config.streams.count = STREAMS;
    config.noise.blocks = 4;
    let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
    let (mut emulator, switch) = (config.emulator(&map, 0).unwrap(), Arc::default());
    emulator.obey(Arc::clone(&switch));
    (emulator, switch)
}

/// Datagrams of so many bursts of each stream, as a sum of all that is in them and their number.
fn make(emulator: &mut Emulator<TpcFrontEnd>, bursts: usize) -> (u64, u64) {
    let (mut digest, mut sent) = (0u64, 0);
    for _ in 0..bursts {
        for stream in 0..STREAMS {
            for datagram in emulator.next_burst(stream, BURST).datagrams() {
                let bytes = datagram.head.iter().chain(datagram.body).take(64);
                digest = bytes
                    .fold(digest, |sum, &byte| sum.wrapping_mul(0x100_0000_01b3) ^ u64::from(byte));
                sent += 1;
            }
        }
    }
    (digest, sent)
}

/// What comes out while `fault` is on for 0.2 s, and the truth after it.
fn disturbed(seed: u64, fault: LiveFault) -> (u64, u64, StreamTruth, u64) {
    let (mut emulator, switch) = emulator(seed);
    assert_eq!(make(&mut emulator, 5).1, (5 * BURST * STREAMS) as u64);
    assert!(switch.switch_on(fault, 1, Duration::from_millis(200)));
    assert!(!switch.switch_on(LiveFault::Loss, 0, Duration::from_secs(1)), "one at a time");
    let (digest, sent) = make(&mut emulator, BURSTS);
    assert_eq!(switch.order(), None);
    let suffered = switch.suffered(fault);
    let after = make(&mut emulator, 5).1;
    assert_eq!(after, (5 * BURST * STREAMS) as u64, "it is over");
    assert_eq!(switch.suffered(fault), suffered);
    (digest, sent, emulator.truth().total(), suffered)
}

#[test]
fn what_was_withheld_is_what_the_truth_tells() {
    let made = (BURSTS * BURST * STREAMS) as u64;
    for fault in [LiveFault::Loss, LiveFault::BurstLoss, LiveFault::Cut] {
        let (_, sent, truth, suffered) = disturbed(7, fault);
        assert_eq!(made - sent, suffered, "{fault:?}");
        assert_eq!(truth.faults.lost + truth.faults.stopped, suffered, "{fault:?}");
        let account = truth.statement();
        assert_eq!(account.offered, account.delivered + account.dropped_total(), "{truth:?}");
        // 0.2 s are 6104 frames of each of the streams.
        let expected = match fault {
            LiveFault::Loss => 180..187,
            LiveFault::BurstLoss => 870..961,
            _ => 6104..6105,
        };
        assert!(expected.contains(&suffered), "{fault:?}: {suffered}");
    }
}

#[test]
fn what_is_sent_otherwise_is_told_by_its_kind() {
    for fault in [LiveFault::Duplicate, LiveFault::Reorder, LiveFault::WrongId] {
        let (_, sent, truth, suffered) = disturbed(7, fault);
        let faults = truth.faults;
        let told = match fault {
            LiveFault::Duplicate => faults.duplicated,
            LiveFault::Reorder => faults.reordered,
            _ => faults.wrong_id,
        };
        assert_eq!((told, faults.total()), (suffered, suffered), "{fault:?}");
        assert!((180..187).contains(&suffered), "{fault:?}: {suffered}");
        let doubled = if fault == LiveFault::Duplicate { suffered } else { 0 };
        assert_eq!(sent, (BURSTS * BURST * STREAMS) as u64 + doubled, "{fault:?}");
    }
}

#[test]
fn noise_strikes_one_channel_of_one_stream_in_every_fourth_frame() {
    let (_, sent, truth, suffered) = disturbed(7, LiveFault::Noise);
    assert_eq!(sent, (BURSTS * BURST * STREAMS) as u64);
    // A quarter of the 6104 frames.
    assert_eq!((suffered, truth.faults.noisy, truth.faults.total()), (1526, 1526, 1526));

    let ((mut quiet, _), (mut noisy, switch)) = (emulator(7), emulator(7));
    assert!(switch.switch_on(LiveFault::Noise, 1, Duration::from_secs(1)));
    let channels = ChannelMap::synthetic(&Config::default().streams.geo_ids()).unwrap();
    let geo = Config::default().streams.geo_ids()[1];
    let struck = switch.noisy_channel(1).unwrap();
    let place = channels.stream(geo).unwrap().offline.iter().position(|&it| it == struck).unwrap();
    for frame in 0..8 {
        for stream in 0..STREAMS {
            let samples = |emulator: &mut Emulator<TpcFrontEnd>| {
                let burst = emulator.next_burst(stream, 1);
                let datagram = burst.datagrams()[0];
                let bytes = [datagram.head, datagram.body].concat();
                let block: &Block = bytes[bytes.len() - BLOCK_LEN..].try_into().unwrap();
                (0..64 * 64).map(|at| get(block, at % 64, at / 64)).collect::<Vec<_>>()
            };
            let (without, with) = (samples(&mut quiet), samples(&mut noisy));
            let changed = (0..64 * 64).filter(|&at| without[at] != with[at]);
            let is_hit = stream == 1 && frame % 4 == 0;
            let changed: Vec<_> = changed.map(|at| at % 64).collect();
            assert_eq!(changed.is_empty(), !is_hit, "{stream} {frame}");
            assert!(changed.iter().all(|&channel| channel == place), "{stream} {frame}");
        }
    }
}

#[test]
fn the_same_seed_and_the_same_moment_disturb_the_same_frames() {
    for fault in LiveFault::ALL.into_iter().filter(|fault| fault.is_of_front_end()) {
        assert!(disturbed(7, fault) == disturbed(7, fault), "{fault:?}");
    }
    assert!(disturbed(7, LiveFault::Loss).0 != disturbed(8, LiveFault::Loss).0);
}
