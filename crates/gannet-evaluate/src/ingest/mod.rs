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
use gannet_memory::RegionError;
use gannet_wire::channel_map::ChannelMapError;
use gannet_wire::tpc_frame::FRAME_LEN;
use serde::Serialize;

use crate::limits::MemoryLimits;
use crate::search::{Limit, Search, Seen, Stage};
use crate::sys;

/// Frames of the ring that frames land in.
const RING_FRAMES: u64 = 8192;
/// Rate at which the search begins, in frames per second.
const FIRST_HZ: f64 = 150e3;
/// Trials that confirm a rate last longer than others by this factor.
const CONFIRM_FACTOR: u32 = 2;
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
    /// The memory to compare with cannot be had.
    #[error(transparent)]
    Memory(#[from] RegionError),
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
    /// A thread stopped on an internal error.
    #[error("a thread of the experiment stopped on an internal error; please report it")]
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
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Step {
    /// What it was for.
    pub stage: Stage,
    /// Rate asked for, in frames per second; none when the sender did not pace itself.
    pub asked_hz: Option<f64>,
    /// Rate at which the sender sent, in frames per second.
    pub reached_hz: f64,
    /// Frames that the network took.
    pub sent: u64,
    /// Frames that were received.
    pub delivered: u64,
    /// Frames that were sent and not received.
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
    if !(1..=STREAMS_MAX).contains(&config.streams) {
        return Err(Error::Streams(config.streams));
    }
    let frames = send::Frames::make(config.streams)?;
    let cycles_per_s = sys::cycles_per_s();
    let limits = MemoryLimits::measure(FRAME_LEN, RING_FRAMES as usize)?;
    let mut steps = Vec::new();
    let mut trial = |stage, rate_hz| {
        let (step, facts) = trial(config, &frames, stage, rate_hz)?;
        progress(&step);
        steps.push(step);
        Ok::<_, Error>((step, facts))
    };
    let (saturated, facts) = trial(Stage::Saturate, None)?;
    let least_hz = LEAST_STREAM_HZ * config.streams as f64;
    let mut search = Search::new(FIRST_HZ, least_hz);
    while let Some(ask) = search.next() {
        let (step, _) = trial(ask.stage, Some(ask.rate_hz))?;
        search.observe(Seen { reached_hz: step.reached_hz, lost: step.lost });
    }
    let (found_hz, ns_per_frame) = search.found_hz().map_or((0.0, 0.0), |hz| confirmed(&steps, hz));
    let gbit_per_s = found_hz * FRAME_LEN as f64 * 8e-9;
    Ok(IngestReport {
        engine: facts.engine,
        frame_bytes: FRAME_LEN,
        streams: config.streams,
        kernel_buffer_bytes: facts.kernel_buffer.map_or(0, |buffer| buffer.obtained),
        loss_free_frames_per_s: found_hz,
        loss_free_gbit_per_s: gbit_per_s,
        sender_limited: search.limit() == Limit::Sender,
        ns_per_frame,
        cycles_per_frame: cycles_per_s.map(|rate| ns_per_frame * 1e-9 * rate),
        saturated_frames_per_s: saturated.arrived_hz,
        saturated_loss: saturated.lost as f64 / saturated.sent.max(1) as f64,
        copy_limit_gbit_per_s: limits.copy_gbit_per_s,
        read_limit_gbit_per_s: limits.read_gbit_per_s,
        ratio: gbit_per_s / limits.copy_gbit_per_s,
        steps,
    })
}

/// Rate and cost of a frame, in frames per second and ns, in the trials without loss that
/// confirmed the rate `asked_hz`.
fn confirmed(steps: &[Step], asked_hz: f64) -> (f64, f64) {
    let of_rate = |step: &&Step| {
        step.stage == Stage::Confirm && step.asked_hz == Some(asked_hz) && step.lost == 0
    };
    let (mut count, mut rate_hz, mut cost_ns) = (0.0, 0.0, 0.0);
    for step in steps.iter().filter(of_rate) {
        count += 1.0;
        rate_hz += step.reached_hz;
        cost_ns += step.ns_per_frame;
    }
    (rate_hz / count, cost_ns / count)
}

/// Sends for a while at `rate_hz`, or as fast as possible, and counts what comes.
fn trial(
    config: &IngestConfig,
    frames: &send::Frames,
    stage: Stage,
    rate_hz: Option<f64>,
) -> Result<(Step, gannet_ingest::Facts), Error> {
    let udp = UdpConfig {
        listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
        engine: config.engine,
        ..UdpConfig::default()
    };
    let receiver = receive::Receiving::start(&udp, RING_FRAMES)?;
    let factor = if stage == Stage::Confirm { CONFIRM_FACTOR } else { 1 };
    let sent = frames.send(receiver.address(), rate_hz, factor * config.trial)?;
    let receive::Received { taken, facts } = receiver.finish()?;
    if sent.datagrams == taken.delivered && sent.sum != taken.sum {
        return Err(Error::Sum { frames: taken.delivered });
    }
    let step = Step {
        stage,
        asked_hz: rate_hz,
        reached_hz: sent.reached_hz,
        sent: sent.datagrams,
        delivered: taken.delivered,
        lost: sent.datagrams.saturating_sub(taken.delivered),
        arrived_hz: taken.delivered as f64 / taken.span.as_secs_f64().max(1e-9),
        ns_per_frame: taken.cpu.as_nanos() as f64 / taken.delivered.max(1) as f64,
    };
    Ok((step, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_can_keep_arrives_whole_by_every_engine() {
        let frames = send::Frames::make(2).unwrap();
        for engine in [Engine::Auto, Engine::Recvmsg, Engine::Recvmmsg] {
            let trial_time = Duration::from_millis(2);
            let config = IngestConfig { engine, streams: 2, trial: trial_time };
            let (step, facts) = trial(&config, &frames, Stage::Climb, Some(4000.0)).unwrap();
            // At most nine frames of each stream, 130 kB: less than any socket's buffer.
            let sent = step.sent;
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
    fn rate_and_cost_are_those_of_the_trials_that_confirmed_the_rate() {
        let step = |stage, asked_hz: f64, lost, ns_per_frame| Step {
            stage,
            asked_hz: Some(asked_hz),
            reached_hz: 0.99 * asked_hz,
            sent: 10,
            delivered: 10 - lost,
            lost,
            arrived_hz: asked_hz,
            ns_per_frame,
        };
        let steps = [
            step(Stage::Climb, 1e5, 0, 3000.0),
            step(Stage::Confirm, 2e5, 0, 8000.0),
            step(Stage::Confirm, 1e5, 2, 9000.0),
            step(Stage::Confirm, 1e5, 0, 1400.0),
            step(Stage::Confirm, 1e5, 0, 1600.0),
        ];
        assert_eq!(confirmed(&steps, 1e5), (99e3, 1500.0));
    }

    #[test]
    fn a_small_experiment_closes_the_account_of_every_trial() {
        let trial = Duration::from_millis(5);
        let config = IngestConfig { engine: Engine::Auto, streams: 2, trial };
        let mut told = Vec::new();
        let report = measure(&config, &mut |step| told.push(*step)).unwrap();
        assert_eq!(told, report.steps);
        assert_eq!(report.steps[0].stage, Stage::Saturate);
        assert!(report.steps.iter().all(|step| step.sent == step.delivered + step.lost));
        assert!(report.copy_limit_gbit_per_s > 0.0 && report.read_limit_gbit_per_s > 0.0);
        // On a busy machine every rate may lose.
        if report.loss_free_frames_per_s > 0.0 {
            let last = report.steps.last().unwrap();
            assert_eq!((last.stage, last.lost), (Stage::Confirm, 0));
            assert!(report.ns_per_frame > 0.0 && report.ratio > 0.0);
        }
    }
}
