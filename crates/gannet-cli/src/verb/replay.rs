//! `gannet replay`: send recorded frames again.

use std::net::SocketAddr;
use std::path::PathBuf;

use gannet_emulate::replay::ReplayPace;
use gannet_offline::replay::{ReplayReport, replay};

use crate::exit::Outcome;
use crate::signals::Signals;
use crate::{Detectors, detector, output, sending};

/// Sends the frames of a packet capture, a DUNE raw file or a Gannet log again.
///
/// They leave at the rate at which they were recorded. From the second pass on, time stamps and
/// sequence numbers are rewritten so that a receiver sees one run. Exit code 3 when the network
/// did not take all frames.
///
/// Example: gannet replay np04hd_run027980.hdf5 --to 127.0.0.1:7000 --rate-scale 0.1
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recording: pcap, pcapng, HDF5 file of trigger records, or glog.
    file: PathBuf,
    /// Address that the frames are sent to.
    #[arg(long, value_name = "ADDR")]
    to: SocketAddr,
    /// Send at this multiple of the recorded rate: 2 takes half the time.
    #[arg(long, value_name = "X", default_value_t = 1.0, conflicts_with = "unpaced")]
    rate_scale: f64,
    /// Send as fast as the network takes the frames.
    #[arg(long)]
    unpaced: bool,
    /// How many times to send the recording; 0 repeats until Ctrl-C.
    #[arg(long, value_name = "N", default_value_t = 1)]
    passes: u64,
    /// Wait until somebody listens at each address before the first frame is sent. Empty datagrams
    /// ask; where a firewall swallows them or their answers, this does not wait.
    #[arg(long)]
    wait: bool,
    /// The detector that the frames are of; the first that the program knows when absent.
    #[arg(long, value_name = "NAME")]
    detector: Option<String>,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

pub fn run(arguments: &Arguments, detectors: Detectors) -> anyhow::Result<Outcome> {
    let signals = Signals::install()?;
    let &Arguments { to, rate_scale, unpaced, passes, .. } = arguments;
    if arguments.wait && !sending::wait_for_listeners(&[to], &signals)? {
        return Ok(signals.received().map_or(Outcome::Ok, Outcome::Interrupted));
    }
    let pace = ReplayPace { rate_scale, unpaced, passes };
    let detector = detector(arguments.detector.as_deref(), detectors)?;
    let running = replay(&arguments.file, |frame| detector.format_of(frame), to, pace)?;
    sending::watch(&running, &signals, None);
    let report = running.join()?;
    if arguments.json {
        output::json(&report)?;
    } else {
        output::text(&table(&report))?;
    }
    if let Some(failure) = report.failure {
        anyhow::bail!("{failure}; what lies before was replayed");
    }
    Ok(match signals.received() {
        Some(signal) => Outcome::Interrupted(signal),
        None if report.unsent > 0 => Outcome::Degraded,
        None => Outcome::Ok,
    })
}

/// The report for people.
fn table(report: &ReplayReport) -> String {
    let counts = &report.counts;
    let sent = counts.datagrams - report.unsent;
    let mut text =
        format!("sent       {sent} frames, {} bytes, pass {}\n", counts.bytes, counts.passes);
    text += &format!("unsent     {} frames\n", report.unsent);
    text += &format!("rewritten  {} frames\n", counts.rewritten);
    text += &format!("skipped    {}\n", report.skipped);
    text += &format!("rate       {:.1} frames/s\n", report.reached_hz);
    text += &format!("lateness   {}\n", sending::lateness(&report.lateness_ns));
    if counts.no_frames > 0 {
        text += &format!("no frames  {} datagrams, sent as they are\n", counts.no_frames);
    }
    if report.refused > 0 {
        text += &format!("refused    {} times: nobody listens there\n", report.refused);
    }
    text
}
