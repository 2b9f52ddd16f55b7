//! Counters of the streams, and the channels that make most primitives.

use gannet_kernels::CHANNELS;
use gannet_measure::counter::Counter;
use gannet_measure::ledger::{Account, Statement};

gannet_measure::drop_reasons! {
    /// Why a frame was not searched for primitives.
    pub enum TpgFrameDrop {
        /// It came after a frame of a later time: out of order, or for the second time.
        Stale => "stale",
    }
}

/// Counters of one stream, which any thread may read.
#[derive(Debug)]
pub struct StreamCounters {
    /// Frames offered, searched, and left out.
    pub frames: Account<TpgFrameDrop>,
    /// Times at which the next frame was not the one expected.
    pub gaps: Counter,
    /// Open hits that were dropped because frames were missing.
    pub hits_cut: Counter,
    /// Primitives found.
    pub tps: Counter,
    /// Offline numbers of the channels.
    pub channels: [u32; CHANNELS],
    /// Primitives found, by channel.
    pub channel_tps: [Counter; CHANNELS],
    /// Pedestals, ADC counts, by channel; brought up to date every 1024 frames.
    pub pedestals: [Counter; CHANNELS],
}

impl StreamCounters {
    /// Counters for channels with these offline numbers, all zero.
    pub(super) fn new(channels: [u32; CHANNELS]) -> Self {
        Self {
            frames: Account::default(),
            gaps: Counter::default(),
            hits_cut: Counter::default(),
            tps: Counter::default(),
            channels,
            channel_tps: std::array::from_fn(|_| Counter::default()),
            pedestals: std::array::from_fn(|_| Counter::default()),
        }
    }

    /// Snapshot of the account of frames.
    pub fn statement(&self) -> Statement {
        self.frames.statement("tpg")
    }
}

/// How many primitives a channel has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelCount {
    /// Offline number of the channel.
    pub channel: u32,
    /// Primitives.
    pub tps: u64,
}

/// The `n` channels of all `streams` that have made most primitives, the first most; channels
/// that have made none are not listed.
pub fn noisiest<'a>(
    streams: impl IntoIterator<Item = &'a StreamCounters>,
    n: usize,
) -> Vec<ChannelCount> {
    let counts = |stream: &'a StreamCounters| {
        stream
            .channels
            .iter()
            .zip(&stream.channel_tps)
            .map(|(&channel, tps)| ChannelCount { channel, tps: tps.get() })
    };
    let mut all: Vec<_> =
        streams.into_iter().flat_map(counts).filter(|count| count.tps > 0).collect();
    all.sort_by_key(|count| (std::cmp::Reverse(count.tps), count.channel));
    all.truncate(n);
    all
}
