//! How many frames a second one core receives without loss.
//!
//! A paced sender and a receiver, a thread each, over loopback UDP. The receiver reads every byte
//! of every frame, as the search for primitives would.

mod receive;
mod send;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gannet_emulate::ConfigError;
use gannet_ingest::udp::{Engine, UdpConfig};
use gannet_wire::channel_map::ChannelMapError;
use gannet_wire::tpc_frame::FRAME_LEN;
use serde::Serialize;

use crate::limits::MemoryLimits;
use crate::search::{Search, Trial};
use crate::sys;

/// Frames of the ring that frames land in.
const RING_FRAMES: u64 = 8192;
/// Rate at which the search begins, in frames per second.
const FIRST_HZ: f64 = 150e3;
/// Lowest rate of a stream that is tried, in frames per second: a trial ends with a burst of each.
const LEAST_STREAM_HZ: f64 = 100.0;
/// Most streams; a burst of each should stay in the cache of the sender's core.
pub const STREAMS_MAX: usize = 512;

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket failed.
    #[error(transparent)]
    Ingest(#[from] gannet_ingest::Error),
    /// The frames to send cannot be made.
    #[error("cannot make the frames to send: {0}")]
    Frames(#[from] ConfigError),
    /// No channel map can be made up for the streams.
    #[error("cannot make the frames to send: {0}")]
    ChannelMap(#[from] ChannelMapError),
    /// More or fewer streams than the experiment can be made with.
    #[error("streams = {0} is out of range; choose 1 to {STREAMS_MAX}")]
    Streams(usize),
    /// Bytes arrived that are not those that were sent.
    #[error(
        "all {frames} frames arrived, but the sum over their bytes differs from the sender's; \
         run it again, and report it if it comes again"
    )]
    Sum {
        /// Frames that were sent and received.
        frames: u64,
    },
    /// A thread ended by a defect.
    #[error("a thread of the experiment ended by a defect; please report it")]
    Defect,
}

/// How the experiment is made.
#[derive(Clone, Debug)]
pub struct IngestConfig {
    /// How datagrams are taken from the kernel.
    pub engine: Engine,
    /// Streams that the rate is shared among, 1 to [`STREAMS_MAX`], all to one socket.
    pub streams: usize,
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
    /// Streams that the rate is shared among.
    pub streams: usize,
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
    /// Rate of arrival from the first frame to the last, in frames per second.
    pub arrived_hz: f64,
    /// Processor time of the receiving thread for a frame.
    pub ns_per_frame: f64,
}

/// Makes the experiment; `progress` hears of every trial.
///
/// # Errors
/// When a socket cannot be had or fails, when there are too many streams, or when other bytes
/// arrive than were sent.
pub fn measure(
    config: &IngestConfig,
    progress: &mut dyn FnMut(&Step),
) -> Result<IngestReport, Error> {
    let cycles_per_s = sys::cycles_per_s();
    if !(1..=STREAMS_MAX).contains(&config.streams) {
        return Err(Error::Streams(config.streams));
    }
    let frames = send::Frames::make(config.streams)?;
    let mut search = Search::new(FIRST_HZ, LEAST_STREAM_HZ * config.streams as f64);
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
        streams: config.streams,
        kernel_buffer_bytes: facts.kernel_buffer.map_or(0, |buffer| buffer.obtained),
        loss_free_frames_per_s: found_hz,
        loss_free_gbit_per_s: gbit_per_s,
        sender_limited: search.sender_limits(),
        ns_per_frame,
        cycles_per_frame: cycles_per_s.map(|rate| ns_per_frame * 1e-9 * rate),
        saturated_frames_per_s: saturated.arrived_hz,
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
    let receive::Received { taken, facts } = receiver.finish()?;
    if sent.datagrams == taken.delivered && sent.sum != taken.sum {
        return Err(Error::Sum { frames: taken.delivered });
    }
    let trial = Trial {
        asked_hz: rate_hz.unwrap_or(sent.reached_hz),
        reached_hz: sent.reached_hz,
        sent: sent.datagrams,
        delivered: taken.delivered,
    };
    let ns_per_frame = taken.cpu.as_nanos() as f64 / taken.delivered.max(1) as f64;
    let arrived_hz = taken.delivered as f64 / taken.span.as_secs_f64().max(1e-9);
    Ok((Step { trial, lost: trial.lost(), arrived_hz, ns_per_frame }, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_can_keep_arrives_whole_by_every_engine() {
        let frames = send::Frames::make(2).unwrap();
        for engine in [Engine::Auto, Engine::Recvmsg, Engine::Recvmmsg, Engine::IoUring] {
            let trial_time = Duration::from_millis(2);
            let config = IngestConfig { engine, streams: 2, trial: trial_time };
            let (step, facts) = trial(&config, &frames, Some(4000.0)).unwrap();
            // At most nine frames of each stream, 130 kB: less than any socket's buffer.
            let sent = step.trial.sent;
            assert!((2..=18).contains(&sent) && sent.is_multiple_of(2), "{step:?}");
            assert_eq!(step.lost, 0, "{step:?}");
            assert!(step.ns_per_frame > 0.0 && facts.address.is_some());
        }
    }

    #[test]
    fn a_number_of_streams_out_of_range_is_refused() {
        for streams in [0, STREAMS_MAX + 1] {
            let config = IngestConfig { engine: Engine::Auto, streams, trial: Duration::ZERO };
            let refused = measure(&config, &mut |_| ()).unwrap_err().to_string();
            assert!(refused.ends_with("choose 1 to 512"), "{refused}");
        }
    }

    #[test]
    fn the_cost_is_that_of_the_fastest_good_trials() {
        let step = |reached_hz: f64, lost: u64, ns_per_frame: f64| Step {
            trial: Trial { asked_hz: reached_hz, reached_hz, sent: 10, delivered: 10 - lost },
            lost,
            arrived_hz: reached_hz,
            ns_per_frame,
        };
        let steps = [step(1e5, 0, 3000.0), step(5e5, 0, 1500.0), step(5e5, 2, 9000.0)];
        assert_eq!(cost_at(&steps, 5e5), 1500.0);
    }
}
