//! The sending side: true frames, made beforehand.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use gannet_emulate::config::{Pace, Streams};
use gannet_emulate::{Config, Format, FrontEnd, Pacer};
use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_measure::quantity::Span;
use gannet_wire::ChannelMap;
use gannet_wire::tpc_frame::FRAME_LEN;

use super::Error;
use crate::limits::sum;

/// Frames of a stream sent together.
const BURST: usize = 9;
/// Most of the time that the sender catches up on after a pause: a longer burst would try the
/// kernel's buffer, not the receiver.
const DEBT_MAX: Span = Span::ms(1);
/// Below this wait the thread spins, because the kernel would wake it too late.
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
}

impl Frames {
    /// Makes the frames of `streams` streams, with noise and tracks in them.
    pub fn make(streams: usize) -> Result<Self, Error> {
        let streams = Streams { count: streams, ..Streams::default() };
        let config = Config { streams, ..Config::default() };
        let map = ChannelMap::synthetic(&config.streams.geo_ids())?;
        let mut front_end = FrontEnd::new(&config, &map, 0)?;
        let mut bursts = vec![vec![0; BURST * FRAME_LEN]; config.streams.count];
        let mut sums = vec![[0; BURST]; config.streams.count];
        for (stream, (burst, sums)) in bursts.iter_mut().zip(&mut sums).enumerate() {
            let frames = burst.as_chunks_mut::<FRAME_LEN>().0;
            for (index, (frame, its_sum)) in frames.iter_mut().zip(sums).enumerate() {
                front_end.frame(stream, index as u64, frame);
                *its_sum = sum(frame);
            }
        }
        Ok(Self { bursts, sums })
    }

    /// Sends for `time` at `rate_hz` frames per second, or as fast as the network takes them.
    pub fn send(
        &self,
        to: SocketAddr,
        rate_hz: Option<f64>,
        time: Duration,
    ) -> Result<Sent, Error> {
        let mut sink = UdpSink::connect(to, &UdpSinkConfig::default())?;
        let (clock, streams) = (SystemClock::start(), self.bursts.len());
        let true_hz = streams as f64 * Format::WibEth.frames_per_s();
        let pace = Pace {
            rate_scale: rate_hz.unwrap_or(true_hz) / true_hz,
            unpaced: rate_hz.is_none(),
            burst: BURST,
            debt_max: DEBT_MAX,
        };
        let mut pacer = Pacer::new(&pace, Format::WibEth, streams, clock.now_ns());
        let end_ns = clock.now_ns() + time.as_nanos() as u64;
        let (mut sent, mut begun) = (Sent::default(), false);
        while !pacer.is_done() {
            let now_ns = clock.now_ns();
            // All streams end at the same frame, so that what was sent is what the rate asked for.
            if begun && now_ns >= end_ns {
                pacer.stop();
            }
            match pacer.next(now_ns) {
                Some(due) => {
                    begun = true;
                    self.send_burst(&mut sink, due.stream, due.count, &mut sent)?;
                }
                None => pacer.wake_ns().into_iter().for_each(|wake_ns| wait(&clock, wake_ns)),
            }
        }
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

/// Sleeps while `wake_ns` is far, spins when it is near.
fn wait(clock: &SystemClock, wake_ns: u64) {
    let ahead_ns = wake_ns.saturating_sub(clock.now_ns());
    match ahead_ns > SPIN_NS {
        true => thread::sleep(Duration::from_nanos(ahead_ns - SPIN_NS / 2)),
        false => std::hint::spin_loop(),
    }
}
