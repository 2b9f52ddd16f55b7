use gannet_kernels::Isa;
use gannet_kernels::tpg::block::{Block, pack};
use gannet_kernels::tpg::{CHANNELS, ChannelTable, Tpg};
use gannet_measure::random::Random;
use gannet_wire::channel_map::StreamChannels;
use gannet_wire::{TpcFormat, TriggerPrimitive};

use super::*;
use crate::fixture::START;
use crate::sampling::Sampling;
use gannet_trigger::item::Finder;

const FRAME: u64 = 2048;

/// Channels 1000 to 1063: 20 in plane 0, 20 in plane 1, 24 in plane 2.
fn channels() -> StreamChannels {
    StreamChannels {
        offline: std::array::from_fn(|c| 1000 + c as u32),
        plane: std::array::from_fn(|c| (c / 20).min(2) as u8),
    }
}

/// A chain whose pedestal is at 900 from the start.
fn config() -> TpgConfig {
    TpgConfig { initial_pedestal: InitialPedestal::Counts(900), ..TpgConfig::default() }
}

fn stream(config: &TpgConfig) -> StreamTpg {
    StreamTpg::new(config, &channels(), 3, TpcFormat::WibEth).unwrap()
}

/// A block at 900, but for `height` on top in `samples` of the channel with index `channel`.
fn pulse(channel: usize, samples: std::ops::Range<usize>, height: u16) -> Box<Block> {
    pack(move |t, c| if c == channel && samples.contains(&t) { 900 + height } else { 900 })
}

fn process(stream: &mut StreamTpg, block: &Block, frame: u64) -> Vec<TriggerPrimitive> {
    let mut tps = Vec::new();
    stream.process(block, START + frame * FRAME, &mut tps);
    tps
}

#[test]
fn a_pulse_becomes_a_primitive_of_its_offline_channel() {
    let mut stream = stream(&config());
    let tps = process(&mut stream, &pulse(7, 10..14, 300), 0);
    assert_eq!(tps.len(), 1);
    assert_eq!((tps[0].channel(), tps[0].detid()), (1007, 3));
    assert_eq!((tps[0].time_start(), tps[0].samples_over_threshold()), (START + 320, 4));
    assert_eq!(stream.searched_to(), START + FRAME);
}

#[test]
fn thresholds_and_minimum_lengths_are_those_of_the_plane() {
    let config = TpgConfig { threshold: [100, 200, 300], sot_minimum: [1, 5, 1], ..config() };
    let mut stream = stream(&config);
    let mut found = |channel, length: usize, height| {
        let tps = process(&mut stream, &pulse(channel, 10..10 + length, height), 0);
        stream.begin_anew();
        tps.len()
    };
    assert_eq!((found(0, 2, 90), found(0, 2, 150)), (0, 1));
    assert_eq!((found(20, 5, 150), found(20, 4, 250), found(20, 5, 250)), (0, 0, 1));
    assert_eq!((found(63, 2, 250), found(63, 2, 350)), (0, 1));
}

#[test]
fn masked_and_unconnected_channels_give_nothing() {
    let config = TpgConfig { mask: vec![1007], ..config() };
    let mut wires = channels();
    wires.offline[8] = StreamChannels::UNCONNECTED;
    let mut stream = StreamTpg::new(&config, &wires, 3, TpcFormat::WibEth).unwrap();
    for (channel, found) in [(7, 0), (8, 0), (9, 1)] {
        assert_eq!(process(&mut stream, &pulse(channel, 10..14, 300), 0).len(), found);
        stream.begin_anew();
    }
}

#[test]
fn every_chain_is_the_one_of_the_kernels() {
    let mut random = Random::new(3);
    let blocks: Vec<_> = (0..6)
        .map(|_| {
            let pulse: Vec<u16> = (0..CHANNELS).map(|_| random.below(64) as u16).collect();
            let noise: Vec<u16> = (0..4096).map(|_| random.below(30) as u16).collect();
            pack(move |t, c| {
                let over = t as u16 >= pulse[c] && (t as u16) < pulse[c] + 9;
                900 + noise[64 * t + c] + if over { 40 + 5 * c as u16 } else { 0 }
            })
        })
        .collect();
    for chain in [Chain::SimpleThreshold, Chain::AbsRs, Chain::RunningSum, Chain::FixedPedestal] {
        let config = TpgConfig { chain, start_period: 100, threshold: [60; 3], ..config() };
        let table: ChannelTable = config.table(&channels(), 3, Sampling::default());
        let mut tpg = Tpg::new(&config.chain_config(), &table, Isa::Scalar).unwrap();
        let mut stream = stream(&config);
        let (mut expected, mut tps) = (Vec::new(), Vec::new());
        for (block, frame) in blocks.iter().zip(0..) {
            tpg.process(block, START + frame * FRAME, &mut expected);
            stream.process(block, START + frame * FRAME, &mut tps);
        }
        assert_eq!(tps, expected, "{chain:?}");
        assert!(tps.len() > 100, "{chain:?} {}", tps.len());
    }
}

#[test]
fn chains_differ() {
    let found = |chain| {
        let config = TpgConfig { chain, ..config() };
        // Ten samples 40 below the pedestal: only the sum of absolute values sees them.
        let dip = pack(|t, c| if c == 1 && (10..30).contains(&t) { 860 } else { 900 });
        process(&mut stream(&config), &dip, 0).len()
    };
    assert_eq!(found(Chain::SimpleThreshold), 0);
    assert_eq!(found(Chain::RunningSum), 0);
    assert_eq!(found(Chain::AbsRs), 1);
}

#[test]
fn a_hit_goes_on_over_a_frame_border_but_not_over_a_gap() {
    let (begin, end) = (pulse(5, 60..64, 300), pulse(5, 0..4, 300));
    let mut whole = stream(&config());
    process(&mut whole, &begin, 0);
    let tps = process(&mut whole, &end, 1);
    assert_eq!((tps.len(), tps[0].samples_over_threshold()), (1, 8));
    assert_eq!(tps[0].time_start(), START + 60 * 32);

    let mut cut = stream(&config());
    process(&mut cut, &begin, 0);
    let tps = process(&mut cut, &end, 2);
    assert_eq!((tps.len(), tps[0].samples_over_threshold()), (1, 4));
    assert_eq!(tps[0].time_start(), START + 2 * FRAME);
    assert_eq!((cut.counters().gaps.get(), cut.counters().hits_cut.get()), (1, 1));
}

#[test]
fn late_frames_are_left_out_and_a_new_series_is_begun() {
    let mut stream = stream(&config());
    let quiet = pulse(0, 0..0, 0);
    for frame in [100, 101, 101, 99, 102] {
        process(&mut stream, &quiet, frame);
    }
    let counters = stream.counters().clone();
    assert_eq!(counters.frames.dropped(TpgFrameDrop::Late), 2);
    assert_eq!((counters.frames.delivered(), counters.gaps.get()), (3, 0));
    process(&mut stream, &quiet, 103 - 65);
    assert_eq!((counters.frames.delivered(), counters.gaps.get()), (4, 1));
    assert_eq!(stream.searched_to(), START + 39 * FRAME);
    assert!(counters.statement().closes());
}

#[test]
fn pedestals_start_from_the_data_and_again_after_a_long_gap() {
    let config = TpgConfig { initial_pedestal: InitialPedestal::Data, ..config() };
    let level = |counts: u16| pack(move |t, c| counts + c as u16 + 300 * u16::from(t == 40));
    let long = PEDESTAL_RESTART_TICKS / FRAME + 2;
    for chain in [Chain::SimpleThreshold, Chain::AbsRs, Chain::FixedPedestal] {
        let mut stream = stream(&TpgConfig { chain, threshold: [20; 3], ..config.clone() });
        let starts = |stream: &StreamTpg| {
            let counters = stream.counters();
            let pedestals = [0, 63].map(|channel| counters.pedestals[channel].get());
            (counters.pedestal_starts.get(), pedestals)
        };
        // The first frame of a stream gives its primitives.
        assert_eq!(process(&mut stream, &level(900), 0).len(), CHANNELS, "{chain:?}");
        assert_eq!(starts(&stream), (1, [900, 963]));
        process(&mut stream, &level(900), long / 2);
        assert_eq!(starts(&stream).0, 1, "a short gap keeps the pedestals");
        for (starts_expected, frame) in [(2, 2 * long), (3, 0)] {
            let counts = 2000 * starts_expected as u16;
            let found = process(&mut stream, &level(counts), frame);
            assert_eq!(found.len(), CHANNELS, "{chain:?}");
            let pedestals = [counts.into(), u64::from(counts) + 63];
            assert_eq!(starts(&stream), (starts_expected, pedestals));
        }
    }
}

#[test]
fn published_pedestals_stay_where_they_are_whatever_the_gap() {
    let mut stream =
        stream(&TpgConfig { initial_pedestal: InitialPedestal::PUBLISHED, ..config() });
    for frame in [0, 1, 100_000] {
        assert!(process(&mut stream, &pulse(5, 10..20, 5000), frame).is_empty());
    }
    let counters = stream.counters();
    assert_eq!((counters.pedestal_starts.get(), counters.gaps.get()), (0, 1));
    assert!(counters.pedestals[5].get() > 16_000);
}

#[test]
fn a_stream_tells_of_each_channel() {
    let config = TpgConfig { mask: vec![1004], ..config() };
    let mut stream = stream(&config);
    for frame in 0..512 {
        process(&mut stream, &pulse(3, 10..12, 300), frame);
    }
    let counters = stream.counters();
    let tps = |channel: usize| counters.channel_tps[channel].get();
    assert_eq!((tps(3), tps(4), counters.tps.get()), (512, 0, 512));
    assert_eq!((counters.pedestals[0].get(), counters.noise[5].get()), (900, Some(0.0)));
    assert!(counters.noise[3].get() > Some(0.0), "{:?}", counters.noise[3]);
    assert_eq!((counters.channels.offline[4], counters.channels.plane[63]), (1004, 2));
    assert_eq!([3, 4, 5].map(|channel| counters.masked[channel]), [false, true, false]);
}

#[test]
fn tde_frames_follow_one_another_after_2000_ticks() {
    let mut stream = StreamTpg::new(&config(), &channels(), 11, TpcFormat::TdeEth).unwrap();
    let (begin, end) = (pulse(5, 60..64, 300), pulse(5, 0..4, 300));
    let mut tps = Vec::new();
    stream.process(&begin, START, &mut tps);
    stream.process(&end, START + 2000, &mut tps);
    assert_eq!((tps.len(), stream.counters().gaps.get()), (1, 0));
    assert!(tps[0].time_start() < stream.searched_to());
}

#[test]
fn bad_values_are_refused_by_name() {
    let refused = |config: TpgConfig| config.check().unwrap_err().path;
    assert_eq!(refused(TpgConfig { accum_limit: 127, ..config() }), "accum_limit");
    let above = InitialPedestal::Counts(16_385);
    assert_eq!(refused(TpgConfig { initial_pedestal: above, ..config() }), "initial_pedestal");
    assert_eq!(refused(TpgConfig { threshold: [1, 32768, 1], ..config() }), "threshold");
    assert_eq!(refused(TpgConfig { memory_factor: [8, 8, 11], ..config() }), "memory_factor");
    assert_eq!(refused(TpgConfig { scale_factor: [0, 10, 10], ..config() }), "scale_factor");
}

#[test]
fn configuration_is_read_by_its_names() {
    let text = r#"
        chain = "abs-rs"
        threshold = [60, 60, 120]
        isa = "scalar"
    "#;
    let config: TpgConfig = toml::from_str(text).unwrap();
    assert_eq!((config.chain, config.isa.isa()), (Chain::AbsRs, Isa::Scalar));
    assert_eq!((config.threshold, config.sot_minimum), ([60, 60, 120], [1; 3]));
    assert!(toml::from_str::<TpgConfig>("thresholds = [1, 2, 3]").is_err());
}
