//! Every instruction set gives the bits of the scalar definition, on each of its paths.
//!
//! With `GANNET_LONG=1` at least 10^8 samples are compared per instruction set.

use gannet_kernels::Isa;
use gannet_kernels::tpg::block::{ADC_MAX, pack};
use gannet_kernels::tpg::{
    Ahead, CHANNELS, ChainConfig, ChannelTable, Fetch, MAX_TPS_PER_FRAME, Path, Pedestal, SAMPLES,
    Tpg, Transform,
};
use gannet_wire::{TriggerPrimitive, protowib};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::array;
use std::cell::Cell;

/// One test per instruction set: random chains on random blocks, compared with scalar.
macro_rules! equals_scalar {
    ($($name:ident: $isa:expr;)*) => {$(
        mod $name {
            #[test]
            fn equals_scalar_on_random_chains_and_samples() {
                super::compare_random(super::Case::any(), $isa);
            }

            #[test]
            fn equals_scalar_on_hits_in_all_phases() {
                super::compare_random(super::Case::hits(), $isa);
            }

            #[test]
            fn equals_scalar_where_hits_are_rare() {
                super::compare_random(super::Case::rare(), $isa);
            }

            #[test]
            fn equals_scalar_where_blocks_of_a_frame_differ() {
                super::compare_random(super::Case::frames(), $isa);
            }

            #[test]
            fn equals_scalar_where_a_sum_before_its_median_exceeds_a_byte() {
                super::compare_large_factors($isa);
            }

            #[test]
            fn equals_scalar_where_a_saturated_rise_is_small_over_the_pedestal() {
                super::compare_fast_pedestal($isa);
            }

            #[test]
            fn equals_scalar_where_filtered_signals_are_just_about_the_limit() {
                super::compare_filter_at_its_limit($isa);
            }

            #[test]
            fn equals_scalar_while_the_first_pedestal_converges() {
                super::compare_convergence($isa);
            }
        }
    )*};
}

equals_scalar! {
    avx2: gannet_kernels::Isa::Avx2;
    avx512: gannet_kernels::Isa::Avx512;
}

/// What the samples of a stream look like.
#[derive(Clone, Copy, Debug)]
enum Signal {
    /// Any value at any time.
    Uniform,
    /// Only the smallest and the largest value.
    Extremes,
    /// Noise around a pedestal and, on each channel, a pulse train of its own period and length.
    Pulses { pedestal: u16, noise: u16, height: u16 },
    /// Noise around a pedestal; of `interval` samples of the stream, one channel has a pulse of up
    /// to `height` to either side.
    Rare { pedestal: u16, noise: u16, height: u16, interval: usize },
}

impl Signal {
    /// The sample of `channel` at `time` samples from the start; the same for the same `seed`.
    fn adc(self, seed: u64, time: usize, channel: usize) -> u16 {
        let random = mix(seed ^ mix((time * CHANNELS + channel) as u64));
        let noisy = |pedestal: u16, noise: u16| {
            i32::from(pedestal) + (random % (2 * u64::from(noise) + 1)) as i32 - i32::from(noise)
        };
        let adc = |value: i32| value.clamp(0, i32::from(ADC_MAX)) as u16;
        match self {
            Self::Uniform => random as u16 & ADC_MAX,
            Self::Extremes => ADC_MAX * (random & 1) as u16,
            Self::Pulses { pedestal, noise, height } => {
                let shape = mix(seed ^ mix(!(channel as u64)));
                let period = 2 + shape as usize % 150;
                let length = (shape >> 16) as usize % period;
                let on = (time + (shape >> 32) as usize) % period < length;
                adc(noisy(pedestal, noise) + if on { i32::from(height) } else { 0 })
            }
            Self::Rare { pedestal, noise, height, interval } => {
                let shape = mix(seed ^ mix((time / interval) as u64));
                let (start, length) = ((shape >> 8) as usize % interval, (shape >> 40) % 12);
                let after = (time % interval).wrapping_sub(start);
                let on = channel == shape as usize % CHANNELS && (after as u64) < length;
                let pulse = ((shape >> 48) % (2 * u64::from(height) + 1)) as i32;
                let pulse = pulse - i32::from(height);
                adc(noisy(pedestal, noise) + if on { pulse } else { 0 })
            }
        }
    }
}

/// The finalizer of SplitMix64.
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A chain, a table and a signal.
#[derive(Clone, Debug)]
struct Case {
    config: ChainConfig,
    table: ChannelTable,
    signal: Signal,
    packing: Packing,
    path: Path,
    seed: u64,
    timestamp: u64,
    calls: usize,
}

/// How the samples come.
#[derive(Clone, Copy, Debug)]
enum Packing {
    /// As blocks of 64 samples of 14 bits.
    Block,
    /// As some ProtoDUNE-SP frames a call, of 12 bits. The blocks that are not `loud` have noise of
    /// 4 counts and, rarely, a pulse.
    Frames { count: usize, loud: [bool; protowib::BLOCKS] },
}

impl Packing {
    fn any() -> impl Strategy<Value = Self> {
        prop_oneof![2 => Just(Self::Block), 1 => Self::frames()]
    }

    fn frames() -> impl Strategy<Value = Self> {
        (prop_oneof![Just(12), 1..=SAMPLES], any::<[bool; protowib::BLOCKS]>())
            .prop_map(|(count, loud)| Self::Frames { count, loud })
    }
}

impl Case {
    /// Any chain on any signal.
    fn any() -> impl Strategy<Value = Self> {
        let pulses = (0..=ADC_MAX, 0..20u16, 0..=ADC_MAX)
            .prop_map(|(pedestal, noise, height)| Signal::Pulses { pedestal, noise, height });
        let signal = prop_oneof![Just(Signal::Uniform), Just(Signal::Extremes), pulses];
        let initial = prop_oneof![Just(0x4000), Just(0), 0..=0x4000i16];
        let limit = prop_oneof![Just(0), Just(10), 0..=Pedestal::ACCUM_LIMIT_MAX];
        Self::of(signal, initial, limit, 0..=i16::MAX)
    }

    /// Pulses near a pedestal that is known from the start, thresholds around their height.
    fn hits() -> impl Strategy<Value = Self> {
        let signal = (0..6u16, 20..300u16).prop_map(|(noise, height)| Signal::Pulses {
            pedestal: 900,
            noise,
            height,
        });
        Self::of(signal, 895..905i16, 8..=12u16, 0..150i16)
    }

    /// Rare pulses of all heights in noise that mostly stays below threshold, with the same factors
    /// on all channels.
    fn rare() -> impl Strategy<Value = Self> {
        let interval = prop_oneof![10..100usize, Just(1000)];
        let noise = prop_oneof![3 => 0..12u16, 1 => 12..64u16];
        let signal = (0..=ADC_MAX, noise, 0..400u16, interval).prop_map(
            |(pedestal, noise, height, interval)| Signal::Rare {
                pedestal,
                noise,
                height,
                interval,
            },
        );
        let limit = prop_oneof![4 => Just(10), 1 => 0..=Pedestal::ACCUM_LIMIT_MAX];
        let factor = || prop_oneof![4 => 0..12i16, 2 => 12..30i16, 1 => -130..130i16];
        let uniform = (0..150i16, 1..8i16, factor(), factor(), 1..60usize);
        (Self::of(signal, 0..=ADC_MAX as i16, limit, 20..150i16), uniform).prop_map(
            |(mut case, (threshold, multiple, memory, scale, calls))| {
                let is_filter = case.config.transform == Some(Transform::Fir);
                if is_filter || threshold < 75 {
                    case.table.threshold = [if is_filter { multiple } else { threshold }; CHANNELS];
                }
                case.table.memory_factor = [memory; CHANNELS];
                case.table.scale_factor = [scale; CHANNELS];
                if let Signal::Rare { pedestal, .. } = case.signal {
                    case.config.initial_pedestal = pedestal as i16;
                }
                Self { calls, ..case }
            },
        )
    }

    /// Frames of four blocks, some with hits in all phases.
    fn frames() -> impl Strategy<Value = Self> {
        (Self::hits(), Packing::frames(), 8..40usize).prop_map(|(case, packing, calls)| Self {
            packing,
            calls,
            ..case
        })
    }

    fn of(
        signal: impl Strategy<Value = Signal>,
        initial_pedestal: impl Strategy<Value = i16>,
        accum_limit: impl Strategy<Value = u16>,
        threshold: impl Strategy<Value = i16> + Clone,
    ) -> impl Strategy<Value = Self> {
        let config = (accum_limit, proptest::option::of(0..300u32), initial_pedestal, transform())
            .prop_map(|(accum_limit, start_period, initial_pedestal, transform)| ChainConfig {
                subtraction: match start_period {
                    None => Pedestal::Frugal { accum_limit },
                    Some(start_period) => Pedestal::Fixed { accum_limit, start_period },
                },
                initial_pedestal,
                transform,
            });
        let path = prop_oneof![Just(Path::Adaptive), Just(Path::Sparse), Just(Path::Dense)];
        let times = (any::<u64>(), 1..8usize);
        (config, table(threshold), signal, Packing::any(), path, any::<u64>(), times).prop_map(
            |(config, mut table, signal, packing, path, seed, (timestamp, calls))| {
                if config.transform == Some(Transform::Fir) {
                    table.threshold = table.threshold.map(|t| t % 8);
                }
                Self { config, table, signal, packing, path, seed, timestamp, calls }
            },
        )
    }
}

fn transform() -> impl Strategy<Value = Option<Transform>> {
    let sums = any::<bool>().prop_flat_map(|absolute| {
        prop_oneof![
            Just(Transform::RunningSum { absolute }),
            Just(Transform::FeedbackSum { absolute })
        ]
    });
    proptest::option::weighted(0.75, prop_oneof![4 => sums, 1 => Just(Transform::Fir)])
}

/// Different numbers on every channel.
fn table(threshold: impl Strategy<Value = i16> + Clone) -> impl Strategy<Value = ChannelTable> {
    fn each<S: Strategy + Clone>(value: S) -> impl Strategy<Value = [S::Value; CHANNELS]>
    where
        S::Value: core::fmt::Debug,
    {
        proptest::collection::vec(value, CHANNELS)
            .prop_map(|values| values.try_into().expect("one value a channel"))
    }
    let usual_or_any = |usual: i16| prop_oneof![3 => Just(usual), 1 => any::<i16>()];
    (
        each(prop_oneof![Just(0xff_ffffu32), 0..0xff_ffffu32]),
        each(prop_oneof![4 => threshold, 1 => Just(0), 1 => Just(i16::MAX)]),
        each(prop_oneof![4 => 0..6u16, 1 => any::<u16>()]),
        each(usual_or_any(8)),
        each(usual_or_any(10)),
        each(prop::bool::weighted(0.1)),
        any::<u8>(),
        prop_oneof![Just(32u32), any::<u32>()],
    )
        .prop_map(
            |(
                channel,
                threshold,
                sot_minimum,
                memory_factor,
                scale_factor,
                masked,
                detid,
                ticks_per_sample,
            )| ChannelTable {
                channel,
                threshold,
                sot_minimum,
                memory_factor,
                scale_factor,
                masked,
                detid,
                ticks_per_sample,
            },
        )
}

/// Whether the instruction set can be tested here; says loudly if not, past the capture of
/// output by the test harness.
fn can_run(isa: Isa) -> bool {
    if !isa.is_available() {
        gannet_measure::testing::skipped(isa, "not on this machine");
    }
    isa.is_available()
}

/// Cases of one test, and the samples that they must have come to.
fn amount() -> (u32, usize) {
    if std::env::var_os("GANNET_LONG").is_some() { (8000, 50_000_000) } else { (1000, 0) }
}

fn compare_random(strategy: impl Strategy<Value = Case>, isa: Isa) {
    if can_run(isa) {
        let (cases, at_least) = amount();
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let compared = Cell::new(0);
        TestRunner::new(config)
            .run(&strategy, |case| {
                compare(&case, isa).map(|samples| compared.set(compared.get() + samples))
            })
            .unwrap();
        assert!(compared.get() >= at_least, "only {} samples were compared", compared.get());
    }
}

/// Runs both kernels over the samples of a case; primitives and state must agree after each call. Gives
/// the number of samples.
fn compare(case: &Case, isa: Isa) -> Result<usize, TestCaseError> {
    let isas = [Isa::Scalar, isa];
    match case.packing {
        Packing::Block => {
            let chains = isas.map(|isa| Tpg::new(&case.config, &case.table, isa).unwrap());
            compare_calls(case, chains, SAMPLES, |chains, out, time, timestamp| {
                let block = pack(|t, c| case.signal.adc(case.seed, time + t, c));
                for (chain, out) in chains.iter_mut().zip(out) {
                    chain.process(&block, timestamp, out);
                }
            })
        }
        Packing::Frames { count, loud } => {
            let tables = array::from_fn(|block| rotated(&case.table, 5 * block));
            let tables = tables.each_ref();
            let chains = isas.map(|isa| Tpg::for_frames(&case.config, tables, isa).unwrap());
            let pedestal = case.config.initial_pedestal as u16;
            let quiet = Signal::Rare { pedestal, noise: 4, height: 400, interval: 200 };
            compare_calls(case, chains, count, |chains, out, time, timestamp| {
                let frames = pack_frames(count, |t, block, c| {
                    let signal = if loud[block] { case.signal } else { quiet };
                    signal.adc(case.seed ^ block as u64, time + t, c)
                });
                for (chain, out) in chains.iter_mut().zip(out) {
                    chain.process_frames(&frames, timestamp, out);
                }
            })
        }
    }
}

/// Makes the calls of a case, of `count` samples each, and compares what two chains give.
fn compare_calls<const BLOCKS: usize>(
    case: &Case,
    mut chains: [Tpg<BLOCKS>; 2],
    count: usize,
    process: impl Fn(&mut [Tpg<BLOCKS>; 2], &mut [Vec<TriggerPrimitive>; 2], usize, u64),
) -> Result<usize, TestCaseError> {
    let room = BLOCKS * MAX_TPS_PER_FRAME;
    let mut out = [Vec::with_capacity(room), Vec::with_capacity(room)];
    chains[1].set_path(case.path);
    chains[1].set_fetch(match case.seed % 3 {
        0 => Fetch::Memory,
        1 => Fetch::Cache,
        _ => Fetch::At(Ahead { near: case.timestamp as usize, far: usize::MAX }),
    });
    for call in 0..case.calls {
        let time = call * count;
        let ticks = u64::from(case.table.ticks_per_sample).wrapping_mul(time as u64);
        out.iter_mut().for_each(Vec::clear);
        process(&mut chains, &mut out, time, case.timestamp.wrapping_add(ticks));
        let [expected, got] = &out;
        prop_assert_eq!(got, expected, "primitives of call {}", call);
        prop_assert_eq!(chains[1].states(), chains[0].states(), "state after call {}", call);
        prop_assert!(got.capacity() == room, "room was kept, yet `out` grew");
    }
    Ok(case.calls * count * BLOCKS * CHANNELS)
}

/// The table with its entries for so many channels further.
fn rotated(table: &ChannelTable, channels: usize) -> ChannelTable {
    let mut table = table.clone();
    table.channel.rotate_left(channels);
    table.threshold.rotate_left(channels);
    table.sot_minimum.rotate_left(channels);
    table.memory_factor.rotate_left(channels);
    table.scale_factor.rotate_left(channels);
    table.masked.rotate_left(channels);
    table
}

/// Frames that hold the low 12 bits of `adc(time, block, channel)`, and all else noise.
fn pack_frames(
    count: usize,
    adc: impl Fn(usize, usize, usize) -> u16,
) -> Vec<[u8; protowib::FRAME_LEN]> {
    let frame = |t: usize| {
        let noise = array::from_fn(|i| mix((t * protowib::FRAME_LEN + i) as u64) as u8);
        let mut frame = protowib::Frame::new_unchecked(noise);
        for block in 0..protowib::BLOCKS {
            (0..CHANNELS).for_each(|c| frame.block_mut(block).set_adc(c, adc(t, block, c)));
        }
        frame.into_inner()
    };
    (0..count).map(frame).collect()
}

/// From the published initial pedestal down to the samples, with pulses all the way.
fn compare_convergence(isa: Isa) {
    let case = |path| Case {
        config: ChainConfig::default(),
        table: ChannelTable { threshold: [60; CHANNELS], ..ChannelTable::default() },
        signal: Signal::Pulses { pedestal: 15_500, noise: 8, height: 700 },
        packing: Packing::Block,
        path,
        seed: 7,
        timestamp: 107_544_625_968_525_251,
        calls: 300,
    };
    if can_run(isa) {
        for path in [Path::Adaptive, Path::Sparse, Path::Dense] {
            compare(&case(path), isa).unwrap();
        }
    }
}

/// Runs blocks of `adc` through a chain whose pedestals are 900; primitives and state must agree
/// after each.
fn compare_blocks(
    config: &ChainConfig,
    table: &ChannelTable,
    isa: Isa,
    calls: usize,
    adc: impl Fn(usize, usize) -> u16,
) {
    let mut chains = [Isa::Scalar, isa].map(|isa| Tpg::new(config, table, isa).unwrap());
    chains.iter_mut().for_each(|chain| chain.set_pedestals([900; CHANNELS]));
    for call in 0..calls {
        let block = pack(|t, c| adc(call * SAMPLES + t, c));
        let mut found = [Vec::new(), Vec::new()];
        for (chain, found) in chains.iter_mut().zip(&mut found) {
            chain.process(&block, 0, found);
        }
        assert_eq!(found[1], found[0], "in call {call}");
        assert!(chains[1].state() == chains[0].state(), "after call {call}");
    }
}

/// Signals of 30 and, now and then, 63: with these factors sums of 66 and 139, whose median is 66.
fn compare_large_factors(isa: Isa) {
    let config = ChainConfig {
        subtraction: Pedestal::Fixed { accum_limit: 10, start_period: 0 },
        transform: Some(Transform::FeedbackSum { absolute: true }),
        ..ChainConfig::default()
    };
    let table = ChannelTable {
        threshold: [200; CHANNELS],
        memory_factor: [0; CHANNELS],
        scale_factor: [22; CHANNELS],
        ..ChannelTable::default()
    };
    if can_run(isa) {
        compare_blocks(&config, &table, isa, 40, |t, c| {
            let signal = if (t + c).is_multiple_of(97) { 63 } else { 30 };
            if t.is_multiple_of(2) { 900 + signal } else { 900 - signal }
        });
    }
}

/// Samples far above pedestals that move by 32 counts in a block, as far as they can.
fn compare_fast_pedestal(isa: Isa) {
    let config = ChainConfig {
        subtraction: Pedestal::Frugal { accum_limit: 1 },
        transform: Some(Transform::FeedbackSum { absolute: false }),
        ..ChainConfig::default()
    };
    let table = ChannelTable { threshold: [200; CHANNELS], ..ChannelTable::default() };
    if can_run(isa) {
        compare_blocks(&config, &table, isa, 4, |_, _| 1100);
    }
}

/// On a few channels plateaus of about six times the interquartile range, while the quartiles go up
/// and down.
fn compare_filter_at_its_limit(isa: Isa) {
    let table = ChannelTable { threshold: [6; CHANNELS], ..ChannelTable::default() };
    for accum_limit in [4, 7, 10].into_iter().filter(|_| can_run(isa)) {
        let config = ChainConfig {
            subtraction: Pedestal::Frugal { accum_limit },
            transform: Some(Transform::Fir),
            ..ChainConfig::default()
        };
        compare_blocks(&config, &table, isa, 500, |t, c| {
            let of = |what: usize, range: usize| {
                mix((what * CHANNELS + c) as u64 ^ u64::from(accum_limit) << 32) as usize % range
            };
            let noise = 897 + of(t, 7);
            let plateau = c.is_multiple_of(5) && (t + 11 * c) % 130 < 12;
            (if plateau { noise + 8 + of(t / 130, 10) } else { noise }) as u16
        });
    }
}
