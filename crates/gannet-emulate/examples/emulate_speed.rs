//! Time to make one frame, by content; the sender's own work is not in it.
//!
//! `cargo run --release -p gannet-emulate --example emulate_speed`

use std::hint::black_box;
use std::time::Instant;

use gannet_emulate::config::{Faults, Pattern};
use gannet_emulate::{BURST_FRAMES_MAX, Config, Emulator};
use gannet_wire::ChannelMap;

const STREAMS: usize = 16;
const BURSTS: usize = 6_000;

fn main() {
    let pattern = |rate_hz| Some(Pattern { rate_hz });
    let with = |edit: fn(&mut Config)| {
        let mut config = Config::default();
        config.streams.count = STREAMS;
        edit(&mut config);
        config
    };
    measure("noise, 10 tracks/s, 50 deposits/s", with(|_| ()));
    measure("the same, 1000 tracks/s", with(|config| config.tracks.rate_hz = 1000.0));
    measure("the same, 1 % faults", {
        let mut config = with(|_| ());
        config.faults = Faults { loss: 0.005, bit_flip: 0.005, ..Faults::default() };
        config
    });
    measure("pattern 100 hits/s/channel", Config { pattern: pattern(100.0), ..with(|_| ()) });
    measure("pattern 90,000 hits/s/channel", Config { pattern: pattern(9e4), ..with(|_| ()) });
}

fn measure(name: &str, config: Config) {
    let map = ChannelMap::synthetic(&config.streams.geo_ids()).expect("the default streams");
    let mut emulator = Emulator::new(&config, &map, 0).expect("a valid configuration");
    let start = Instant::now();
    for burst in 0..BURSTS {
        black_box(emulator.next_burst(burst % STREAMS, BURST_FRAMES_MAX).datagrams());
    }
    let ns = start.elapsed().as_nanos() as f64 / (BURSTS * BURST_FRAMES_MAX) as f64;
    let share = ns * 1e-9 * config.streams.format.frames_per_s() * STREAMS as f64;
    println!("{name:<36} {ns:7.1} ns/frame, {:5.1} % of a core at 16 streams", 100.0 * share);
}
