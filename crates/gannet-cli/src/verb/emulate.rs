//! `gannet emulate`: be the front end.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use gannet_control::config;
use gannet_control::emulation::{Emulation, Target};
use gannet_wire::ChannelMap;

use crate::exit::Outcome;
use crate::output;
use crate::signals::Signals;

/// Sends the frames that the `[emulate]` table of a configuration describes, and prints the truth.
///
/// Example: gannet emulate detector.toml --to 127.0.0.1:7000 --seconds 5
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The configuration file.
    file: PathBuf,
    /// Address that all streams are sent to.
    #[arg(long)]
    to: SocketAddr,
    /// Stop after this time.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
}

pub fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let plan = config::load(&arguments.file)?;
    let config = &plan.config.emulate;
    let streams = config.streams.geo_ids();
    let map = ChannelMap::synthetic(&streams)?;
    let target =
        Target { addresses: vec![arguments.to; streams.len()], frames: None, flow_control: None };
    let emulation = Emulation::start(config, &map, &target, None)?;
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    while Instant::now() < end && !emulation.is_finished() && signals.received().is_none() {
        std::thread::sleep(Duration::from_millis(10));
    }
    emulation.stop();
    let report = emulation.join()?;
    output::json(&report)?;
    Ok(match signals.received() {
        Some(signal) => Outcome::Interrupted(signal),
        None if report.unsent.iter().any(|&unsent| unsent > 0) => Outcome::Degraded,
        None => Outcome::Ok,
    })
}
