//! Every instruction set gives the bits of the scalar definition.

use gannet_kernels::block::{ADC_MAX, pack};
use gannet_kernels::{
    CHANNELS, ChainConfig, ChannelTable, Isa, MAX_TPS_PER_FRAME, Pedestal, RunningSum, SAMPLES, Tpg,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::io::Write;

/// One test per instruction set: random chains on random blocks, compared with scalar.
macro_rules! equals_scalar {
    ($($name:ident: $isa:expr;)*) => {$(
        mod $name {
            #[test]
            fn equals_scalar_on_random_chains_and_blocks() {
                super::compare_random(super::Case::any(), $isa, 200);
            }

            #[test]
            fn equals_scalar_on_hits_in_all_phases() {
                super::compare_random(super::Case::hits(), $isa, 200);
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
}

impl Signal {
    /// The sample of `channel` at `time` samples from the start; the same for the same `seed`.
    fn adc(self, seed: u64, time: usize, channel: usize) -> u16 {
        let random = mix(seed ^ mix((time * CHANNELS + channel) as u64));
        match self {
            Self::Uniform => random as u16 & ADC_MAX,
            Self::Extremes => ADC_MAX * (random & 1) as u16,
            Self::Pulses { pedestal, noise, height } => {
                let shape = mix(seed ^ mix(!(channel as u64)));
                let period = 2 + shape as usize % 150;
                let length = (shape >> 16) as usize % period;
                let on = (time + (shape >> 32) as usize) % period < length;
                let base = i32::from(pedestal) + (random % (2 * u64::from(noise) + 1)) as i32;
                let value = base - i32::from(noise) + if on { i32::from(height) } else { 0 };
                value.clamp(0, i32::from(ADC_MAX)) as u16
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
    seed: u64,
    timestamp: u64,
    frames: usize,
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
        (config, table(threshold), signal, any::<u64>(), any::<u64>(), 1..8usize).prop_map(
            |(config, table, signal, seed, timestamp, frames)| Self {
                config,
                table,
                signal,
                seed,
                timestamp,
                frames,
            },
        )
    }
}

fn transform() -> impl Strategy<Value = Option<RunningSum>> {
    proptest::option::of(any::<bool>().prop_map(|absolute| RunningSum { absolute }))
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
        let _ = writeln!(std::io::stderr(), "skipped: {isa} not on this machine");
    }
    isa.is_available()
}

fn compare_random(cases: impl Strategy<Value = Case>, isa: Isa, count: u32) {
    if can_run(isa) {
        let config = Config { cases: count, failure_persistence: None, ..Config::default() };
        TestRunner::new(config).run(&cases, |case| compare(&case, isa)).unwrap();
    }
}

/// Runs both kernels over the frames of a case; primitives and state must agree after each.
fn compare(case: &Case, isa: Isa) -> Result<(), TestCaseError> {
    let mut scalar = Tpg::new(&case.config, &case.table, Isa::Scalar).unwrap();
    let mut vector = Tpg::new(&case.config, &case.table, isa).unwrap();
    let (mut expected, mut got) = (Vec::new(), Vec::with_capacity(MAX_TPS_PER_FRAME));
    for frame in 0..case.frames {
        let block = pack(|t, c| case.signal.adc(case.seed, frame * SAMPLES + t, c));
        let step = u64::from(case.table.ticks_per_sample) * (frame * SAMPLES) as u64;
        let timestamp = case.timestamp.wrapping_add(step);
        expected.clear();
        got.clear();
        scalar.process(&block, timestamp, &mut expected);
        vector.process(&block, timestamp, &mut got);
        prop_assert_eq!(&got, &expected, "primitives of frame {}", frame);
        prop_assert_eq!(vector.state(), scalar.state(), "state after frame {}", frame);
        prop_assert!(got.capacity() == MAX_TPS_PER_FRAME, "room was kept, yet `out` grew");
    }
    Ok(())
}

/// From the published initial pedestal down to the samples, with pulses all the way.
fn compare_convergence(isa: Isa) {
    let case = Case {
        config: ChainConfig::default(),
        table: ChannelTable { threshold: [60; CHANNELS], ..ChannelTable::default() },
        signal: Signal::Pulses { pedestal: 15_500, noise: 8, height: 700 },
        seed: 7,
        timestamp: 107_544_625_968_525_251,
        frames: 300,
    };
    if can_run(isa) {
        compare(&case, isa).unwrap();
    }
}
