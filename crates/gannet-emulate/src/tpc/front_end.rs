//! TPC front ends: frames by stream and number.

use std::ops::Range;

use gannet_measure::random::Random;
use gannet_wire::adc14::{Block, CHANNELS, SAMPLES};
use gannet_wire::channel_map::COLLECTION;
use gannet_wire::tpc_frame::{BLOCK_LENGTH, HEADERS_LEN};
use gannet_wire::{
    ChannelMap, FrameFormat, GeoId, StreamChannels, StreamKey, TpcFormat, daq_ethernet, tdeeth,
    wibeth,
};

use super::config::Config;
use super::event::{Event, Hit, Reported};
use super::noise::{NoisePool, Planes};
use super::pattern::Pattern;
use super::pulse::Shapes;
use super::pulser::Pulser;
use super::signals::Signals;
use crate::config::ConfigError;
use crate::emulator::Emulator;
use crate::front_end::{Body, FrontEnd, InjectedEvent};
use crate::seeds::{Purpose, family};

/// Peak of the hits of a channel that is made noisy, in ADC counts.
const NOISE_PEAK: u16 = 2000;
/// Sample of a frame at which they peak: they lie in one frame.
const NOISE_AT: i32 = SAMPLES as i32 / 2;

/// The two headers of a frame.
type Headers = [u8; HEADERS_LEN];

/// TPC front ends: frames as a function of configuration, seed, stream and number.
///
/// The ADC blocks of frames without signals are shared: a pool of noise, made once.
#[derive(Clone, Debug)]
pub struct TpcFrontEnd {
    streams: Vec<StreamKey>,
    /// The same in order, to be searched.
    sorted: Vec<StreamKey>,
    planes: Vec<Planes>,
    /// The channel of each stream that can be made noisy: its place in the stream and its number in the detector.
    noisy: Vec<Option<(usize, u32)>>,
    shapes: Shapes,
    /// The headers of all frames, but for what [`FrameFormat::set_heading`] writes.
    template: Headers,
    format: TpcFormat,
    start_timestamp: u64,
    noise: NoisePool,
    signals: Signals,
    pattern: Option<Pattern>,
    pulser: Option<Pulser>,
}

impl TpcFrontEnd {
    /// Front ends of the streams of `config`, whose channels read the wires that `map` tells.
    ///
    /// `now` is the timestamp of the first frame in ticks of 16 ns, unless the configuration
    /// names one.
    ///
    /// # Errors
    /// A [`ConfigError`] if the configuration cannot be emulated, or if the map lacks a stream.
    pub fn new(config: &Config, map: &ChannelMap, now: u64) -> Result<Self, ConfigError> {
        config.check()?;
        let geo_ids = config.streams.geo_ids();
        let channels = geo_ids.iter().map(|&geo| channels_of(map, geo));
        let channels = channels.collect::<Result<Vec<StreamChannels>, ConfigError>>()?;
        let planes: Vec<Planes> = channels.iter().map(|stream| stream.plane).collect();
        let format = config.streams.format;
        let start_timestamp = config.start_timestamp.unwrap_or(now);
        let pattern_seed = family(config.seed, Purpose::Choice, usize::MAX);
        let pattern = config.pattern.as_ref();
        let pulser = config.pulser.as_ref();
        let streams: Vec<StreamKey> = geo_ids.into_iter().map(StreamKey::from).collect();
        let mut sorted = streams.clone();
        sorted.sort_unstable();
        Ok(Self {
            noise: NoisePool::new(&config.noise, config.seed, &planes)?,
            signals: Signals::new(config, &channels, start_timestamp),
            pattern: pattern.map(|pattern| Pattern::new(pattern, format, pattern_seed)),
            pulser: pulser.map(|pulser| Pulser::new(pulser, format)),
            template: template(format, pulser.is_some()),
            noisy: channels.iter().map(noisy_channel).collect(),
            shapes: Shapes::default(),
            streams,
            sorted,
            planes,
            format,
            start_timestamp,
        })
    }

    /// The pattern mode, if it is on.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }

    /// Passes every track and deposit whose first peak lies in frames `frames` to `event`, in
    /// order of time. The last ones may reach beyond these frames.
    pub fn events(&mut self, frames: Range<u64>, event: impl FnMut(&Event, &[Hit])) {
        let samples = SAMPLES as u64;
        self.signals.report(frames.start * samples..frames.end * samples, event);
    }
}

impl FrontEnd for TpcFrontEnd {
    type Format = TpcFormat;

    fn format(&self) -> &TpcFormat {
        &self.format
    }

    fn streams(&self) -> &[StreamKey] {
        &self.streams
    }

    fn start(&self) -> u64 {
        self.start_timestamp
    }

    fn make(&mut self, stream: usize, index: u64, frame: &mut Vec<u8>) -> Body {
        frame.extend_from_slice(&self.template);
        self.format.set_heading(frame, &self.heading(stream, index));
        let pool = self.noise.choose(stream, index);
        let signal = self.signals.touch(stream, index);
        let pulser = self.pulser.as_ref().filter(|pulser| pulser.touches(index));
        let pattern = self.pattern.as_ref().filter(|pattern| pattern.touches(stream, index));
        if !signal && pulser.is_none() && pattern.is_none() {
            return Body::Shared(pool);
        }
        frame.extend_from_slice(self.noise.block(pool));
        if let Some(block) = frame[HEADERS_LEN..].first_chunk_mut::<{ size_of::<Block>() }>() {
            if signal {
                self.signals.apply(stream, index, block);
            }
            if let Some(pulser) = pulser {
                pulser.apply(&self.planes[stream], index, block);
            }
            if let Some(pattern) = pattern {
                pattern.apply(stream, index, block);
            }
        }
        Body::Own(HEADERS_LEN)
    }

    fn body(&self, number: usize) -> &[u8] {
        self.noise.block(number)
    }

    /// An identifier near that of `stream`.
    fn stranger(&self, stream: usize, random: &mut Random) -> StreamKey {
        loop {
            let mut wrong = GeoId::from_bits(self.streams[stream].0);
            match random.below(4) {
                0 => wrong.detector = random.below(64) as u16,
                1 => wrong.crate_id = random.below(1024) as u16,
                2 => wrong.slot = random.below(16) as u16,
                _ => wrong.stream = random.below(256) as u16,
            }
            // At most 4096 of the 4 million identifiers are configured, so this ends soon: all
            // streams have one detector, so each draw of another detector succeeds.
            if self.sorted.binary_search(&wrong.into()).is_err() {
                return wrong.into();
            }
        }
    }

    fn noisy_channel(&self, stream: usize) -> Option<u32> {
        self.noisy[stream].map(|(_, number)| number)
    }

    fn add_noise(&self, stream: usize, frame: &mut [u8]) {
        let block = frame[HEADERS_LEN..].first_chunk_mut::<{ size_of::<Block>() }>();
        if let (Some(block), Some((channel, _))) = (block, self.noisy[stream]) {
            let plane = self.planes[stream][channel];
            self.shapes.apply(block, channel, plane, NOISE_AT, NOISE_PEAK);
        }
    }

    fn report(&mut self, frames: Range<u64>, event: &mut dyn FnMut(&dyn InjectedEvent)) {
        self.events(frames, |what, hits| event(&Reported { event: what, hits }));
    }
}

/// The wires of one stream.
fn channels_of(map: &ChannelMap, geo: GeoId) -> Result<StreamChannels, ConfigError> {
    map.stream(geo).copied().ok_or_else(|| {
        let expected = "the channel map has no such stream; change streams or the map";
        ConfigError::new("streams", geo, expected)
    })
}

/// The channel of a stream that can be made noisy: one of its collection wires, if it has some.
fn noisy_channel(channels: &StreamChannels) -> Option<(usize, u32)> {
    let connected = || (0..CHANNELS).filter(|place| channels.is_connected(*place));
    let collects = |place: &usize| channels.plane[*place] == COLLECTION;
    let place = connected().find(collects).or_else(|| connected().next())?;
    Some((place, channels.offline[place]))
}

/// The headers of a healthy front end without what [`FrameFormat::set_heading`] writes.
fn template(format: TpcFormat, pulser: bool) -> Headers {
    let mut headers = [0; HEADERS_LEN];
    let (daq, own) = headers.split_at_mut(daq_ethernet::HEADER_LEN);
    daq_ethernet::Header::new_unchecked(daq).set_block_length(BLOCK_LENGTH);
    match format {
        TpcFormat::WibEth => wibeth::HeaderRepr { pulser, ..wibeth::HeaderRepr::healthy(0) }
            .emit(&mut wibeth::Header::new_unchecked(own)),
        TpcFormat::TdeEth => tdeeth::HeaderRepr { tai_time: u64::MAX, ..Default::default() }
            .emit(&mut tdeeth::Header::new_unchecked(own)),
    }
    headers
}

impl Config {
    /// The emulator of these front ends, whose streams read the wires that `map` tells.
    ///
    /// # Errors
    /// As [`TpcFrontEnd::new`].
    pub fn emulator(
        &self,
        map: &ChannelMap,
        now: u64,
    ) -> Result<Emulator<TpcFrontEnd>, ConfigError> {
        Emulator::new(TpcFrontEnd::new(self, map, now)?, &self.settings())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpc::config;
    use gannet_wire::wibeth::HeaderRepr;

    fn front_end(edit: impl FnOnce(&mut Config)) -> TpcFrontEnd {
        let mut config = Config::default();
        config.noise.blocks = 4;
        edit(&mut config);
        let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
        TpcFrontEnd::new(&config, &map, 107_544_625_968_523_275).unwrap()
    }

    #[test]
    fn headers_are_those_of_a_healthy_wib_and_step_as_they_should() {
        let mut front_end = front_end(|_| ());
        for index in [0, 1, 4095, 4096, 1 << 40] {
            let bytes = front_end.frame(2, index);
            let view = wibeth::Frame::new_checked(&bytes).unwrap();
            assert_eq!(view.geo_id(), GeoId::new(3, 1, 0, 2));
            assert_eq!(view.timestamp(), 107_544_625_968_523_275 + 2048 * index);
            assert_eq!(u64::from(view.daq().seq_id()), index % 4096);
            assert_eq!(view.daq().block_length(), 899);
            assert_eq!(HeaderRepr::parse(&view.wib()), HeaderRepr::healthy(view.timestamp()));
        }
    }

    #[test]
    fn top_drift_frames_step_by_2000_ticks() {
        let mut front_end = front_end(|config| config.streams.format = TpcFormat::TdeEth);
        let times = [0, 1].map(|index| {
            let bytes = front_end.frame(3, index);
            let view = tdeeth::Frame::new_checked(&bytes).unwrap();
            assert_eq!(view.geo_id(), GeoId::new(11, 1, 3, 0));
            assert_eq!(view.tde().tai_time(), u64::MAX);
            view.timestamp()
        });
        assert_eq!(times[1] - times[0], 2000);
    }

    #[test]
    fn any_frame_can_be_made_again_in_any_order() {
        let busy = |config: &mut Config| {
            config.tracks.rate_hz = 2000.0;
            config.pattern = Some(config::Pattern { rate_hz: 500.0 });
            config.pulser = Some(config::Pulser::default());
        };
        let (mut one, mut other) = (front_end(busy), front_end(busy));
        let mut expected = Vec::new();
        for index in 0..150 {
            expected.extend((0..4).map(|stream| one.frame(stream, index)));
        }
        for index in (0..150).rev() {
            for stream in [3, 0, 2, 1] {
                let again = other.frame(stream, index);
                assert!(again == expected[index as usize * 4 + stream], "{stream} {index}");
            }
        }
    }

    #[test]
    fn seed_and_stream_change_the_content() {
        let mut one = front_end(|_| ());
        let mut other = front_end(|config| config.seed = 1);
        let block = |front_end: &mut TpcFrontEnd, stream| {
            (0..8).flat_map(|i| front_end.frame(stream, i).split_off(32)).collect::<Vec<u8>>()
        };
        assert!(block(&mut one, 0) != block(&mut other, 0));
        assert!(block(&mut one, 0) != block(&mut one, 1));
    }

    #[test]
    fn a_stream_that_the_map_lacks_is_an_error() {
        let config = Config::default();
        let map = ChannelMap::synthetic(&config.streams.geo_ids()[..3]).unwrap();
        let error = TpcFrontEnd::new(&config, &map, 0).unwrap_err();
        assert_eq!((error.key, error.value.as_str()), ("streams", "3/1/0/3"));
    }

    #[test]
    fn the_configured_start_goes_before_the_time_given() {
        let front_end = front_end(|config| config.start_timestamp = Some(77));
        assert_eq!(front_end.begin(0), 77);
    }

    #[test]
    fn the_pulser_is_announced_in_the_header() {
        let mut front_end = front_end(|config| config.pulser = Some(config::Pulser::default()));
        let bytes = front_end.frame(0, 0);
        assert!(wibeth::Frame::new_checked(&bytes).unwrap().wib().pulser());
    }
}
