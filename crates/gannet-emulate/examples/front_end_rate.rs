//! How many events of the RICH, and hits of optical modules, front ends make in a second on one
//! core, without sending them.
//!
//! `cargo run --release -p gannet-emulate --example front_end_rate`

use std::error::Error;
use std::time::{Duration, Instant};

use gannet_emulate::rich::config::Packets;
use gannet_emulate::{BURST_FRAMES_MAX, Emulator, FrontEnd, km3, rich};
use gannet_wire::km3net::{DetectorFile, SLICE_NS};
use gannet_wire::na62::PmMap;

const DRAWN: u64 = 200_000;
const TIME: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn Error>> {
    let generator = rich::Generator::new(&rich::config::Content::default(), &PmMap::numbered(), 0);
    let start = Instant::now();
    let hits: usize = (0..DRAWN).map(|number| generator.event(number).hits.len()).sum();
    let us = start.elapsed().as_secs_f64() * 1e6 / DRAWN as f64;
    println!("RICH: {us:.1} us to draw an event, {:.1} hits", hits as f64 / DRAWN as f64);
    for packets in [Packets::Boards, Packets::Merged] {
        let config = rich::Config { packets, rate_hz: 1e7, ..rich::Config::default() };
        let front_end = rich::RichFrontEnd::new(&config, &PmMap::numbered())?;
        let streams = front_end.streams().len() as f64;
        let per_frame = front_end.events_per_s() / front_end.frames_per_s() / streams;
        let emulator = config.emulator(&PmMap::numbered())?;
        measure(&format!("RICH, {packets:?}"), "events", emulator, per_frame);
    }
    let config = km3::Config::default();
    let detector = DetectorFile::lattice(&config.lattice);
    let modules = detector.modules().len();
    let mut front_end = km3::Km3FrontEnd::new(&config, &detector, 0)?;
    let hits: u32 = (0..modules).flat_map(|module| front_end.counts(module, 0)).sum();
    let hits_per_s = f64::from(hits) / (SLICE_NS as f64 * 1e-9);
    println!("{modules} optical modules have {:.1} million hits/s", hits_per_s * 1e-6);
    let per_frame = hits_per_s / front_end.frames_per_s() / modules as f64;
    measure("optical modules", "hits", config.emulator(&detector, 0)?, per_frame);
    Ok(())
}

/// Prints how many events or hits, of which a frame has so many, `emulator` makes in a second.
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
