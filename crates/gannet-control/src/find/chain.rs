//! The search in the frames of one stream.

use std::array;

use gannet_emulate::Format;
use gannet_kernels::block::{self, Block, CHANNELS, SAMPLES};
use gannet_trigger::tpg::{FrameTiming, StreamTpg, TpgConfig, TpgFrameDrop};
use gannet_wire::channel_map::{PLANES, StreamChannels};
use gannet_wire::{GeoId, TriggerPrimitive};

use super::config::{FrameSource, PedestalStart};
use super::error::FindError;
use super::report::StreamReport;

/// A time without frames after which a pedestal that began at the median begins there again; in
/// ticks, 0.1 s.
///
/// A pedestal that followed the samples is better than the median of 64, as long as it is of the
/// same time: shorter gaps keep it.
pub const RESTART_TICKS: u64 = 6_250_000;

/// What all streams have in common.
#[derive(Clone, Debug)]
pub(super) struct ChainSettings {
    /// The chain.
    pub tpg: TpgConfig,
    /// Where pedestals begin.
    pub pedestals: PedestalStart,
    /// Which frames come.
    pub source: FrameSource,
    /// Thresholds of all planes to be tried; empty: that of the chain.
    pub thresholds: Vec<u16>,
}

/// The search in the frames of one stream, with as many chains as there are thresholds to try.
#[derive(Debug)]
pub(super) struct StreamChain {
    geo_id: GeoId,
    format: Format,
    planes: [u8; CHANNELS],
    tpgs: Vec<StreamTpg>,
    source: FrameSource,
    is_median: bool,
    /// Ticks of the next frame, once there was one.
    expected: Option<u64>,
    first: Option<u64>,
    repeated: u64,
}

impl StreamChain {
    /// The search in a stream that reads `channels`.
    ///
    /// # Errors
    /// The chain cannot be set up.
    pub fn new(
        geo_id: GeoId,
        format: Format,
        channels: &StreamChannels,
        settings: &ChainSettings,
    ) -> Result<Self, FindError> {
        let timing = match format {
            Format::WibEth => FrameTiming::WIBETH,
            Format::TdeEth => FrameTiming::TDEETH,
        };
        let mut config = settings.tpg.clone();
        if let PedestalStart::Counts(counts) = settings.pedestals {
            config.initial_pedestal = counts;
        }
        let tpg = |threshold: [u16; PLANES]| {
            let config = TpgConfig { threshold, ..config.clone() };
            StreamTpg::new(&config, channels, geo_id.detector as u8, timing)
        };
        let mut thresholds: Vec<_> = settings.thresholds.iter().map(|&t| [t; PLANES]).collect();
        if thresholds.is_empty() {
            thresholds.push(config.threshold);
        }
        Ok(Self {
            geo_id,
            format,
            planes: channels.plane,
            tpgs: thresholds.into_iter().map(tpg).collect::<Result<_, _>>()?,
            source: settings.source,
            is_median: settings.pedestals == PedestalStart::Median,
            expected: None,
            first: None,
            repeated: 0,
        })
    }

    /// Searches a frame. Appends to `found` what the first chain finds; the other chains count only.
    pub fn frame(&mut self, block: &Block, timestamp: u64, found: &mut Vec<TriggerPrimitive>) {
        // Windows of records overlap, and their frames come in the order of time.
        let is_known = |expected| timestamp < expected;
        if self.source == FrameSource::Records && self.expected.is_some_and(is_known) {
            self.repeated += 1;
            return;
        }
        let is_far = |expected: u64| timestamp.abs_diff(expected) > RESTART_TICKS;
        if self.is_median && self.expected.is_none_or(is_far) {
            let medians = medians(block);
            self.tpgs.iter_mut().for_each(|tpg| tpg.set_pedestals(medians));
        }
        self.first.get_or_insert(timestamp);
        let Some((first, others)) = self.tpgs.split_first_mut() else { return };
        for tpg in others {
            let len = found.len();
            tpg.process(block, timestamp, found);
            found.truncate(len);
        }
        first.process(block, timestamp, found);
        self.expected = Some(first.processed_to());
    }

    /// What was found, by threshold.
    pub fn tps(&self) -> impl Iterator<Item = u64> {
        self.tpgs.iter().map(|tpg| tpg.counters().tps.get())
    }

    /// Time of all frames that were searched, in seconds.
    pub fn live_s(&self) -> f64 {
        let frames = self.tpgs.first().map_or(0, |tpg| tpg.counters().frames.delivered());
        frames as f64 / self.format.frames_per_s()
    }

    /// First tick, and the tick behind the last frame.
    pub fn span(&self) -> Option<(u64, u64)> {
        Some((self.first?, self.expected?))
    }

    /// What is told of the stream.
    pub fn report(&self) -> StreamReport {
        let mut report = StreamReport { stream: self.geo_id.to_string(), ..Default::default() };
        let Some(counters) = self.tpgs.first().map(StreamTpg::counters) else { return report };
        report.frames = counters.frames.delivered();
        report.gaps = counters.gaps.get();
        report.hits_cut = counters.hits_cut.get();
        report.repeated = self.repeated;
        report.late = counters.frames.dropped(TpgFrameDrop::Late);
        report.tps = counters.tps.get();
        for (tps, plane) in counters.channel_tps.iter().zip(self.planes) {
            report.tps_by_plane[usize::from(plane).min(PLANES - 1)] += tps.get();
        }
        report
    }
}

/// The median of the samples of each channel.
fn medians(block: &Block) -> [i16; CHANNELS] {
    array::from_fn(|channel| {
        let rows = block::rows(block);
        let mut samples: [u16; SAMPLES] =
            array::from_fn(|time| block::sample(&rows[time], channel));
        samples.sort_unstable();
        // 14 bits, so the sum fits.
        ((samples[SAMPLES / 2 - 1] + samples[SAMPLES / 2]) / 2) as i16
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_not_moved_by_a_pulse() {
        let block = block::pack(|time, channel| {
            let pulse = if (20..40).contains(&time) { 3000 } else { 0 };
            900 + channel as u16 + pulse + (time % 2) as u16
        });
        // Of 64 samples 22 are low, 22 one higher, 20 far above: the 32nd and 33rd are one higher.
        assert_eq!(medians(&block), array::from_fn(|channel| 901 + channel as i16));
        let rising = block::pack(|time, _| 100 + 2 * time as u16);
        assert_eq!(medians(&rising), [163; CHANNELS]);
    }
}
