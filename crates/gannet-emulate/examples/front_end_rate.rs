//! How many events of the RICH front ends make in a second on one core, without sending them.
//!
//! `cargo run --release -p gannet-emulate --example front_end_rate`

use std::error::Error;
use std::time::{Duration, Instant};

use gannet_emulate::rich::config::Packets;
use gannet_emulate::{BURST_FRAMES_MAX, Emulator, FrontEnd, rich};
use gannet_wire::na62::PmMap;

const TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    for packets in [Packets::Boards, Packets::Merged] {
        let config = rich::Config { packets, rate_hz: 1e7, ..rich::Config::default() };
        let emulator = config.emulator(&PmMap::numbered())?;
        let per_frame = emulator_events(&config)?;
        measure(&format!("RICH, {packets:?}"), "events", emulator, per_frame);
    }
    Ok(())
}

/// Events of a frame, shared among the streams that carry parts of it.
fn emulator_events(config: &rich::Config) -> Result<f64, Box<dyn Error>> {
    let front_end = rich::RichFrontEnd::new(config, &PmMap::numbered())?;
    Ok(front_end.events_per_s() / front_end.frames_per_s() / front_end.streams().len() as f64)
}

fn measure<F: FrontEnd>(name: &str, what: &str, mut emulator: Emulator<F>, per_frame: f64) {
    let start = Instant::now();
    let (mut frames, mut bytes) = (0u64, 0u64);
    while start.elapsed() < TIME {
        for stream in 0..emulator.streams() {
            let burst = emulator.next_burst(stream, BURST_FRAMES_MAX);
            bytes += burst.datagrams().iter().map(|datagram| datagram.len() as u64).sum::<u64>();
            frames += BURST_FRAMES_MAX as u64;
        }
        emulator.count();
    }
    let seconds = start.elapsed().as_secs_f64();
    let million = frames as f64 * per_frame / seconds * 1e-6;
    let gbit = bytes as f64 * 8e-9 / seconds;
    println!("{name}: {million:.1} million {what}/s, {gbit:.1} Gbit/s");
}
