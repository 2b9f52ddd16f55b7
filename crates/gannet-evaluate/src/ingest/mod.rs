//! How many frames a second one core receives without loss.
//!
//! A paced sender and a receiver, a thread each, over loopback UDP. The receiver reads every byte
//! of every frame, as the search for primitives would.

mod receive;
mod send;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gannet_ingest::udp::{Engine, UdpConfig};
use gannet_wire::tpc_frame::FRAME_LEN;
use serde::Serialize;

use crate::limits::MemoryLimits;
use crate::search::{Search, Trial};
use crate::sys;

/// Frames of the ring that frames land in.
const RING_FRAMES: u64 = 8192;
/// Rate at which the search begins, in frames per second.
const FIRST_HZ: f64 = 150e3;

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket failed.
    #[error(transparent)]
    Ingest(#[from] gannet_ingest::Error),
    /// A thread ended by a defect.
    #[error("a thread of the experiment ended by a defect; please report it")]
    Defect,
}

/// How the experiment is made.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// How datagrams are taken from the kernel.
    pub engine: Engine,
    /// Length of one trial.
    pub trial: Duration,
}

/// What the experiment found.
#[derive(Clone, Debug, Serialize)]
pub struct IngestReport {
    /// How datagrams were taken from the kernel.
    pub engine: &'static str,
    /// Length of a frame.
    pub frame_bytes: usize,
    /// Kernel memory of the socket, in bytes.
    pub kernel_buffer_bytes: u64,
    /// Highest rate without loss.
    pub loss_free_frames_per_s: f64,
    /// The same in Gbit/s of frames.
    pub loss_free_gbit_per_s: f64,
    /// Whether that rate was all that the sender could do.
    pub sender_limited: bool,
    /// Processor time of the receiving thread for a frame at that rate.
    pub ns_per_frame: f64,
    /// The same in ticks of the processor's cycle counter, where it can be read.
    pub cycles_per_frame: Option<f64>,
    /// Rate received when the sender goes as fast as it can, frames lost on the way or not.
    pub saturated_frames_per_s: f64,
    /// Part of those frames that was lost.
    pub saturated_loss: f64,
    /// Copying frames of the same length into a ring of the same size.
    pub copy_limit_gbit_per_s: f64,
    /// Reading memory.
    pub read_limit_gbit_per_s: f64,
    /// Rate without loss over the copy limit.
    pub ratio: f64,
    /// Every trial.
    pub steps: Vec<Step>,
}

/// One trial.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Step {
    /// Rates and counts.
    #[serde(flatten)]
    pub trial: Trial,
    /// Frames that were lost.
    pub lost: u64,
    /// Processor time of the receiving thread for a frame.
    pub ns_per_frame: f64,
}

/// Makes the experiment; `progress` hears of every trial.
///
/// # Errors
/// When a socket cannot be had or fails.
pub fn measure(
    config: &IngestConfig,
    progress: &mut dyn FnMut(&Step),
) -> Result<IngestReport, Error> {
    let cycles_per_s = sys::cycles_per_s();
    let frames = send::Frames::make();
    let mut search = Search::new(FIRST_HZ);
    let mut steps = Vec::new();
    let mut facts = None;
    while let Some(rate_hz) = search.next_hz() {
        let (step, seen) = trial(config, &frames, Some(rate_hz))?;
        facts = Some(seen);
        search.note(step.trial);
        progress(&step);
        steps.push(step);
    }
    let (saturated, _) = trial(config, &frames, None)?;
    progress(&saturated);
    let limits = MemoryLimits::measure(FRAME_LEN, RING_FRAMES as usize);
    let facts = facts.ok_or(Error::Defect)?;
    let found_hz = search.found_hz();
    let gbit_per_s = found_hz * FRAME_LEN as f64 * 8e-9;
    let ns_per_frame = cost_at(&steps, found_hz);
    Ok(IngestReport {
        engine: facts.engine,
        frame_bytes: FRAME_LEN,
        kernel_buffer_bytes: facts.kernel_buffer.map_or(0, |buffer| buffer.obtained),
        loss_free_frames_per_s: found_hz,
        loss_free_gbit_per_s: gbit_per_s,
        sender_limited: search.sender_limits(),
        ns_per_frame,
        cycles_per_frame: cycles_per_s.map(|rate| ns_per_frame * 1e-9 * rate),
        saturated_frames_per_s: saturated.trial.delivered as f64 / config.trial.as_secs_f64(),
        saturated_loss: saturated.lost as f64 / saturated.trial.sent.max(1) as f64,
        copy_limit_gbit_per_s: limits.copy_gbit_per_s,
        read_limit_gbit_per_s: limits.read_gbit_per_s,
        ratio: gbit_per_s / limits.copy_gbit_per_s,
        steps,
    })
}

/// What a frame cost the receiver in the trials without loss that were fastest.
fn cost_at(steps: &[Step], rate_hz: f64) -> f64 {
    let near = |step: &&Step| step.lost == 0 && step.trial.reached_hz >= 0.95 * rate_hz;
    let costs: Vec<f64> = steps.iter().filter(near).map(|step| step.ns_per_frame).collect();
    costs.iter().sum::<f64>() / costs.len().max(1) as f64
}

/// Sends for a while at `rate_hz`, or as fast as possible, and counts what comes.
fn trial(
    config: &IngestConfig,
    frames: &send::Frames,
    rate_hz: Option<f64>,
) -> Result<(Step, gannet_ingest::Facts), Error> {
    let udp = UdpConfig {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        engine: config.engine,
        ..UdpConfig::default()
    };
    let receiver = receive::Receiving::start(&udp, RING_FRAMES)?;
    let sent = frames.send(receiver.address(), rate_hz, config.trial)?;
    let received = receiver.finish()?;
    let trial = Trial {
        asked_hz: rate_hz.unwrap_or(sent.reached_hz),
        reached_hz: sent.reached_hz,
        sent: sent.datagrams,
        delivered: received.delivered,
    };
    let ns_per_frame = received.cpu.as_nanos() as f64 / received.delivered.max(1) as f64;
    Ok((Step { trial, lost: trial.lost(), ns_per_frame }, received.facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_trial_delivers_what_was_sent_and_a_report_can_be_made() {
        let config = IngestConfig { engine: Engine::Auto, trial: Duration::from_millis(50) };
        let (step, facts) = trial(&config, &send::Frames::make(), Some(2000.0)).unwrap();
        assert!(step.trial.sent > 0);
        assert_eq!(step.lost, 0, "{step:?}");
        assert!(step.ns_per_frame > 0.0 && facts.address.is_some());
    }

    #[test]
    fn the_cost_is_that_of_the_fastest_good_trials() {
        let step = |reached_hz: f64, lost: u64, ns_per_frame: f64| Step {
            trial: Trial { asked_hz: reached_hz, reached_hz, sent: 10, delivered: 10 - lost },
            lost,
            ns_per_frame,
        };
        let steps = [step(1e5, 0, 3000.0), step(5e5, 0, 1500.0), step(5e5, 2, 9000.0)];
        assert_eq!(cost_at(&steps, 5e5), 1500.0);
    }
}
