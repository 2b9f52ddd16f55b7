//! How many frames a second a core receives without loss, and what a frame costs it.
//!
//! A paced sender and a receiver for each socket, a thread each, over loopback UDP. The receiver
//! reads every byte of every frame, as the search for primitives would. Each thread stays on a core
//! of its own where the machine has so many: left alone, the system puts a receiver beside the
//! sender that wakes it.
//!
//! Three figures tell what the result is worth: what the sender can hold without a receiver, how
//! long each thread had no core, and what a bare loop takes for a frame.

mod bare;
mod floor;
mod receive;
mod send;
mod verdict;

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use gannet_emulate::ConfigError;
use gannet_ingest::Facts;
use gannet_ingest::udp::{Engine, UdpConfig};
use gannet_memory::RegionError;
use gannet_wire::channel_map::ChannelMapError;
use gannet_wire::tpc_frame::FRAME_LEN;
use serde::Serialize;

use self::receive::{Receiving, Take, Taken};
use self::send::{Frames, Sent};
use crate::cores::Cores;
use crate::limits::MemoryLimits;
use crate::search::{REACHED_MIN, Search, Seen, Stage};
use crate::sys;

pub use self::floor::{Cost, Floor};
pub use self::verdict::LimitedBy;

/// Frames of the ring that frames land in.
const RING_FRAMES: u64 = 8192;
/// Rate at which the search begins, in frames per second.
const FIRST_HZ: f64 = 150e3;
/// Trials that confirm a rate last longer than others by this factor.
const CONFIRM_FACTOR: u32 = 2;
/// Trials that may be made again because a thread had no core.
const REPEATS_MAX: usize = 12;
/// Lowest rate of a stream that is tried, in frames per second: a trial ends with a burst of each.
const LEAST_STREAM_HZ: f64 = 100.0;
/// Most streams; a burst of each should stay in the cache of the sender's core.
pub const STREAMS_MAX: usize = 512;
/// Most sockets.
pub const SOCKETS_MAX: usize = 64;

/// Why the experiment cannot be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A socket failed.
    #[error(transparent)]
    Ingest(#[from] gannet_ingest::Error),
    /// A socket of a bare loop failed.
    #[error("a socket to compare with failed: {0}")]
    Bare(#[source] io::Error),
    /// The memory to compare with cannot be had.
    #[error(transparent)]
    Memory(#[from] RegionError),
    /// The frames to send cannot be made.
    #[error("cannot make the frames to send: {0}")]
    Frames(#[from] ConfigError),
    /// No channel map can be made up for the streams.
    #[error("cannot make the frames to send: {0}")]
    ChannelMap(#[from] ChannelMapError),
    /// More or fewer streams or sockets than the experiment can be made with.
    #[error("{what} = {got} is out of range; choose 1 to {most}")]
    OutOfRange {
        /// What there are so many of.
        what: &'static str,
        /// The number.
        got: usize,
        /// The greatest that is allowed.
        most: usize,
    },
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
    /// Streams that the rate is shared among, 1 to [`STREAMS_MAX`].
    pub streams: usize,
    /// Sockets of the address that they are sent to, 1 to [`SOCKETS_MAX`], each with a thread of
    /// its own. With several, each stream has a sender of its own.
    pub sockets: usize,
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
    /// Sockets, each with a thread of its own.
    pub sockets: usize,
    /// Whether the sender and each receiver had a core of their own to stay on.
    pub pinned: bool,
    /// Kernel memory of a socket, in bytes.
    pub kernel_buffer_bytes: u64,
    /// Highest rate without loss.
    pub loss_free_frames_per_s: f64,
    /// The same in Gbit/s of frames.
    pub loss_free_gbit_per_s: f64,
    /// What there is no higher rate for.
    pub limited_by: LimitedBy,
    /// Whether that is the sender.
    pub sender_limited: bool,
    /// What the sender can do alone, to a socket that nobody reads, in frames per second.
    pub sender_alone_frames_per_s: f64,
    /// Processor time of the receiving threads for a frame at that rate.
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
    /// Frames that each socket received in the last trial.
    pub socket_frames: Vec<u64>,
    /// The cost of a frame beside that of bare loops; none if frames were lost at every rate.
    pub floor: Option<Floor>,
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
    /// Processor time of the receiving threads for a frame.
    pub ns_per_frame: f64,
    /// Part of the time that the sender wanted a core for which it had one.
    pub sender_running_share: f64,
    /// Part of the time for which the receiver could have gone on but had no core; that of the one
    /// with most of it.
    pub receiver_waited_share: f64,
    /// Whether the search takes it in. A trial that fails for want of a core is made again, a few
    /// times at most.
    pub counts: bool,
}

impl Step {
    /// Whether the sender fell short of the rate asked for.
    fn is_short(&self) -> bool {
        self.asked_hz.is_some_and(|asked_hz| self.reached_hz < REACHED_MIN * asked_hz)
    }
}

/// Makes the experiment; `progress` hears of every trial.
///
/// # Errors
/// When a socket cannot be had or fails, when there are too many streams or sockets, or when other
/// bytes arrive than were sent.
pub fn measure(
    config: &IngestConfig,
    progress: &mut dyn FnMut(&Step),
) -> Result<IngestReport, Error> {
    for (what, got, most) in
        [("streams", config.streams, STREAMS_MAX), ("sockets", config.sockets, SOCKETS_MAX)]
    {
        if !(1..=most).contains(&got) {
            return Err(Error::OutOfRange { what, got, most });
        }
    }
    let setup = Setup::new(config)?;
    let cycles_per_s = sys::cycles_per_s();
    let limits = MemoryLimits::measure(FRAME_LEN, RING_FRAMES as usize)?;
    let alone_hz = setup.sender_alone_hz()?;
    let (mut steps, mut repeats) = (Vec::new(), 0);
    let mut trial = |stage, rate_hz| loop {
        let (mut step, told) = setup.trial(stage, rate_hz)?;
        step.counts = repeats == REPEATS_MAX || !verdict::is_disturbed(&step);
        progress(&step);
        steps.push(step);
        if step.counts {
            return Ok::<_, Error>((step, told));
        }
        repeats += 1;
    };
    let (saturated, Told { facts, mut socket_frames }) = trial(Stage::Saturate, None)?;
    let least_hz = LEAST_STREAM_HZ * config.streams as f64;
    let mut search = Search::new(FIRST_HZ, least_hz);
    while let Some(ask) = search.next() {
        let (step, told) = trial(ask.stage, Some(ask.rate_hz))?;
        search.observe(Seen { reached_hz: step.reached_hz, lost: step.lost });
        socket_frames = told.socket_frames;
    }
    let asked_hz = search.found_hz().unwrap_or(0.0);
    let (found_hz, ns_per_frame) = search.found_hz().map_or((0.0, 0.0), |hz| confirmed(&steps, hz));
    let floor = (found_hz > 0.0).then(|| Floor::measure(&setup, found_hz)).transpose()?;
    let gbit_per_s = found_hz * FRAME_LEN as f64 * 8e-9;
    let limited_by = verdict::verdict(search.limit(), &steps, asked_hz);
    Ok(IngestReport {
        engine: facts.engine,
        frame_bytes: FRAME_LEN,
        streams: config.streams,
        sockets: config.sockets,
        pinned: setup.cores.has(config.sockets + 1),
        kernel_buffer_bytes: facts.kernel_buffer.map_or(0, |buffer| buffer.obtained),
        loss_free_frames_per_s: found_hz,
        loss_free_gbit_per_s: gbit_per_s,
        limited_by,
        sender_limited: limited_by == LimitedBy::Sender,
        sender_alone_frames_per_s: alone_hz,
        ns_per_frame,
        cycles_per_frame: cycles_per_s.map(|rate| ns_per_frame * 1e-9 * rate),
        saturated_frames_per_s: saturated.arrived_hz,
        saturated_loss: saturated.lost as f64 / saturated.sent.max(1) as f64,
        copy_limit_gbit_per_s: limits.copy_gbit_per_s,
        read_limit_gbit_per_s: limits.read_gbit_per_s,
        ratio: gbit_per_s / limits.copy_gbit_per_s,
        socket_frames,
        floor,
        steps,
    })
}

/// Rate and cost of a frame, in frames per second and ns, in the trials without loss that
/// confirmed the rate `asked_hz`.
fn confirmed(steps: &[Step], asked_hz: f64) -> (f64, f64) {
    let of_rate = |step: &&Step| {
        step.counts
            && step.stage == Stage::Confirm
            && step.asked_hz == Some(asked_hz)
            && step.lost == 0
    };
    let (mut count, mut rate_hz, mut cost_ns) = (0.0, 0.0, 0.0);
    for step in steps.iter().filter(of_rate) {
        count += 1.0;
        rate_hz += step.reached_hz;
        cost_ns += step.ns_per_frame;
    }
    (rate_hz / count, cost_ns / count)
}

/// What all trials have in common.
struct Setup<'a> {
    config: &'a IngestConfig,
    frames: Frames,
    cores: Cores,
}

/// What came of sending for a while.
struct Pass {
    sent: Sent,
    taken: Taken,
    /// Frames of each socket.
    socket_frames: Vec<u64>,
}

/// What a trial tells beside its figures.
struct Told {
    facts: Facts,
    socket_frames: Vec<u64>,
}

impl<'a> Setup<'a> {
    fn new(config: &'a IngestConfig) -> Result<Self, Error> {
        Ok(Self { config, frames: Frames::make(config.streams)?, cores: Cores::usable() })
    }

    fn udp(&self) -> UdpConfig {
        UdpConfig {
            listen: vec![SocketAddr::from((Ipv4Addr::LOCALHOST, 0))],
            engine: self.config.engine,
            sockets: self.config.sockets as u32,
            ..UdpConfig::default()
        }
    }

    /// What the sender can do, in frames per second, when nobody reads.
    fn sender_alone_hz(&self) -> Result<f64, Error> {
        let unread = bare::socket()?;
        let to = unread.local_addr().map_err(Error::Bare)?;
        let core = self.config.sockets;
        Ok(self.frames.send(&[to], None, self.config.trial, &self.cores, core)?.reached_hz)
    }

    /// Sends for `time` at `rate_hz`, or as fast as possible, and counts what comes.
    fn pass(
        &self,
        takers: Vec<Box<dyn Take>>,
        rate_hz: Option<f64>,
        time: Duration,
    ) -> Result<Pass, Error> {
        let core = takers.len();
        let receiving = Receiving::start(takers, &self.cores)?;
        let sent = self.frames.send(receiving.addresses(), rate_hz, time, &self.cores, core)?;
        let (socket_frames, taken) = receiving.finish()?;
        let is_other = taken.sum.is_some_and(|sum| sum != sent.sum);
        if sent.datagrams == taken.delivered && is_other {
            return Err(Error::Sum { frames: taken.delivered });
        }
        Ok(Pass { sent, taken, socket_frames })
    }

    fn trial(&self, stage: Stage, rate_hz: Option<f64>) -> Result<(Step, Told), Error> {
        let (takers, facts) = receive::path(&self.udp())?;
        let factor = if stage == Stage::Confirm { CONFIRM_FACTOR } else { 1 };
        let pass = self.pass(takers, rate_hz, factor * self.config.trial)?;
        let (sent, taken) = (pass.sent, &pass.taken);
        let span_s = taken.last_ns.saturating_sub(taken.first_ns) as f64 * 1e-9;
        let step = Step {
            stage,
            asked_hz: rate_hz,
            reached_hz: sent.reached_hz,
            sent: sent.datagrams,
            delivered: taken.delivered,
            lost: sent.datagrams.saturating_sub(taken.delivered),
            arrived_hz: taken.delivered as f64 / span_s.max(1e-9),
            ns_per_frame: pass.ns_per_frame(),
            sender_running_share: sent.running,
            receiver_waited_share: taken.waited_share,
            counts: true,
        };
        Ok((step, Told { facts, socket_frames: pass.socket_frames }))
    }
}

impl Pass {
    /// Processor time of the receiving threads for a frame.
    fn ns_per_frame(&self) -> f64 {
        self.taken.cpu.as_nanos() as f64 / self.taken.delivered.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_can_keep_arrives_whole_by_every_engine() {
        for engine in [Engine::Auto, Engine::Recvmsg, Engine::Recvmmsg] {
            let trial_time = Duration::from_millis(2);
            let config = IngestConfig { engine, streams: 2, sockets: 1, trial: trial_time };
            let setup = Setup::new(&config).unwrap();
            let (step, told) = setup.trial(Stage::Climb, Some(4000.0)).unwrap();
            // At most nine frames of each stream, 130 kB: less than any socket's buffer.
            let sent = step.sent;
            assert!((2..=18).contains(&sent) && sent.is_multiple_of(2), "{step:?}");
            assert_eq!(step.lost, 0, "{step:?}");
            assert!(step.ns_per_frame > 0.0 && told.facts.address.is_some());
            assert_eq!(told.socket_frames, [sent]);
        }
    }

    #[test]
    fn bare_loops_take_what_is_sent_to_each_of_them() {
        let trial = Duration::from_millis(2);
        let config = IngestConfig { engine: Engine::Auto, streams: 4, sockets: 2, trial };
        let setup = Setup::new(&config).unwrap();
        for reads in [true, false] {
            let takers = receive::bare(2, reads).unwrap();
            let pass = setup.pass(takers, Some(8000.0), trial).unwrap();
            assert!(pass.socket_frames.iter().all(|frames| *frames > 0), "{:?}", pass.taken);
            assert_eq!(pass.socket_frames.iter().sum::<u64>(), pass.sent.datagrams);
            assert_eq!(pass.taken.sum, reads.then_some(pass.sent.sum), "the bytes were read");
        }
    }

    #[test]
    fn sockets_share_what_is_sent() {
        let trial = Duration::from_millis(2);
        let config = IngestConfig { engine: Engine::Auto, streams: 16, sockets: 2, trial };
        let setup = Setup::new(&config).unwrap();
        let (step, told) = setup.trial(Stage::Climb, Some(8000.0)).unwrap();
        assert_eq!((step.lost, told.socket_frames.len()), (0, 2), "{step:?}");
        assert_eq!(told.socket_frames.iter().sum::<u64>(), step.sent);
    }

    #[test]
    fn a_number_of_streams_or_sockets_out_of_range_is_refused() {
        let refusal = |streams, sockets| {
            let trial = Duration::ZERO;
            let config = IngestConfig { engine: Engine::Auto, streams, sockets, trial };
            measure(&config, &mut |_| ()).unwrap_err().to_string()
        };
        for streams in [0, STREAMS_MAX + 1] {
            let told = format!("streams = {streams} is out of range; choose 1 to 512");
            assert_eq!(refusal(streams, 1), told);
        }
        assert_eq!(refusal(1, 65), "sockets = 65 is out of range; choose 1 to 64");
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
            sender_running_share: 1.0,
            receiver_waited_share: 0.0,
            counts: true,
        };
        let left_out = Step { counts: false, ..step(Stage::Confirm, 1e5, 0, 7000.0) };
        let steps = [
            left_out,
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
        let config = IngestConfig { engine: Engine::Auto, streams: 2, sockets: 1, trial };
        let mut told = Vec::new();
        let report = measure(&config, &mut |step| told.push(*step)).unwrap();
        assert_eq!(told, report.steps);
        assert_eq!(report.steps[0].stage, Stage::Saturate);
        assert!(report.steps.iter().all(|step| step.sent == step.delivered + step.lost));
        assert!(report.sender_alone_frames_per_s > 0.0 && report.socket_frames.len() == 1);
        assert!(report.copy_limit_gbit_per_s > 0.0 && report.read_limit_gbit_per_s > 0.0);
        // On a busy machine every rate may lose.
        if report.loss_free_frames_per_s > 0.0 {
            let last = report.steps.last().unwrap();
            assert_eq!((last.stage, last.lost), (Stage::Confirm, 0));
            assert!(report.ns_per_frame > 0.0 && report.ratio > 0.0);
            let floor = report.floor.unwrap();
            for cost in [floor.path, floor.reading, floor.blind] {
                assert!(0.0 < cost.lowest && cost.lowest <= cost.ns_per_frame, "{floor:?}");
                assert!(cost.ns_per_frame <= cost.highest, "{floor:?}");
            }
            let ratio = floor.path.ns_per_frame / floor.reading.ns_per_frame;
            assert_eq!(floor.path_over_reading, ratio);
        }
    }
}
