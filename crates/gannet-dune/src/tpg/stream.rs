//! The chain of kernels on the frames of one stream.

use std::sync::Arc;

use gannet_kernels::Isa;
use gannet_kernels::tpg::block::Block;
use gannet_kernels::tpg::{Fetch, MAX_TPS_PER_FRAME, Tpg};
use gannet_wire::channel_map::StreamChannels;
use gannet_wire::{Heading, TpcFormat, TriggerPrimitive, wibeth};

use super::channel_index::ChannelIndex;
use super::config::TpgConfig;
use super::counters::{StreamCounters, TpgFrameDrop};
use super::noise::NoiseMonitor;
use super::pedestal::{InitialPedestal, PEDESTAL_RESTART_TICKS, medians};
use crate::sampling::Sampling;
use gannet_trigger::error::{Error, Result};
use gannet_trigger::item::Finder;

/// Frames between two publications of the pedestals.
const PUBLISH_FRAMES: u64 = 1024;

/// A frame that is older than the one expected by up to so many frames is late. One that is older
/// still is the start of a new series.
const LATE_FRAMES_MAX: u64 = 64;

/// Finds the trigger primitives of one stream.
///
/// A hit may go on from one frame to the next. When a frame is missing between them, nothing is
/// known of the hit there, so open hits are dropped, and counted. Where pedestals start from the
/// data, they do so with the first frame and again after a gap longer than
/// [`PEDESTAL_RESTART_TICKS`], together with all else that the chain remembers of earlier samples.
#[derive(Debug)]
pub struct StreamTpg {
    tpg: Tpg,
    ticks_per_frame: u64,
    starts_from_data: bool,
    /// Time of the next frame, once there was one.
    expected: Option<u64>,
    /// The next frame begins a new series, whatever its time.
    is_new_series: bool,
    index: ChannelIndex,
    noise: NoiseMonitor,
    counters: Arc<StreamCounters>,
}

impl StreamTpg {
    /// The chain of a stream whose channels read the wires `channels` of detector `detid`,
    /// in frames of `format`.
    ///
    /// # Errors
    /// As [`TpgConfig::check`], or when an offline channel number does not fit 24 bits.
    pub fn new(
        config: &TpgConfig,
        channels: &StreamChannels,
        detid: u8,
        format: TpcFormat,
    ) -> Result<Self> {
        config.check()?;
        let table = config.table(channels, detid, Sampling::default());
        let mut tpg = Tpg::new(&config.chain_config(), &table, config.isa.isa())
            .map_err(|error| Error::new("channel_map", error.to_string()))?;
        // Frames are searched as they land.
        tpg.set_fetch(Fetch::Cache);
        let counters = StreamCounters::new(*channels, config.masked(channels));
        Ok(Self {
            tpg,
            ticks_per_frame: format.ticks_per_frame(),
            starts_from_data: config.initial_pedestal == InitialPedestal::Data,
            expected: None,
            is_new_series: false,
            index: ChannelIndex::new(&channels.offline),
            noise: NoiseMonitor::default(),
            counters: Arc::new(counters),
        })
    }

    /// Searches the samples of a frame and appends the primitives of the hits that end in it to
    /// `tps`, in the order in which they end.
    ///
    /// `timestamp` is the time of the first sample, in ticks. Keep room for
    /// [`MAX_TPS_PER_FRAME`] in `tps`; then nothing is allocated.
    ///
    /// Says whether the frame was searched; a late one is not.
    pub fn process(
        &mut self,
        block: &Block,
        timestamp: u64,
        tps: &mut Vec<TriggerPrimitive>,
    ) -> bool {
        self.counters.frames.offer(1);
        if self.expected != Some(timestamp) && !self.accept(block, timestamp) {
            self.counters.frames.discard(TpgFrameDrop::Late, 1);
            return false;
        }
        let before = tps.len();
        self.tpg.process(block, timestamp, tps);
        self.counters.frames.deliver(1);
        self.expected = Some(timestamp.wrapping_add(self.ticks_per_frame));
        self.count(&tps[before..]);
        self.noise.frame(block, &self.counters.noise);
        true
    }

    /// The instruction set in use.
    pub fn isa(&self) -> Isa {
        self.tpg.isa()
    }

    /// The counters.
    pub fn counters(&self) -> &Arc<StreamCounters> {
        &self.counters
    }

    /// Whether a frame that is not the one expected is searched all the same.
    #[cold]
    fn accept(&mut self, block: &Block, timestamp: u64) -> bool {
        let Some(expected) = self.expected else {
            self.start_pedestals(block);
            return true;
        };
        let behind = expected.saturating_sub(timestamp);
        let is_late = (1..=LATE_FRAMES_MAX * self.ticks_per_frame).contains(&behind);
        if is_late && !self.is_new_series {
            return false;
        }
        if !std::mem::take(&mut self.is_new_series) {
            self.counters.gaps.add(1);
            self.counters.hits_cut.add(self.tpg.reset_hits() as u64);
        }
        if timestamp.abs_diff(expected) > PEDESTAL_RESTART_TICKS {
            self.start_pedestals(block);
        }
        true
    }

    /// Starts the chain again with the pedestals of this block, if they are to start from data.
    fn start_pedestals(&mut self, block: &Block) {
        if self.starts_from_data {
            self.tpg.restart(medians(block));
            self.counters.pedestal_starts.add(1);
            self.publish_pedestals();
        }
    }

    fn count(&mut self, tps: &[TriggerPrimitive]) {
        for tp in tps {
            self.counters.channel_tps[self.index.of(tp.channel())].add(1);
        }
        self.counters.tps.add(tps.len() as u64);
        if self.counters.frames.delivered() % PUBLISH_FRAMES == 1 {
            self.publish_pedestals();
        }
    }

    fn publish_pedestals(&self) {
        for (gauge, pedestal) in self.counters.pedestals.iter().zip(self.tpg.pedestals()) {
            gauge.set(pedestal.max(0) as u64);
        }
    }
}

impl Finder for StreamTpg {
    type Item = TriggerPrimitive;

    const ITEMS_MAX: usize = MAX_TPS_PER_FRAME;

    #[inline]
    fn frame(
        &mut self,
        heading: &Heading,
        frame: &[u8],
        found: &mut Vec<TriggerPrimitive>,
    ) -> bool {
        // The samples lie at the same place in the frames of all front ends.
        self.process(wibeth::Frame::new_unchecked(frame).adc_block(), heading.begin, found)
    }

    #[inline]
    fn searched_to(&self) -> u64 {
        self.expected.unwrap_or(0)
    }

    /// Drops the open hits and takes the next frame whatever its time.
    fn begin_anew(&mut self) {
        self.tpg.reset_hits();
        self.is_new_series = true;
    }
}
