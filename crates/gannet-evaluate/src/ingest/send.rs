//! The sending side: true frames, made beforehand.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use gannet_emulate::config::Pace;
use gannet_emulate::tpc::{Config, TpcFrontEnd};
use gannet_emulate::{FrontEnd, Pacer};
use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Span;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{ChannelMap, TpcFormat, TpcStreams};

use super::Error;
use crate::cores::Cores;
use crate::limits::sum;
use crate::sys;

/// Frames of a stream sent together.
const BURST: usize = 9;
/// Most of the time that the sender catches up on after a pause: a longer burst would try the
/// kernel's buffer, not the receiver.
const DEBT_MAX: Span = Span::ms(1);
/// Below this wait a thread without a core of its own spins, because the kernel would wake it too
/// late. With a core of its own it always does: asleep, it would lose the core to other programs.
const SPIN_NS: u64 = 60_000;

/// A burst of frames of each stream.
pub(super) struct Frames {
    bursts: Vec<Vec<u8>>,
    /// Sums of the words of each frame.
    sums: Vec<[u64; BURST]>,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub datagrams: u64,
    /// Sum of all words of these frames, modulo 2^64.
    pub sum: u64,
    pub reached_hz: f64,
    /// Part of the time, but for pauses of its own will, for which the thread had a core.
    pub running: f64,
}

impl Frames {
    /// Makes the frames of `streams` streams, with noise and tracks in them.
    pub fn make(streams: usize) -> Result<Self, Error> {
        let streams = TpcStreams { count: streams, ..TpcStreams::default() };
        let config = Config { streams, ..Config::default() };
        let map = ChannelMap::synthetic(&config.streams.geo_ids())?;
        let mut front_end = TpcFrontEnd::new(&config, &map, 0)?;
        let mut bursts = vec![vec![0; BURST * FRAME_LEN]; config.streams.count];
        let mut sums = vec![[0; BURST]; config.streams.count];
        for (stream, (burst, sums)) in bursts.iter_mut().zip(&mut sums).enumerate() {
            let frames = burst.as_chunks_mut::<FRAME_LEN>().0;
            for (index, (frame, its_sum)) in frames.iter_mut().zip(sums).enumerate() {
                frame.copy_from_slice(&front_end.frame(stream, index as u64));
                *its_sum = sum(frame);
            }
        }
        Ok(Self { bursts, sums })
    }

    /// Sends for `time` at `rate_hz` frames per second, or as fast as the network takes them, from
    /// a thread on the core of this number.
    pub fn send(
        &self,
        to: &[SocketAddr],
        rate_hz: Option<f64>,
        time: Duration,
        cores: &Cores,
        core: usize,
    ) -> Result<Sent, Error> {
        thread::scope(|scope| {
            let sender = scope.spawn(|| {
                cores.pin(core);
                let spin_ns = if cores.has(core + 1) { u64::MAX } else { SPIN_NS };
                self.send_here(to, rate_hz, time, spin_ns)
            });
            sender.join().map_err(|_| Error::Defect)?
        })
    }

    fn send_here(
        &self,
        to: &[SocketAddr],
        rate_hz: Option<f64>,
        time: Duration,
        spin_ns: u64,
    ) -> Result<Sent, Error> {
        let streams = self.bursts.len();
        // The kernel chooses a socket by the sender, so with several each stream is one.
        let count = if to.len() == 1 { 1 } else { streams };
        let sink =
            |number: usize| UdpSink::connect(to[number % to.len()], &UdpSinkConfig::default());
        let mut sinks = (0..count).map(sink).collect::<Result<Vec<_>, _>>()?;
        let clock = SystemClock::start();
        let true_hz = streams as f64 * TpcFormat::WibEth.frames_per_s();
        let pace = Pace {
            rate_scale: rate_hz.unwrap_or(true_hz) / true_hz,
            unpaced: rate_hz.is_none(),
            burst: BURST,
            debt_max: DEBT_MAX,
        };
        let mut pacer =
            Pacer::new(&pace, TpcFormat::WibEth.frames_per_s(), streams, clock.now_ns());
        let end_ns = clock.now_ns() + time.as_nanos() as u64;
        let (begin_ns, begin_cpu) = (clock.now_ns(), sys::thread_time());
        let (mut sent, mut begun, mut slept_ns) = (Sent::default(), false, 0);
        while !pacer.is_done() {
            let now_ns = clock.now_ns();
            // All streams end at the same frame, so that what was sent is what the rate asked for.
            if begun && now_ns >= end_ns {
                pacer.stop();
            }
            match pacer.next(now_ns) {
                Some(due) => {
                    begun = true;
                    let sink = &mut sinks[due.stream % count];
                    self.send_burst(sink, due.stream, due.count, &mut sent)?;
                }
                None => {
                    slept_ns += pacer.wake_ns().map_or(0, |wake_ns| wait(&clock, wake_ns, spin_ns))
                }
            }
        }
        let busy_ns = (clock.now_ns() - begin_ns).saturating_sub(slept_ns);
        let cpu_ns = (sys::thread_time() - begin_cpu).as_nanos() as f64;
        sent.running = (cpu_ns / busy_ns.max(1) as f64).min(1.0);
        sent.reached_hz = sent.datagrams as f64 * 1e9 / clock.now_ns().max(1) as f64;
        Ok(sent)
    }

    fn send_burst(
        &self,
        sink: &mut UdpSink,
        stream: usize,
        count: usize,
        sent: &mut Sent,
    ) -> Result<(), Error> {
        let mut burst = [Datagram { header: &[], body: &[] }; BURST];
        for (datagram, frame) in burst.iter_mut().zip(self.bursts[stream].chunks_exact(FRAME_LEN)) {
            datagram.body = frame;
        }
        let taken = sink.send(&burst[..count.min(BURST)])?.datagrams;
        let sums = &self.sums[stream][..taken as usize];
        sent.sum = sums.iter().fold(sent.sum, |sum, one| sum.wrapping_add(*one));
        sent.datagrams += taken;
        Ok(())
    }
}

/// Sleeps while `wake_ns` is far, spins from `spin_ns` before it on; gives the time that it meant to
/// sleep.
fn wait(clock: &SystemClock, wake_ns: u64, spin_ns: u64) -> u64 {
    let ahead_ns = wake_ns.saturating_sub(clock.now_ns());
    if ahead_ns <= spin_ns {
        std::hint::spin_loop();
        return 0;
    }
    let pause_ns = ahead_ns - spin_ns / 2;
    thread::sleep(Duration::from_nanos(pause_ns));
    pause_ns
}
