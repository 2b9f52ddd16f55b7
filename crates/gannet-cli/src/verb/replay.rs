//! `gannet replay`: send recorded frames again.

use std::net::SocketAddr;
use std::path::PathBuf;

use gannet_control::config;
use gannet_control::detector::Detector;
use gannet_control::emulation::{Receiver, stream_receivers};
use gannet_emulate::replay::ReplayPace;
use gannet_offline::replay::{ReplayReport, Takers, replay};

use crate::exit::{Outcome, Usage};
use crate::signals::Signals;
use crate::{Detectors, detector, output, sending};

/// Sends the frames of a packet capture, a DUNE raw file or a Gannet log again.
///
/// All go to one address, or each to the source of a configuration that expects its stream: as that source takes
/// frames: as datagrams, by RDMA WRITEs (`roce`), or by shared memory, UDP or libfabric (`fabric`). They leave at the rate at which they were recorded. From the second
/// pass on, time stamps and sequence numbers are rewritten so that a receiver sees one run. Exit code 3 when not
/// all frames left, also after a signal: they were not accepted, or no source expects them.
///
/// Example: gannet replay np04hd_run027980.hdf5 --to 127.0.0.1:7000 --rate-scale 0.1
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The recording: pcap, pcapng, HDF5 file of trigger records, or glog.
    file: PathBuf,
    /// Address that the frames are sent to.
    #[arg(long, value_name = "ADDR", required_unless_present = "config")]
    to: Option<SocketAddr>,
    /// Send the frames to the sources of this configuration.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "detector"])]
    config: Option<PathBuf>,
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
    let &Arguments { rate_scale, unpaced, passes, .. } = arguments;
    let (takers, detector) = takers(arguments, detectors)?;
    if arguments.wait && !sending::wait_for_listeners(&receivers(&takers), &signals)? {
        return Ok(signals.received().map_or(Outcome::Ok, Outcome::Interrupted));
    }
    let pace = ReplayPace { rate_scale, unpaced, passes };
    let running = replay(&arguments.file, |frame| detector.format_of(frame), takers, pace)?;
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
    Ok(sending::outcome(report.unsent + report.untaken > 0, &signals))
}

/// Who takes the frames, and the detector that they are of.
fn takers(
    arguments: &Arguments,
    detectors: Detectors,
) -> anyhow::Result<(Takers, &'static dyn Detector)> {
    match (&arguments.config, arguments.to) {
        (Some(file), _) => {
            let (plan, detector) = config::load_with_detector(file, detectors)?;
            Ok((Takers::Streams(stream_receivers(&plan)?), detector))
        }
        (None, Some(to)) => {
            Ok((Takers::One(to.into()), detector(arguments.detector.as_deref(), detectors)?))
        }
        (None, None) => {
            Err(Usage("name an address with --to, or a configuration with --config".into()).into())
        }
    }
}

fn receivers(takers: &Takers) -> Vec<Receiver> {
    match takers {
        Takers::One(receiver) => vec![receiver.clone()],
        Takers::Streams(streams) => streams.values().cloned().collect(),
    }
}

/// The report for people.
fn table(report: &ReplayReport) -> String {
    let counts = &report.counts;
    let sent = counts.datagrams - report.unsent - report.untaken;
    let mut text =
        format!("sent       {sent} frames, {} bytes, pass {}\n", counts.bytes, counts.passes);
    text += &format!("unsent     {} frames\n", report.unsent);
    if report.untaken > 0 {
        text += &format!("untaken    {} frames that no source expects\n", report.untaken);
    }
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
