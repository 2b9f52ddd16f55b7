//! The samples of channels, for those who look at waveforms.

use std::sync::Arc;

use gannet_control::waveform::{Levels, SampledChannel, Samples, Sampling};
use gannet_kernels::tpg::CHANNELS;
use gannet_wire::channel_map::PLANES;
use gannet_wire::{FrameFormat, TpcFormat, adc14, daq_ethernet, tpc_frame};

use crate::tpg::{Chain, StreamCounters, TpgConfig};

/// The samples in frames of 64 TPC channels.
#[derive(Debug)]
pub struct TpcSamples {
    channels: Vec<SampledChannel>,
    streams: Vec<(TpcFormat, Arc<StreamCounters>)>,
    /// Thresholds by plane, where samples are compared with them.
    thresholds: Option<[u16; PLANES]>,
}

impl TpcSamples {
    /// The samples of streams of these formats, whose search tells its pedestals and works as `search` says.
    pub fn new(streams: Vec<(TpcFormat, Arc<StreamCounters>)>, search: Option<&TpgConfig>) -> Self {
        let mut channels = Vec::new();
        for (stream, (_, counters)) in streams.iter().enumerate() {
            let wires = &counters.channels;
            channels.extend((0..CHANNELS).filter(|place| wires.is_connected(*place)).map(
                |place| {
                    let (channel, plane) = (wires.offline[place], wires.plane[place]);
                    SampledChannel { channel, stream, place, plane }
                },
            ));
        }
        channels.sort_by_key(|channel| channel.channel);
        let compares = |chain| matches!(chain, Chain::SimpleThreshold | Chain::FixedPedestal);
        let thresholds = search.filter(|search| compares(search.chain)).map(|it| it.threshold);
        Self { channels, streams, thresholds }
    }
}

impl Samples for TpcSamples {
    fn channels(&self) -> &[SampledChannel] {
        &self.channels
    }

    fn sampling(&self, stream: usize) -> Sampling {
        let (format, _) = self.streams[stream];
        Sampling {
            samples_per_frame: tpc_frame::SAMPLES,
            ticks_per_frame: format.ticks_per_frame(),
            frame_len: tpc_frame::FRAME_LEN,
            ticks_per_s: format.rhythm().clock.per_s(),
        }
    }

    fn levels(&self, channel: &SampledChannel) -> Levels {
        let (_, counters) = &self.streams[channel.stream];
        let is_known = counters.frames.delivered() > 0;
        let threshold =
            |of: [u16; PLANES]| of.get(usize::from(channel.plane)).copied().map(u64::from);
        Levels {
            pedestal: is_known.then(|| counters.pedestals[channel.place].get()),
            threshold: self.thresholds.and_then(threshold),
        }
    }

    /// # Panics
    /// When `frame` is not as long as a frame.
    fn unpack(&self, channel: &SampledChannel, frame: &[u8], each: &mut dyn FnMut(u16)) -> u64 {
        let (headers, samples) = frame.split_at(tpc_frame::HEADERS_LEN);
        let block: &adc14::Block = samples.try_into().expect("a frame has a block of samples");
        (0..tpc_frame::SAMPLES).for_each(|sample| each(adc14::get(block, channel.place, sample)));
        daq_ethernet::Header::new_unchecked(headers).timestamp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpg::StreamTpg;
    use gannet_emulate::FrontEnd;
    use gannet_emulate::tpc::Config;
    use gannet_wire::ChannelMap;

    #[test]
    fn samples_and_levels_are_those_of_the_channel() {
        let config = Config::default();
        let geo_id = config.streams.geo_ids()[0];
        let map = ChannelMap::synthetic(&[geo_id]).unwrap();
        let search = TpgConfig { threshold: [10, 20, 30], ..TpgConfig::default() };
        let wires = map.stream(geo_id).unwrap();
        let mut tpg = StreamTpg::new(&search, wires, 3, TpcFormat::WibEth).unwrap();
        let streams = vec![(TpcFormat::WibEth, Arc::clone(tpg.counters()))];
        let samples = TpcSamples::new(streams, Some(&search));
        let mut emulate = config;
        emulate.streams.count = 1;
        let mut emulator = emulate.emulator(&map, 1 << 40).unwrap();
        let frame = emulator.front_end().frame(0, 3);
        let block = frame[tpc_frame::HEADERS_LEN..].try_into().unwrap();
        assert_eq!(samples.channels().len(), CHANNELS);
        assert!(samples.channels().is_sorted_by_key(|channel| channel.channel));
        for channel in samples.channels() {
            assert_eq!(wires.offline[channel.place], channel.channel);
            let mut seen = Vec::new();
            let begin = samples.unpack(channel, &frame, &mut |sample| seen.push(sample));
            assert_eq!(begin, (1 << 40) + 3 * TpcFormat::WibEth.ticks_per_frame());
            let expected: Vec<_> = (0..64).map(|s| adc14::get(block, channel.place, s)).collect();
            assert_eq!(seen, expected);
            let threshold = Some([10, 20, 30][usize::from(channel.plane)]);
            assert_eq!(samples.levels(channel), Levels { pedestal: None, threshold });
        }
        tpg.process(block, 1 << 40, &mut Vec::new());
        assert!(samples.levels(&samples.channels()[0]).pedestal.is_some());
    }

    #[test]
    fn a_threshold_is_shown_where_samples_are_compared_with_it() {
        let of = |chain| {
            let search = TpgConfig { chain, ..TpgConfig::default() };
            TpcSamples::new(Vec::new(), Some(&search)).thresholds.is_some()
        };
        assert!(of(Chain::SimpleThreshold) && of(Chain::FixedPedestal));
        assert!(!of(Chain::AbsRs) && !of(Chain::Fir) && !of(Chain::RunningSumFeedback));
    }
}
