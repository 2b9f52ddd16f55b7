//! The published rules of the chain, one test a rule, on every instruction set of this machine.
//!
//! Each test is worked by hand. Source of the rules: DUNE-DAQ/tpglibs, and DUNE-DAQ/fdreadoutlibs
//! for the sums with feedback and the filter.

use std::array;

use gannet_kernels::Isa;
use gannet_kernels::tpg::block::pack;
use gannet_kernels::tpg::{
    CHANNELS, ChainConfig, ChannelTable, MAX_TPS_PER_FRAME, Pedestal, SAMPLES, Tpg, Transform,
};
use gannet_wire::{TriggerPrimitive, protowib};

/// A chain whose pedestal stands at 0, so that samples are signals.
fn no_pedestal(transform: Option<Transform>) -> ChainConfig {
    ChainConfig {
        subtraction: Pedestal::Fixed { accum_limit: 10, start_period: 0 },
        initial_pedestal: 0,
        transform,
    }
}

fn frugal(accum_limit: u16, initial_pedestal: i16) -> ChainConfig {
    let subtraction = Pedestal::Frugal { accum_limit };
    ChainConfig { subtraction, initial_pedestal, transform: None }
}

/// Runs a test on every instruction set of this machine.
fn on_every_isa(config: ChainConfig, table: &ChannelTable, test: impl Fn(Stream)) {
    for isa in Isa::available() {
        println!("on {isa}");
        test(Stream { tpg: Tpg::new(&config, table, isa).unwrap(), frames: 0 });
    }
}

/// A stream whose first sample is taken at tick 0, with 32 ticks a sample.
struct Stream {
    tpg: Tpg,
    frames: u64,
}

impl Stream {
    /// Processes one frame and gives the hits that end in it.
    fn frame(&mut self, adc: impl Fn(usize, usize) -> u16) -> Vec<TriggerPrimitive> {
        let mut tps = Vec::new();
        self.tpg.process(&pack(adc), self.frames * 32 * SAMPLES as u64, &mut tps);
        self.frames += 1;
        tps
    }

    /// Processes one frame in which channel 0 has the given samples, then 0; all others are 0.
    fn samples(&mut self, samples: &[u16]) -> Vec<TriggerPrimitive> {
        self.frame(|t, c| if c == 0 { samples.get(t).copied().unwrap_or(0) } else { 0 })
    }
}

/// Start in samples, length, peak position, integral and peak of a primitive.
fn shape(tp: &TriggerPrimitive) -> (u64, u16, u16, u32, u16) {
    (
        tp.time_start() / 32,
        tp.samples_over_threshold(),
        tp.samples_to_peak(),
        tp.adc_integral(),
        tp.adc_peak(),
    )
}

#[test]
fn frugal_pedestal_moves_by_one_after_eleven_net_counts() {
    on_every_isa(frugal(10, 1000), &ChannelTable::default(), |mut stream| {
        // Channel c is above the pedestal in its last c samples, and on it before.
        stream.frame(|t, c| if t >= SAMPLES - c { 1050 } else { 1000 });
        let state = stream.tpg.state();
        assert_eq!((state.pedestal[10], state.accumulator[10]), (1000, 10));
        assert_eq!((state.pedestal[11], state.accumulator[11]), (1001, 0));
        assert_eq!((state.pedestal[12], state.accumulator[12]), (1001, 1));
        assert_eq!((state.pedestal[22], state.accumulator[22]), (1002, 0));
    });
}

#[test]
fn frugal_pedestal_follows_in_both_directions() {
    on_every_isa(frugal(10, 1000), &ChannelTable::default(), |mut stream| {
        stream.frame(|_, c| if c % 2 == 0 { 2000 } else { 0 });
        let state = stream.tpg.state();
        // 64 counts = 5 moves of 11 and 9 left over.
        assert_eq!((state.pedestal[0], state.accumulator[0]), (1005, 9));
        assert_eq!((state.pedestal[1], state.accumulator[1]), (995, -9));
    });
}

#[test]
fn frugal_pedestal_counts_above_minus_below_and_ignores_equal() {
    on_every_isa(frugal(10, 1000), &ChannelTable::default(), |mut stream| {
        // 20 above, 15 below, 29 equal, never more than 10 net.
        let sample = |t: usize| match t {
            0..10 => 1001,
            10..25 => 999,
            25..35 => 1001,
            _ => 1000,
        };
        stream.frame(|t, _| sample(t));
        let state = stream.tpg.state();
        assert_eq!((state.pedestal[0], state.accumulator[0]), (1000, 5));
    });
}

#[test]
fn frugal_pedestal_starts_above_every_adc_value() {
    on_every_isa(ChainConfig::default(), &ChannelTable::default(), |mut stream| {
        assert_eq!(stream.tpg.pedestals(), [0x4000; CHANNELS]);
        let tps = stream.frame(|t, c| if (t + c) % 2 == 0 { 0x3fff } else { 0 });
        assert_eq!(tps, []);
    });
}

#[test]
fn pedestal_of_a_constant_zero_is_reached_within_200_000_samples() {
    on_every_isa(ChainConfig::default(), &ChannelTable::default(), |mut stream| {
        // 16384 moves of 11 samples are 180,224 samples: 2816 frames.
        for _ in 0..2815 {
            stream.frame(|_, _| 0);
        }
        assert!(stream.tpg.pedestals()[0] > 0);
        for _ in 2815..200_000 / SAMPLES {
            stream.frame(|_, _| 0);
        }
        assert_eq!(stream.tpg.pedestals(), [0; CHANNELS]);
    });
}

#[test]
fn signal_is_the_sample_minus_the_pedestal_after_its_move() {
    let table = ChannelTable { threshold: [198; CHANNELS], ..ChannelTable::default() };
    // With limit 0 the pedestal moves at every sample: 1001, 1002, 1001 here.
    on_every_isa(frugal(0, 1000), &table, |mut stream| {
        let tps = stream.frame(|t, _| if t < 2 { 1200 } else { 0 });
        assert_eq!(shape(&tps[0]), (0, 1, 0, 199, 199));
    });
}

#[test]
fn signal_is_judged_with_the_pedestal_of_its_own_sample() {
    on_every_isa(frugal(10, 1000), &ChannelTable::default(), |mut stream| {
        // Ten counts below, one short of a move.
        stream.frame(|t, _| if t < 54 { 1000 } else { 900 });
        // Six moves, at samples 0, 11, .. 55; then 1095 is 101 above 994, but 95 above 1000.
        stream.frame(|t, _| if t < 63 { 0 } else { 1095 });
        assert_eq!(stream.tpg.pedestals(), [994; CHANNELS]);
        let tps = stream.frame(|_, _| 0);
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(127, 1, 0, 101, 101); CHANNELS]);
    });
}

#[test]
fn fixed_pedestal_is_frozen_after_the_start_period() {
    let subtraction = Pedestal::Fixed { accum_limit: 10, start_period: 64 + 22 };
    let config = ChainConfig { subtraction, ..frugal(10, 1000) };
    on_every_isa(config, &ChannelTable::default(), |mut stream| {
        for _ in 0..4 {
            stream.frame(|_, _| 1050);
        }
        // 86 counts: 7 moves and 9 left over, then nothing any more.
        let state = stream.tpg.state();
        assert_eq!((state.pedestal[0], state.accumulator[0]), (1007, 9));
    });
}

#[test]
fn running_sum_is_memory_tenths_of_the_sum_plus_scale_tenths_of_the_signal() {
    let sum = Some(Transform::RunningSum { absolute: false });
    on_every_isa(no_pedestal(sum), &ChannelTable::default(), |mut stream| {
        // R = 0.8, S = 1: 100, 80 + 100 = 180, 144 + 100 = 244, 24 * 8 + 100 = 292.
        stream.frame(|t, _| if t < 60 { 0 } else { 100 });
        assert_eq!(stream.tpg.state().running_sum, [292; CHANNELS]);
    });
}

#[test]
fn running_sum_uses_the_factors_of_each_channel() {
    let sum = Some(Transform::RunningSum { absolute: false });
    let mut table = ChannelTable::default();
    (table.memory_factor[1], table.scale_factor[1]) = (0, 20);
    on_every_isa(no_pedestal(sum), &table, |mut stream| {
        stream.frame(|t, _| if t < 62 { 0 } else { 100 });
        assert_eq!(stream.tpg.state().running_sum[..3], [180, 200, 180]);
    });
}

#[test]
fn running_sum_saturates_at_16_bits() {
    let sum = Some(Transform::RunningSum { absolute: false });
    let table = ChannelTable { memory_factor: [10; CHANNELS], ..ChannelTable::default() };
    on_every_isa(no_pedestal(sum), &table, |mut stream| {
        stream.frame(|_, _| 16_000);
        assert_eq!(stream.tpg.state().running_sum, [i16::MAX; CHANNELS]);
    });
}

#[test]
fn running_sum_products_keep_their_low_16_bits() {
    let sum = Some(Transform::RunningSum { absolute: false });
    let table = ChannelTable { scale_factor: [100; CHANNELS], ..ChannelTable::default() };
    on_every_isa(no_pedestal(sum), &table, |mut stream| {
        // 1000 tenths x 100 = 100,000 = 34,464 modulo 65,536 = -31,072 as a signed number.
        stream.frame(|t, _| if t < 63 { 0 } else { 10_000 });
        assert_eq!(stream.tpg.state().running_sum, [-31_072; CHANNELS]);
    });
}

#[test]
fn absolute_running_sum_adds_negative_signals_up() {
    let frozen = |absolute| ChainConfig {
        initial_pedestal: 900,
        ..no_pedestal(Some(Transform::RunningSum { absolute }))
    };
    for (absolute, expected) in [(true, 180), (false, -180)] {
        on_every_isa(frozen(absolute), &ChannelTable::default(), |mut stream| {
            stream.frame(|t, _| if t < 62 { 900 } else { 800 });
            assert_eq!(stream.tpg.state().running_sum, [expected; CHANNELS]);
        });
    }
}

#[test]
fn threshold_is_exceeded_only_by_strictly_greater_signals() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        let tps = stream.samples(&[0, 100, 0, 101, 0]);
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(3, 1, 0, 101, 101)]);
    });
}

#[test]
fn threshold_is_that_of_the_channel() {
    let threshold = core::array::from_fn(|c| 100 + c as i16);
    let table = ChannelTable { threshold, ..ChannelTable::default() };
    on_every_isa(no_pedestal(None), &table, |mut stream| {
        let tps = stream.frame(|t, _| if t == 5 { 132 } else { 0 });
        let channels: Vec<u32> = tps.iter().map(TriggerPrimitive::channel).collect();
        assert_eq!(channels, (0..32).collect::<Vec<u32>>());
    });
}

#[test]
fn hit_sums_its_samples_and_keeps_the_first_largest() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        let tps = stream.samples(&[0, 0, 150, 300, 200, 300, 101, 99]);
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(2, 5, 1, 1051, 300)]);
    });
}

#[test]
fn hit_never_ends_at_a_frame_border() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        assert_eq!(stream.frame(|t, _| if t < 60 { 0 } else { 200 }), []);
        assert_eq!(stream.frame(|_, _| 200), []);
        let tps = stream.samples(&[200, 500]);
        assert_eq!(tps.len(), CHANNELS);
        // 4 samples in the first frame, 64 in the second; channel 0 has 2 more in the third.
        assert_eq!(shape(&tps[CHANNELS - 1]), (60, 70, 69, 69 * 200 + 500, 500));
        assert!(tps[..CHANNELS - 1].iter().all(|tp| shape(tp) == (60, 68, 0, 68 * 200, 200)));
    });
}

#[test]
fn hit_shorter_than_the_minimum_is_dropped_and_forgotten() {
    let mut table = ChannelTable::default();
    table.sot_minimum[0] = 3;
    on_every_isa(no_pedestal(None), &table, |mut stream| {
        let tps = stream.samples(&[0, 900, 900, 0, 200, 201, 200, 0]);
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(4, 3, 1, 601, 201)]);
    });
}

#[test]
fn samples_over_threshold_stop_at_32767() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        for _ in 0..513 {
            assert_eq!(stream.frame(|_, _| 200), []);
        }
        // 32,832 samples were over threshold; the start is counted back from the end.
        let tps = stream.frame(|_, _| 0);
        assert_eq!(shape(&tps[0]), (32_832 - 32_767, 32_767, 0, 32_832 * 200, 200));
    });
}

#[test]
fn integral_has_32_bits_and_its_high_half_stays_full() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        // 16383 x 64 a frame: 4096 frames are 4,294,705,152, 262,144 below 2^32.
        for _ in 0..4096 {
            stream.frame(|_, _| 16_383);
        }
        let integral_after = |more: usize| {
            let mut out = Vec::new();
            let block = pack(|t, _| if t < more { 16_383 } else { 0 });
            stream.tpg.clone().process(&block, 0, &mut out);
            out[0].adc_integral()
        };
        assert_eq!(integral_after(0), 4_294_705_152);
        assert_eq!(integral_after(16), 4_294_967_280);
        // One more is 16,367 past 2^32: the low half has wrapped, the high half has not.
        assert_eq!(integral_after(17), 0xffff_0000 | 16_367);
    });
}

/// A chain of the older generation, whose pedestal stands at the first sample.
fn frozen_at_first_sample(transform: Transform) -> ChainConfig {
    ChainConfig {
        subtraction: Pedestal::Fixed { accum_limit: 10, start_period: 0 },
        ..ChainConfig { transform: Some(transform), ..ChainConfig::default() }
    }
}

const ABSOLUTE_FEEDBACK: Transform = Transform::FeedbackSum { absolute: true };

#[test]
fn pedestal_of_the_older_chains_starts_from_the_first_sample() {
    for transform in [ABSOLUTE_FEEDBACK, Transform::Fir] {
        on_every_isa(frozen_at_first_sample(transform), &ChannelTable::default(), |mut stream| {
            stream.frame(|t, c| if t == 0 { 500 + c as u16 } else { 7000 });
            assert_eq!(stream.tpg.pedestals(), core::array::from_fn(|c| 500 + c as i16));
        });
    }
}

#[test]
fn known_pedestals_take_the_place_of_the_first_sample() {
    on_every_isa(frozen_at_first_sample(Transform::Fir), &ChannelTable::default(), |mut stream| {
        stream.tpg.set_pedestals([900; CHANNELS]);
        stream.frame(|_, _| 900);
        let state = stream.tpg.state();
        assert_eq!(
            (state.pedestal[5], state.quartile[0][5], state.quartile[1][5]),
            (900, 880, 920)
        );
    });
}

#[test]
fn feedback_sum_takes_the_tenth_of_the_whole() {
    let table = ChannelTable { threshold: [i16::MAX; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frozen_at_first_sample(ABSOLUTE_FEEDBACK), &table, |mut stream| {
        // (8 * 0 + 10 * 100) / 10, (800 + 1000) / 10, (1440 + 1000) / 10, for 100 below as above.
        stream.frame(|t, c| match t {
            0..61 => 900,
            _ if c % 2 == 0 => 1000,
            _ => 800,
        });
        assert_eq!(stream.tpg.state().running_sum, [244; CHANNELS]);
    });
}

#[test]
fn feedback_sum_that_is_not_absolute_adds_a_tenth_of_the_signal_whatever_the_scale() {
    let table = ChannelTable { scale_factor: [90; CHANNELS], ..ChannelTable::default() };
    let config = frozen_at_first_sample(Transform::FeedbackSum { absolute: false });
    on_every_isa(config, &table, |mut stream| {
        // 1000 / 10, then (800 - 1000) / 10.
        stream.frame(|t, _| {
            if t == 62 {
                2000
            } else if t == 63 {
                0
            } else {
                1000
            }
        });
        assert_eq!(stream.tpg.state().running_sum, [-20; CHANNELS]);
    });
}

#[test]
fn feedback_sum_is_fed_back_without_its_median() {
    // Signals of 10 give sums of 10, 18, 24, 29, 33, 36, 39, 41, 43, 44, 45: eleven above the
    // median of 0, which moves to 1 with the last. The next sum is (8 * 44 + 100) / 10 = 45 again.
    for (signals, median, fed_back) in [(10, 0, 44), (11, 1, 44), (12, 1, 44)] {
        let config = frozen_at_first_sample(ABSOLUTE_FEEDBACK);
        on_every_isa(config, &ChannelTable::default(), |mut stream| {
            stream.frame(|t, _| if t < SAMPLES - signals { 900 } else { 910 });
            let state = stream.tpg.state();
            assert_eq!((state.sum_median[3], state.running_sum[3]), (median, fed_back));
        });
    }
}

#[test]
fn feedback_sum_decides_and_the_signal_is_summed() {
    on_every_isa(
        frozen_at_first_sample(ABSOLUTE_FEEDBACK),
        &ChannelTable::default(),
        |mut stream| {
            // Sums: 90, 172, 238, 190, 152, 122, 97. The hit is the five above 100.
            let samples = [900, 990, 1000, 1000];
            let tps =
                stream.frame(|t, c| if c == 0 { *samples.get(t).unwrap_or(&900) } else { 900 });
            assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(2, 5, 0, 200, 100)]);
        },
    );
}

#[test]
fn integral_of_the_older_chains_is_signed_and_saturates_at_16_bits() {
    let table = ChannelTable {
        memory_factor: [5; CHANNELS],
        scale_factor: [1; CHANNELS],
        ..ChannelTable::default()
    };
    on_every_isa(frozen_at_first_sample(ABSOLUTE_FEEDBACK), &table, |mut stream| {
        // 1500 up and 300 down make sums of 150 and 105, then 52. Three of 16083 make 1608, 2412
        // and 2814, then the sum is halved: 1407, 703, 351, 175, 88.
        let tps = stream.frame(|t, c| match (c, t) {
            (0, 1) => 1800,
            (0, 2) => 0,
            (0, 10..13) => 16_383,
            _ => 300,
        });
        assert_eq!(
            tps.iter().map(shape).collect::<Vec<_>>(),
            [(1, 2, 0, 1200, 1500), (10, 7, 0, 32_767, 16_083)]
        );
    });
}

#[test]
fn peak_of_the_older_chains_is_that_of_all_samples_since_the_hit_before() {
    // No memory and half the scale: a hit where the signal is over 200, which 150 is not.
    let table = ChannelTable {
        memory_factor: [0; CHANNELS],
        scale_factor: [5; CHANNELS],
        ..ChannelTable::default()
    };
    on_every_isa(frozen_at_first_sample(ABSOLUTE_FEEDBACK), &table, |mut stream| {
        // The first hit is by samples below the pedestal; its peak came before it.
        let samples = [900, 1050, 900, 500, 500, 900, 1200, 1300, 900];
        let tps = stream.frame(|t, c| if c == 0 { *samples.get(t).unwrap_or(&900) } else { 900 });
        let charge = -800i16 as u16;
        assert_eq!(
            tps.iter().map(shape).collect::<Vec<_>>(),
            [(3, 2, 0, u32::from(charge), 150), (6, 2, 1, 700, 400)]
        );
    });
}

#[test]
fn hit_of_integral_0_is_dropped_in_the_older_chains() {
    // No memory and half the scale: a hit where the signal is over 200 in either direction.
    let table = ChannelTable {
        memory_factor: [0; CHANNELS],
        scale_factor: [5; CHANNELS],
        ..ChannelTable::default()
    };
    on_every_isa(frozen_at_first_sample(ABSOLUTE_FEEDBACK), &table, |mut stream| {
        // 300 up and 300 down are nothing in sum; the same with one more up is a hit.
        let samples = [900, 1200, 600, 900, 900, 1201, 600, 900];
        let tps = stream.frame(|t, c| if c == 0 { *samples.get(t).unwrap_or(&900) } else { 900 });
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(5, 2, 0, 1, 301)]);
    });
}

#[test]
fn filter_spreads_a_sample_over_the_second_to_the_eighth_step_after_it() {
    let table = ChannelTable { threshold: [0; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frozen_at_first_sample(Transform::Fir), &table, |mut stream| {
        // 64 times the taps, of which primitives carry 64ths: 1, 6, 15, 20, 15, 6, 1.
        let tps = stream.frame(|t, c| if c == 9 && t == 10 { 964 } else { 900 });
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(12, 7, 3, 64, 20)]);
    });
}

#[test]
fn filter_remembers_samples_across_calls() {
    let table = ChannelTable { threshold: [0; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frozen_at_first_sample(Transform::Fir), &table, |mut stream| {
        assert_eq!(stream.frame(|t, c| if c == 9 && t == 59 { 964 } else { 900 }), []);
        let tps = stream.frame(|_, _| 900);
        assert_eq!(tps.iter().map(shape).collect::<Vec<_>>(), [(61, 7, 3, 64, 20)]);
    });
}

#[test]
fn filter_takes_samples_up_to_511() {
    let table = ChannelTable { threshold: [0; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frozen_at_first_sample(Transform::Fir), &table, |mut stream| {
        let tps = stream.frame(|t, c| if c == 9 && t == 10 { 9000 } else { 900 });
        // 511 / 64 of the taps, each cut to an integer.
        assert_eq!(
            tps.iter().map(shape).collect::<Vec<_>>(),
            [(12, 7, 3, 7 + 47 + 119 + 159 + 119 + 47 + 7, 159)]
        );
    });
}

#[test]
fn threshold_of_the_filter_is_a_multiple_of_the_interquartile_range() {
    let table = ChannelTable { threshold: [1; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frozen_at_first_sample(Transform::Fir), &table, |mut stream| {
        // The range is 40 at first: 2560 in 64ths. 20 * 128 is not above it, 20 * 129 is.
        let tps = stream.frame(|t, c| match (c, t) {
            (3, 10) => 900 + 128,
            (4, 10) => 900 + 129,
            _ => 900,
        });
        let channels: Vec<u32> = tps.iter().map(TriggerPrimitive::channel).collect();
        assert_eq!(channels, [4]);
        assert_eq!(shape(&tps[0]), (15, 1, 0, 40, 40));
    });
}

#[test]
fn quartiles_follow_the_samples_on_their_side_of_the_pedestal() {
    on_every_isa(frozen_at_first_sample(Transform::Fir), &ChannelTable::default(), |mut stream| {
        // Eleven samples at 5 above: the upper quartile comes in from 20 by one. Then eleven
        // far below: the lower one goes out from -20 by one.
        stream.frame(|t, _| match t {
            1..12 => 905,
            12..23 => 800,
            _ => 900,
        });
        let state = stream.tpg.state();
        assert_eq!((state.quartile[0][0], state.quartile[1][0]), (879, 919));
    });
}

#[test]
fn samples_of_12_bits_take_the_same_chain() {
    let table = ChannelTable { ticks_per_sample: 25, ..ChannelTable::default() };
    let tables = array::from_fn(|block| ChannelTable {
        channel: array::from_fn(|c| (CHANNELS * block + c) as u32),
        ..table.clone()
    });
    for isa in Isa::available() {
        let tables = tables.each_ref();
        let mut tpg = Tpg::for_frames(&no_pedestal(None), tables, isa).unwrap();
        // Twelve frames: channel 37 of block 2 is over threshold in frames 3 to 5, channel 3 of
        // block 1 in frame 7.
        let mut frames = [[0; protowib::FRAME_LEN]; protowib::FRAMES_PER_SUPERCHUNK];
        for (t, block, channel, adc) in
            [(3, 2, 37, 150), (4, 2, 37, 4095), (5, 2, 37, 200), (7, 1, 3, 300)]
        {
            let mut frame = protowib::Frame::new_unchecked(&mut frames[t][..]);
            frame.block_mut(block).set_adc(channel, adc);
        }
        let mut tps = Vec::new();
        tpg.process_frames(&frames, 1000, &mut tps);
        let facts = tps.iter().map(|tp| (tp.channel(), tp.time_start(), tp.adc_integral()));
        let expected = [(64 + 3, 1000 + 7 * 25, 300), (128 + 37, 1000 + 3 * 25, 4445)];
        assert!(facts.eq(expected), "{isa}: {tps:?}");
    }
}

#[test]
#[should_panic(expected = "65 frames: at most 64 a call")]
fn more_frames_than_a_call_takes_are_refused() {
    let table = ChannelTable::default();
    let mut tpg = Tpg::for_frames(&no_pedestal(None), [&table; 4], Isa::Scalar).unwrap();
    tpg.process_frames(&[[0; protowib::FRAME_LEN]; SAMPLES + 1], 0, &mut Vec::new());
}

#[test]
fn primitives_come_in_time_order_then_in_channel_order() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        // Odd channels end at sample 10, even ones at 20.
        let tps = stream.frame(|t, c| if t < if c % 2 == 1 { 10 } else { 20 } { 200 } else { 0 });
        let channels: Vec<u32> = tps.iter().map(TriggerPrimitive::channel).collect();
        let expected: Vec<u32> = (1..64).step_by(2).chain((0..64).step_by(2)).collect();
        assert_eq!(channels, expected);
    });
}

#[test]
fn masked_channel_gives_no_primitives_and_changes_no_other() {
    let mut table = ChannelTable::default();
    table.masked[17] = true;
    on_every_isa(no_pedestal(None), &table, |mut stream| {
        let tps = stream.frame(|t, _| if t == 5 { 16_383 } else { 0 });
        let channels: Vec<u32> = tps.iter().map(TriggerPrimitive::channel).collect();
        assert_eq!(channels, (0..64).filter(|&c| c != 17).collect::<Vec<u32>>());
    });
}

#[test]
fn masked_channel_still_follows_its_pedestal() {
    let table = ChannelTable { masked: [true; CHANNELS], ..ChannelTable::default() };
    on_every_isa(frugal(10, 1000), &table, |mut stream| {
        stream.frame(|_, _| 1050);
        assert_eq!(stream.tpg.pedestals(), [1005; CHANNELS]);
    });
}

#[test]
fn primitive_carries_version_detector_and_offline_channel() {
    let mut table = ChannelTable { detid: 10, ticks_per_sample: 25, ..ChannelTable::default() };
    table.channel[63] = 0x00ab_cdef;
    on_every_isa(no_pedestal(None), &table, |mut stream| {
        let mut out = Vec::new();
        let block = pack(|t, c| if c == 63 && t == 7 { 200 } else { 0 });
        stream.tpg.process(&block, 1_000_000, &mut out);
        let tp = out[0];
        assert_eq!((tp.version(), tp.flag(), tp.detid(), tp.channel()), (2, 0, 10, 0x00ab_cdef));
        assert_eq!(tp.time_start(), 1_000_000 + 7 * 25);
    });
}

#[test]
fn hits_open_at_a_gap_are_dropped_and_counted() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        stream.frame(|t, c| if c < 5 && t > 60 { 200 } else { 0 });
        assert_eq!(stream.tpg.reset_hits(), 5);
        assert_eq!(stream.tpg.reset_hits(), 0);
        assert_eq!(stream.frame(|_, _| 0), []);
    });
}

#[test]
fn block_completes_at_most_2048_hits() {
    on_every_isa(no_pedestal(None), &ChannelTable::default(), |mut stream| {
        let mut out = Vec::with_capacity(MAX_TPS_PER_FRAME);
        let capacity = out.capacity();
        let block = pack(|t, _| if t % 2 == 1 { 200 } else { 0 });
        stream.tpg.process(&block, 0, &mut out);
        assert_eq!(out.len(), MAX_TPS_PER_FRAME - CHANNELS);
        // From now on a hit is open at the border.
        out.clear();
        stream.tpg.process(&block, 2048, &mut out);
        assert_eq!((out.len(), out.capacity()), (MAX_TPS_PER_FRAME, capacity));
    });
}

#[test]
fn isa_that_the_machine_lacks_is_refused_by_name() {
    for isa in Isa::ALL.into_iter().filter(|isa| !isa.is_available()) {
        let refusal = Tpg::new(&ChainConfig::default(), &ChannelTable::default(), isa);
        assert!(refusal.unwrap_err().to_string().contains(isa.name()));
    }
}
