//! A source with everything resolved.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use gannet_emulate::Traffic;
use gannet_fabric::clop::FabricConfig;
use gannet_ingest::udp::{Spread, UdpConfig};
use gannet_ingest::xdp::XdpConfig;
use gannet_log::RawStreams;
use gannet_measure::quantity::Span;
use gannet_wire::{Rhythm, StreamKey};

use super::model::SourceInput;

/// Least frames of the past that each stream keeps.
const DEPTH_FRAMES_MIN: u64 = 256;

/// The streams of a source, as its detector knows them.
#[derive(Clone, Debug)]
pub struct SourceStreams {
    /// Bytes that a frame may have.
    pub lengths: RangeInclusive<usize>,
    /// How the frames of each stream follow one another.
    pub rhythm: Rhythm,
    /// What is expected of each stream at its true rate.
    pub traffic: Traffic,
    /// The streams.
    pub streams: Vec<PlannedStream>,
    /// How they are spread over several sockets, if datagrams tell the kernel.
    pub spread: Option<Spread>,
}

impl SourceStreams {
    /// What is expected where nothing but the format tells: frames of the longest kind, at the rate of
    /// its rhythm.
    pub fn traffic_of(lengths: &RangeInclusive<usize>, rhythm: &Rhythm) -> Traffic {
        Traffic { frames_per_s: rhythm.frames_per_s(), frame_bytes: *lengths.end() as f64 }
    }
}

/// A source with everything resolved.
#[derive(Clone, Debug)]
pub struct PlannedSource {
    /// Name in reports.
    pub name: String,
    /// Where frames come from.
    pub input: SourceInput,
    /// Bytes that a frame may have.
    pub lengths: RangeInclusive<usize>,
    /// How the frames of each stream follow one another.
    pub rhythm: Rhythm,
    /// What is expected of each stream at its true rate.
    pub traffic: Traffic,
    /// The streams.
    pub streams: Vec<PlannedStream>,
    /// How they are spread over several sockets, if datagrams tell the kernel.
    pub spread: Option<Spread>,
    /// Frames of the past to keep, over all streams.
    pub cells: u64,
}

/// Frames of the past to keep of so many streams, for `depth` at their true rate.
pub(super) fn cells_for(depth: Span, traffic: &Traffic, streams: usize) -> u64 {
    let of_one = (depth.ns() as f64 * 1e-9 * traffic.frames_per_s).ceil() as u64;
    of_one.max(DEPTH_FRAMES_MIN).saturating_mul(streams as u64)
}

/// A stream of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStream {
    /// What its frames say that they are of.
    pub key: StreamKey,
    /// What people call it.
    pub name: String,
}

impl PlannedSource {
    /// Keeps no more than `depth` of the past.
    pub(crate) fn keep(&mut self, depth: Span) {
        self.cells = cells_for(depth, &self.traffic, self.streams.len());
    }

    /// Frames of the past that the index of one stream holds.
    pub fn index_frames(&self) -> usize {
        (self.cells / self.streams.len().max(1) as u64) as usize
    }

    /// Bytes of the longest frame.
    pub fn frame_bytes(&self) -> u64 {
        *self.lengths.end() as u64
    }

    /// True rate of all its streams, in frames per second.
    pub fn frames_per_s(&self) -> f64 {
        self.streams.len() as f64 * self.traffic.frames_per_s
    }

    /// Time of the past that the ring holds at this rate, in ticks.
    pub fn depth_ticks(&self) -> f64 {
        self.cells as f64 / self.frames_per_s() * self.rhythm.clock.per_s() as f64
    }

    /// Bytes of these.
    pub fn bytes_per_s(&self) -> f64 {
        self.frames_per_s() * self.traffic.frame_bytes
    }

    /// How many of its streams `choice` takes.
    pub fn raw_streams(&self, choice: &RawStreams) -> usize {
        self.streams.iter().filter(|stream| choice.contains(&stream.name)).count()
    }

    /// Its UDP sockets; absent when frames come another way.
    pub fn udp(&self) -> Option<&UdpConfig> {
        match &self.input {
            SourceInput::Udp(udp) => Some(udp),
            _ => None,
        }
    }

    /// Its AF_XDP socket; absent when frames come another way.
    pub fn xdp(&self) -> Option<&XdpConfig> {
        match &self.input {
            SourceInput::Xdp(xdp) => Some(xdp),
            _ => None,
        }
    }

    /// Its ring that another process writes; absent when frames come another way.
    pub fn fabric(&self) -> Option<&FabricConfig> {
        match &self.input {
            SourceInput::Fabric(fabric) => Some(fabric),
            _ => None,
        }
    }

    /// That some of its sockets have no stream to take.
    pub(super) fn sockets_doubt(&self) -> Option<String> {
        let (sockets, streams) = (self.udp()?.sockets as usize, self.streams.len());
        (sockets > streams).then(|| {
            format!("{}: {sockets} sockets share {streams} streams, so some stay idle", self.name)
        })
    }

    /// Memory for frames that wait beside those of the past, in bytes.
    pub fn queue_bytes(&self) -> u64 {
        self.fabric().map_or(0, |fabric| fabric.queue.bytes())
    }

    /// Address of each of its sockets, none for a file or a ring that is found at a place, in the order of their threads.
    pub fn listen(&self) -> Vec<Option<SocketAddr>> {
        match &self.input {
            SourceInput::Udp(udp) => {
                let sockets = |address: &SocketAddr| vec![Some(*address); udp.sockets as usize];
                udp.listen.iter().flat_map(sockets).collect()
            }
            SourceInput::Xdp(xdp) => vec![Some(xdp.listen.into())],
            SourceInput::Roce(roce) => vec![Some(roce.listen.into())],
            SourceInput::Fabric(_) | SourceInput::Capture(_) | SourceInput::Emulated => vec![None],
        }
    }

    /// Sockets, or the one file or front end; each has a receiving thread of its own.
    pub fn inputs(&self) -> usize {
        self.udp().map_or(1, |udp| udp.listen.len() * udp.sockets as usize)
    }

    /// What these are called in the figures of a run.
    pub fn receivers(&self) -> impl Iterator<Item = String> {
        let inputs = self.inputs();
        (1..=inputs).map(move |number| match inputs {
            1 => self.name.clone(),
            _ => format!("{} #{number}", self.name),
        })
    }
}
