//! The search in the frames of one stream.

use gannet_dune::tpg::{InitialPedestal, StreamTpg, TpgConfig, TpgFrameDrop};
use gannet_kernels::tpg::block::CHANNELS;
use gannet_trigger::Finder;
use gannet_wire::channel_map::{PLANES, StreamChannels};
use gannet_wire::{FrameFormat, GeoId, TpcFormat, TriggerPrimitive, wibeth};

use super::config::{FrameSource, PedestalStart};
use super::error::FindError;
use super::report::StreamReport;
use super::sequence::{InOrder, Sequence};

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
    format: TpcFormat,
    planes: [u8; CHANNELS],
    tpgs: Vec<StreamTpg>,
    order: Order,
    /// Ticks of the next frame, once there was one.
    expected: Option<u64>,
    first: Option<u64>,
}

/// How the frames of a stream come.
#[derive(Debug)]
enum Order {
    /// In windows that overlap, in the order of time; frames that came before are counted.
    Windows { repeated: u64 },
    /// As they were recorded: all, or those that a run searched.
    Recorded { sequence: Box<Sequence>, is_searched: bool },
}

impl StreamChain {
    /// The search in a stream that reads `channels`.
    ///
    /// # Errors
    /// The chain cannot be set up.
    pub fn new(
        geo_id: GeoId,
        format: TpcFormat,
        channels: &StreamChannels,
        settings: &ChainSettings,
    ) -> Result<Self, FindError> {
        let mut config = settings.tpg.clone();
        match settings.pedestals {
            PedestalStart::Run => {}
            PedestalStart::Data => config.initial_pedestal = InitialPedestal::Data,
            PedestalStart::Counts(counts) => {
                config.initial_pedestal = InitialPedestal::Counts(counts);
            }
        }
        let tpg = |threshold: [u16; PLANES]| {
            let config = TpgConfig { threshold, ..config.clone() };
            StreamTpg::new(&config, channels, geo_id.detector as u8, format)
        };
        let mut thresholds: Vec<_> = settings.thresholds.iter().map(|&t| [t; PLANES]).collect();
        if thresholds.is_empty() {
            thresholds.push(config.threshold);
        }
        let order = match settings.source {
            FrameSource::Records => Order::Windows { repeated: 0 },
            FrameSource::Raw | FrameSource::Capture => Order::Recorded {
                sequence: Box::new(Sequence::new(&format.rhythm())),
                is_searched: settings.source == FrameSource::Raw,
            },
        };
        Ok(Self {
            geo_id,
            format,
            planes: channels.plane,
            tpgs: thresholds.into_iter().map(tpg).collect::<Result<_, _>>()?,
            order,
            expected: None,
            first: None,
        })
    }

    /// Takes a frame and searches what is in order now. Appends to `found` what the first chain
    /// finds; the other chains count only.
    pub fn frame(&mut self, frame: &wibeth::Frame<&[u8]>, found: &mut Vec<TriggerPrimitive>) {
        let Self { tpgs, order, expected, first, .. } = self;
        match order {
            Order::Windows { repeated } => {
                let (block, timestamp) = (frame.adc_block(), frame.timestamp());
                if expected.is_some_and(|expected| timestamp < expected) {
                    *repeated += 1;
                    return;
                }
                let frame = InOrder { block, timestamp, is_new_series: false };
                *expected = Some(search(tpgs, frame, found));
                first.get_or_insert(timestamp);
            }
            Order::Recorded { sequence, .. } => sequence.frame(frame, |frame| {
                first.get_or_insert(frame.timestamp);
                *expected = Some(search(tpgs, frame, found));
            }),
        }
    }

    /// Searches what still waits for frames before it, at the end.
    pub fn finish(&mut self, found: &mut Vec<TriggerPrimitive>) {
        let Self { tpgs, order, expected, first, .. } = self;
        if let Order::Recorded { sequence, is_searched } = order {
            sequence.finish(*is_searched, |frame| {
                first.get_or_insert(frame.timestamp);
                *expected = Some(search(tpgs, frame, found));
            });
        }
    }

    /// Earliest time of the frames that wait for others, in ticks.
    pub fn waits_from(&self) -> Option<u64> {
        match &self.order {
            Order::Windows { .. } => None,
            Order::Recorded { sequence, .. } => sequence.waits_from(),
        }
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
        report.late = counters.frames.dropped(TpgFrameDrop::Late);
        match &self.order {
            Order::Windows { repeated } => report.repeated = *repeated,
            Order::Recorded { sequence, .. } => {
                let counts = sequence.counts();
                report.missing = counts.missing;
                report.repeated = counts.duplicate;
                report.sorted = counts.late;
                report.late += counts.before_first + counts.out_of_step;
            }
        }
        report.tps = counters.tps.get();
        for (tps, plane) in counters.channel_tps.iter().zip(self.planes) {
            report.tps_by_plane[usize::from(plane).min(PLANES - 1)] += tps.get();
        }
        report
    }
}

/// Searches a frame with all chains, and gives the tick behind it.
fn search(tpgs: &mut [StreamTpg], frame: InOrder<'_>, found: &mut Vec<TriggerPrimitive>) -> u64 {
    let InOrder { block, timestamp, is_new_series } = frame;
    if is_new_series {
        tpgs.iter_mut().for_each(StreamTpg::begin_anew);
    }
    let Some((first, others)) = tpgs.split_first_mut() else { return timestamp };
    for tpg in others {
        let len = found.len();
        tpg.process(block, timestamp, found);
        found.truncate(len);
    }
    first.process(block, timestamp, found);
    first.searched_to()
}
