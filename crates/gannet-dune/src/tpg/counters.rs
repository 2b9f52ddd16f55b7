//! What a stream tells of itself and of its channels.

use gannet_kernels::tpg::CHANNELS;
use gannet_measure::counter::{Counter, Gauge};
use gannet_measure::ledger::{Account, Statement};
use gannet_wire::channel_map::StreamChannels;

gannet_measure::drop_reasons! {
    /// Why a frame was not searched for primitives.
    pub enum TpgFrameDrop {
        /// It came after a frame of a later time: out of order, or for the second time.
        Late => "late",
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
    /// Times at which the pedestals started from the data.
    pub pedestal_starts: Counter,
    /// Primitives found.
    pub tps: Counter,
    /// Which wires the channels read.
    pub channels: StreamChannels,
    /// Channels that are told by configuration to give no primitives.
    pub masked: [bool; CHANNELS],
    /// Primitives found, by channel.
    pub channel_tps: [Counter; CHANNELS],
    /// Pedestals, ADC counts, by channel; brought up to date every 1024 frames.
    pub pedestals: [Counter; CHANNELS],
    /// Noise about the pedestal, ADC counts, by channel: root mean square of Gaussian noise with
    /// the same quartiles. Sampled; unknown until a channel was looked at, 0 when all samples of
    /// the last look were equal.
    pub noise: [Gauge; CHANNELS],
}

impl StreamCounters {
    /// Counters for channels that read these wires, all zero.
    pub(super) fn new(channels: StreamChannels, masked: [bool; CHANNELS]) -> Self {
        Self {
            frames: Account::default(),
            gaps: Counter::default(),
            hits_cut: Counter::default(),
            pedestal_starts: Counter::default(),
            tps: Counter::default(),
            channels,
            masked,
            channel_tps: std::array::from_fn(|_| Counter::default()),
            pedestals: std::array::from_fn(|_| Counter::default()),
            noise: std::array::from_fn(|_| Gauge::default()),
        }
    }

    /// Snapshot of the account of frames.
    pub fn statement(&self) -> Statement {
        self.frames.statement("tpg")
    }
}
