//! How many primitives a second the trigger chain takes on one core.
//!
//! ```text
//! cargo run --release -p gannet-trigger --example trigger_rate
//! ```
//!
//! 16 streams of 64 channels give random hits at a total rate; each rate runs with the default
//! algorithm alone and with five side by side. What comes out is remembered, as a run does to cut
//! windows out of it. The load is the time that all of it takes for a second of data, so the rate it
//! could sustain is the rate of primitives over the load.

use std::time::Instant;

use gannet_measure::random::Random;
use gannet_trigger::activity::{
    ActivityConfig, AdcSimpleWindow, ChannelAdjacency, ChannelDistance, HorizontalMuon, Prescale,
};
use gannet_trigger::recent::{RECENT_PRIMITIVES, Recent};
use gannet_trigger::sampling::Sampling;
use gannet_trigger::{TriggerChain, TriggerConfig, TriggerOutput};
use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_primitive::Repr;

const STREAMS: u64 = 16;
const CHANNELS: u64 = 64;
const TICKS_PER_FRAME: u64 = 2048;
const FRAMES_PER_SECOND: f64 = 62.5e6 / TICKS_PER_FRAME as f64;
const START: u64 = 107_544_625_968_525_251;

/// Hits of one stream in one frame, at `tps_per_frame` on average.
fn hits(random: &mut Random, stream: u64, frame: u64, tps_per_frame: f64) -> Vec<TriggerPrimitive> {
    let whole = tps_per_frame as u64 + u64::from(random.chance(tps_per_frame.fract()));
    let hit = |_| {
        TriggerPrimitive::new(Repr {
            channel: (stream * CHANNELS + random.below(CHANNELS)) as u32,
            detid: 3,
            flag: 0,
            time_start: START + frame * TICKS_PER_FRAME + random.below(TICKS_PER_FRAME - 320),
            samples_over_threshold: 10,
            samples_to_peak: 4,
            adc_integral: 500,
            adc_peak: 100,
        })
    };
    (0..whole).map(hit).collect()
}

/// Runs `frames` frames of each stream; gives primitives taken and seconds spent.
fn measure(config: &TriggerConfig, tps_per_second: f64, frames: u64) -> (usize, f64) {
    let mut random = Random::new(1);
    let tps_per_frame = tps_per_second / FRAMES_PER_SECOND / STREAMS as f64;
    let turns: Vec<Vec<_>> = (0..frames)
        .map(|frame| (0..STREAMS).map(|s| hits(&mut random, s, frame, tps_per_frame)).collect())
        .collect();
    let mut chain =
        TriggerChain::new(config, STREAMS as usize, 1, Sampling::default()).expect("valid");
    let (mut out, mut taken) = (TriggerOutput::default(), 0);
    let (mut primitives, mut activities) =
        (Recent::new(RECENT_PRIMITIVES), Recent::new(RECENT_PRIMITIVES));
    let begin = Instant::now();
    for (turn, frame) in turns.iter().zip(1..) {
        for (tps, stream) in turn.iter().zip(0..) {
            chain.push(stream, tps, START + frame * TICKS_PER_FRAME, 0, &mut out);
        }
        chain.advance(0, &mut out);
        taken += out.primitives.ordered.len();
        primitives.extend(&out.primitives.ordered);
        out.activities.drain(..).for_each(|activity| activities.push(activity));
        std::hint::black_box(chain.complete_to());
        chain.records_done(out.decided.decisions.len(), &mut out);
        out.clear();
    }
    (taken, begin.elapsed().as_secs_f64())
}

fn main() {
    let five = TriggerConfig {
        activity: vec![
            ActivityConfig::Prescale(Prescale { prescale: 1000, ..Prescale::default() }),
            ActivityConfig::AdcSimpleWindow(AdcSimpleWindow::default()),
            ActivityConfig::HorizontalMuon(HorizontalMuon::default()),
            ActivityConfig::ChannelAdjacency(ChannelAdjacency::default()),
            ActivityConfig::ChannelDistance(ChannelDistance::default()),
        ],
        ..TriggerConfig::default()
    };
    println!("{:>12} {:>12} {:>10} {:>8}", "TP/s", "algorithms", "ns/TP", "load");
    for rate in [102_400.0, 500_000.0, 2_000_000.0, 8_000_000.0] {
        for config in [&TriggerConfig::default(), &five] {
            let frames = (1e6 / rate * FRAMES_PER_SECOND) as u64;
            let (taken, seconds) = measure(config, rate, frames);
            let ns = seconds * 1e9 / taken as f64;
            let load = 100.0 * seconds / (frames as f64 / FRAMES_PER_SECOND);
            println!("{rate:>12.0} {:>12} {ns:>10.0} {load:>7.2}%", config.activity.len());
        }
    }
}
