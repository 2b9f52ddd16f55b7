//! The sending side: true frames, made beforehand.

use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use gannet_emulate::config::{Pace, Streams};
use gannet_emulate::{Config, Format, FrontEnd, Pacer};
use gannet_ingest::udp::{UdpSink, UdpSinkConfig};
use gannet_ingest::{Datagram, Sink};
use gannet_measure::clock::{Clock, SystemClock};
use gannet_wire::ChannelMap;
use gannet_wire::tpc_frame::FRAME_LEN;

use super::Error;

/// Streams that the rate is shared among.
const STREAMS: usize = 16;
/// Frames of a stream sent together.
const BURST: usize = 9;
/// Below this wait the thread spins, because the kernel would wake it too late.
const SPIN_NS: u64 = 60_000;

/// A burst of frames of each stream.
pub(super) struct Frames {
    bursts: Vec<Vec<u8>>,
}

/// What was sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub datagrams: u64,
    pub reached_hz: f64,
}

impl Frames {
    /// Makes the frames, with noise and tracks in them.
    pub fn make() -> Self {
        let streams = Streams { count: STREAMS, ..Streams::default() };
        let config = Config { streams, ..Config::default() };
        let map = ChannelMap::synthetic(&config.streams.geo_ids());
        let front_end = map.ok().and_then(|map| FrontEnd::new(&config, &map, 0).ok());
        let mut bursts = vec![vec![0; BURST * FRAME_LEN]; STREAMS];
        // The default configuration is sound; without a front end the frames would be zeros.
        if let Some(mut front_end) = front_end {
            for (stream, burst) in bursts.iter_mut().enumerate() {
                for (index, frame) in burst.as_chunks_mut::<FRAME_LEN>().0.iter_mut().enumerate() {
                    front_end.frame(stream, index as u64, frame);
                }
            }
        }
        Self { bursts }
    }

    /// Sends for `time` at `rate_hz` frames per second, or as fast as the network takes them.
    pub fn send(
        &self,
        to: SocketAddr,
        rate_hz: Option<f64>,
        time: Duration,
    ) -> Result<Sent, Error> {
        let mut sink = UdpSink::connect(to, &UdpSinkConfig::default())?;
        let rate_scale = rate_hz.map(|rate| rate / STREAMS as f64 / Format::WibEth.frames_per_s());
        let pace = Pace {
            rate_scale: rate_scale.unwrap_or(1.0),
            unpaced: rate_hz.is_none(),
            burst: BURST,
            ..Pace::default()
        };
        let clock = SystemClock::start();
        let mut pacer = Pacer::new(&pace, Format::WibEth, STREAMS, clock.now_ns());
        let end_ns = clock.now_ns() + time.as_nanos() as u64;
        let mut datagrams = 0;
        loop {
            let now_ns = clock.now_ns();
            if now_ns >= end_ns {
                let elapsed_s = now_ns as f64 * 1e-9;
                return Ok(Sent { datagrams, reached_hz: datagrams as f64 / elapsed_s });
            }
            match pacer.next(now_ns) {
                Some(due) => datagrams += self.send_burst(&mut sink, due.stream, due.count)?,
                None => wait(&clock, pacer.wake_ns().unwrap_or(now_ns)),
            }
        }
    }

    fn send_burst(&self, sink: &mut UdpSink, stream: usize, count: usize) -> Result<u64, Error> {
        let mut burst = [Datagram { header: &[], body: &[] }; BURST];
        for (datagram, frame) in burst.iter_mut().zip(self.bursts[stream].chunks_exact(FRAME_LEN)) {
            datagram.body = frame;
        }
        Ok(sink.send(&burst[..count.min(BURST)])?.datagrams)
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
