//! Speed of the chain on one core: `tpg_speed [ISA] [CHAIN] [RATE_HZ] [MIB] [PASSES]`.
//!
//! ISA is scalar, avx2, avx512 or best; CHAIN is threshold, rs or absrs; RATE_HZ is the rate of
//! hits per channel; MIB the size of the working set. Gbit/s counts whole frames of 7200 bytes.
//! The time to read the same blocks, one byte of each cache line, stands beside it as the limit.

use std::hint::black_box;
use std::time::Instant;

use gannet_kernels::block::Block;
use gannet_kernels::{
    BLOCK_LEN, ChainConfig, ChannelTable, Error, Isa, MAX_TPS_PER_FRAME, SAMPLES, Tpg, Transform,
    block,
};

const FRAME_LEN: usize = 7200;
const DISTINCT: usize = 3200;
const SAMPLE_HZ: f64 = 1_953_125.0;
const PEDESTAL: u16 = 900;

/// A small generator of random numbers (SplitMix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Mean 0, standard deviation about 4: the sum of twelve uniform numbers.
    fn noise(&mut self) -> i32 {
        let bits = self.next();
        let sum: u64 = (0..12).map(|i| bits >> (5 * i) & 15).sum();
        ((sum as f64 - 90.0) * 4.0 / 16.0).round() as i32
    }
}

/// Blocks of noise with hits 10 samples long, of 200 to 1000 counts.
fn blocks(rate_hz: f64) -> Vec<Box<Block>> {
    let mut random = Random(1);
    let start = (rate_hz / SAMPLE_HZ * u32::MAX as f64) as u64;
    let mut left = [0u32; 64];
    let mut height = [0i32; 64];
    (0..DISTINCT)
        .map(|_| {
            let mut adc = vec![[0u16; 64]; SAMPLES];
            for row in &mut adc {
                for (c, value) in row.iter_mut().enumerate() {
                    if left[c] == 0 && random.next() >> 32 < start {
                        left[c] = 10;
                        height[c] = 200 + (random.next() % 800) as i32;
                    }
                    let pulse = if left[c] > 0 { height[c] } else { 0 };
                    left[c] = left[c].saturating_sub(1);
                    *value = (i32::from(PEDESTAL) + random.noise() + pulse) as u16;
                }
            }
            block::pack(|t, c| adc[t][c])
        })
        .collect()
}

fn gbit_per_s(frames: usize, seconds: f64) -> f64 {
    (frames * FRAME_LEN * 8) as f64 / seconds / 1e9
}

/// Seconds of the fastest of `passes` runs.
fn fastest(passes: usize, mut run: impl FnMut()) -> f64 {
    let time = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed().as_secs_f64()
    };
    (0..passes).map(|_| time(&mut run)).fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |i: usize, default: &str| {
        arguments.get(i).map_or(default.to_owned(), |argument| argument.clone())
    };
    let number = |i: usize, default: f64| argument(i, "").parse().unwrap_or(default);
    let isa = match argument(0, "best").as_str() {
        "best" => Isa::best(),
        name => name.parse()?,
    };
    let chain = argument(1, "threshold");
    let transform = match chain.as_str() {
        "rs" => Some(Transform::RunningSum { absolute: false }),
        "fabs" => Some(Transform::FeedbackSum { absolute: true }),
        "fir" => Some(Transform::Fir),
        "absrs" => Some(Transform::RunningSum { absolute: true }),
        _ => None,
    };
    let (rate_hz, mib) = (number(2, 100.0), number(3, 512.0));
    let passes = number(4, 5.0) as usize;

    let distinct = blocks(rate_hz);
    let count = ((mib * 1048576.0) as usize / FRAME_LEN).max(1);
    let mut memory = vec![0; count * FRAME_LEN];
    for (frame, block) in
        memory.as_chunks_mut::<FRAME_LEN>().0.iter_mut().zip(distinct.iter().cycle())
    {
        frame[32..].copy_from_slice(&block[..]);
    }
    let frames = memory.as_chunks::<FRAME_LEN>().0;

    let config = ChainConfig { initial_pedestal: PEDESTAL as i16, transform, ..Default::default() };
    let table = ChannelTable { threshold: [60; 64], ..Default::default() };
    let mut tpg = Tpg::new(&config, &table, isa)?;
    tpg.set_path(match argument(5, "adaptive").as_str() {
        "sparse" => gannet_kernels::Path::Sparse,
        "dense" => gannet_kernels::Path::Dense,
        _ => gannet_kernels::Path::Adaptive,
    });
    let mut tps = Vec::with_capacity(2 * MAX_TPS_PER_FRAME);
    let mut tp_count = 0;
    let seconds = fastest(passes, || {
        tp_count = 0;
        for (i, frame) in frames.iter().enumerate() {
            let Some(block) = frame.last_chunk::<BLOCK_LEN>() else { continue };
            tps.clear();
            tpg.process(block, 2048 * i as u64, &mut tps);
            tp_count += tps.len();
        }
    });
    let read = fastest(passes, || {
        let lines = memory.as_chunks::<64>().0;
        black_box(lines.iter().fold(0u64, |sum, line| sum.wrapping_add(u64::from(line[0]))));
    });
    println!(
        "{isa} {chain} {rate_hz} Hz {mib} MiB: {:.1} Gbit/s, {:.0} ns/frame, {:.3} TP/frame; \
         reading alone {:.0} Gbit/s",
        gbit_per_s(count, seconds),
        seconds / count as f64 * 1e9,
        tp_count as f64 / count as f64,
        gbit_per_s(count, read),
    );
    Ok(())
}
