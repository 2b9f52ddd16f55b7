//! Front ends: whole frames by stream and number.

use gannet_wire::adc14::{BLOCK_LEN, Block, SAMPLES};
use gannet_wire::tpc_frame::{BLOCK_LENGTH, FRAME_LEN};
use gannet_wire::{ChannelMap, GeoId, StreamChannels, daq_ethernet, tdeeth, wibeth};

use crate::config::{Config, ConfigError};
use crate::content::event::{Event, Hit};
use crate::content::noise::{NoisePool, Planes};
use crate::content::pattern::Pattern;
use crate::content::pulser::Pulser;
use crate::content::signals::Signals;
use crate::seeds::{Purpose, family};
use gannet_wire::TpcFormat;

/// Bytes of the two headers of a frame.
pub(crate) const HEADERS_LEN: usize = FRAME_LEN - BLOCK_LEN;

/// The two headers of a frame.
pub(crate) type Headers = [u8; HEADERS_LEN];

/// Where the ADC block of a frame lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum BlockAt {
    /// In the pool of noise, under this number.
    Pool(usize),
    /// In the scratch block that was given.
    #[default]
    Scratch,
}

/// Front ends of one detector: frames as a function of configuration, seed, stream and number.
///
/// The same configuration always gives the same frames, whatever was sent, lost or asked for
/// before: an offline check can make any frame again with [`FrontEnd::frame`].
#[derive(Clone, Debug)]
pub struct FrontEnd {
    geo_ids: Vec<GeoId>,
    planes: Vec<Planes>,
    templates: Vec<Headers>,
    format: TpcFormat,
    start_timestamp: u64,
    noise: NoisePool,
    signals: Signals,
    pattern: Option<Pattern>,
    pulser: Option<Pulser>,
}

impl FrontEnd {
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
        Ok(Self {
            noise: NoisePool::new(&config.noise, config.seed, &planes)?,
            signals: Signals::new(config, &channels, start_timestamp),
            pattern: pattern.map(|pattern| Pattern::new(pattern, format, pattern_seed)),
            pulser: pulser.map(|pulser| Pulser::new(pulser, format)),
            templates: geo_ids.iter().map(|&geo| template(format, geo, pulser.is_some())).collect(),
            geo_ids,
            planes,
            format,
            start_timestamp,
        })
    }

    /// Identifiers of the streams in their order.
    pub fn geo_ids(&self) -> &[GeoId] {
        &self.geo_ids
    }

    /// TpcFormat of the frames.
    pub fn format(&self) -> TpcFormat {
        self.format
    }

    /// Timestamp of frame `index`, in ticks of 16 ns.
    pub fn timestamp(&self, index: u64) -> u64 {
        self.start_timestamp.wrapping_add(index.wrapping_mul(self.format.ticks_per_frame()))
    }

    /// The pattern mode, if it is on.
    pub fn pattern(&self) -> Option<&Pattern> {
        self.pattern.as_ref()
    }

    /// Writes frame `index` of `stream`.
    ///
    /// # Panics
    /// If there is no such stream.
    pub fn frame(&mut self, stream: usize, index: u64, frame: &mut [u8; FRAME_LEN]) {
        let mut scratch = [0; BLOCK_LEN];
        let at = self.fill(stream, index, &mut scratch);
        let block = match at {
            BlockAt::Pool(number) => self.pool_block(number),
            BlockAt::Scratch => &scratch,
        };
        frame[..HEADERS_LEN].copy_from_slice(&self.headers(stream, index));
        frame[HEADERS_LEN..].copy_from_slice(block);
    }

    /// Passes every track and deposit whose first peak lies in frames `frames` to `event`, in
    /// order of time. The last ones may reach beyond these frames.
    pub fn report(&mut self, frames: std::ops::Range<u64>, event: impl FnMut(&Event, &[Hit])) {
        let samples = SAMPLES as u64;
        self.signals.report(frames.start * samples..frames.end * samples, event);
    }

    /// The headers of frame `index` of `stream`.
    #[inline]
    pub(crate) fn headers(&self, stream: usize, index: u64) -> Headers {
        let mut headers = self.templates[stream];
        set_time(self.format, &mut headers, self.timestamp(index), index as u16);
        headers
    }

    /// Finds the block of frame `index` of `stream`: a pool block, or one made in `scratch`.
    pub(crate) fn fill(&mut self, stream: usize, index: u64, scratch: &mut Block) -> BlockAt {
        let pool = self.noise.choose(stream, index);
        let signal = self.signals.touch(stream, index);
        let pulser = self.pulser.as_ref().filter(|pulser| pulser.touches(index));
        let pattern = self.pattern.as_ref().filter(|pattern| pattern.touches(stream, index));
        if !signal && pulser.is_none() && pattern.is_none() {
            return BlockAt::Pool(pool);
        }
        scratch.copy_from_slice(self.noise.block(pool));
        if signal {
            self.signals.apply(stream, index, scratch);
        }
        if let Some(pulser) = pulser {
            pulser.apply(&self.planes[stream], index, scratch);
        }
        if let Some(pattern) = pattern {
            pattern.apply(stream, index, scratch);
        }
        BlockAt::Scratch
    }

    /// A block of the pool.
    #[inline]
    pub(crate) fn pool_block(&self, number: usize) -> &Block {
        self.noise.block(number)
    }
}

/// The wires of one stream.
fn channels_of(map: &ChannelMap, geo: GeoId) -> Result<StreamChannels, ConfigError> {
    map.stream(geo).copied().ok_or_else(|| {
        let expected = "the channel map has no such stream; change streams or the map";
        ConfigError::new("streams", geo, expected)
    })
}

/// The headers of a stream without timestamp and sequence number.
fn template(format: TpcFormat, geo: GeoId, pulser: bool) -> Headers {
    let mut headers = [0; HEADERS_LEN];
    let (daq, own) = headers.split_at_mut(daq_ethernet::HEADER_LEN);
    let mut daq = daq_ethernet::Header::new_unchecked(daq);
    daq.set_geo_id(geo);
    daq.set_block_length(BLOCK_LENGTH);
    match format {
        TpcFormat::WibEth => wibeth::HeaderRepr { pulser, ..wibeth::HeaderRepr::healthy(0) }
            .emit(&mut wibeth::Header::new_unchecked(own)),
        TpcFormat::TdeEth => tdeeth::HeaderRepr { tai_time: u64::MAX, ..Default::default() }
            .emit(&mut tdeeth::Header::new_unchecked(own)),
    }
    headers
}

/// Writes timestamp and sequence number (modulo 4096) into the headers of a frame.
pub(crate) fn set_time(format: TpcFormat, headers: &mut Headers, timestamp: u64, sequence: u16) {
    let (daq, own) = headers.split_at_mut(daq_ethernet::HEADER_LEN);
    let mut daq = daq_ethernet::Header::new_unchecked(daq);
    daq.set_timestamp(timestamp);
    daq.set_seq_id(sequence % daq_ethernet::SEQ_MODULUS);
    if format == TpcFormat::WibEth {
        let mut own = wibeth::Header::new_unchecked(own);
        own.set_colddata_timestamp_0(timestamp as u16 & COLDDATA_MASK);
        own.set_colddata_timestamp_1(timestamp as u16 & COLDDATA_MASK);
    }
}

/// COLDATA counts the low 15 bits of the timestamp.
pub(crate) const COLDDATA_MASK: u16 = 0x7fff;

#[cfg(test)]
mod tests {
    use super::*;
    use gannet_wire::wibeth::HeaderRepr;

    fn front_end(edit: impl FnOnce(&mut Config)) -> FrontEnd {
        let mut config = Config::default();
        config.noise.blocks = 4;
        edit(&mut config);
        let map = ChannelMap::synthetic(&config.streams.geo_ids()).unwrap();
        FrontEnd::new(&config, &map, 107_544_625_968_523_275).unwrap()
    }

    fn frame(front_end: &mut FrontEnd, stream: usize, index: u64) -> Vec<u8> {
        let mut bytes = [0; FRAME_LEN];
        front_end.frame(stream, index, &mut bytes);
        bytes.to_vec()
    }

    #[test]
    fn headers_are_those_of_a_healthy_wib_and_step_as_they_should() {
        let mut front_end = front_end(|_| ());
        for index in [0, 1, 4095, 4096, 1 << 40] {
            let bytes = frame(&mut front_end, 2, index);
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
            let bytes = frame(&mut front_end, 3, index);
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
            config.pattern = Some(crate::config::Pattern { rate_hz: 500.0 });
            config.pulser = Some(crate::config::Pulser::default());
        };
        let (mut one, mut other) = (front_end(busy), front_end(busy));
        let mut expected = Vec::new();
        for index in 0..150 {
            expected.extend((0..4).map(|stream| frame(&mut one, stream, index)));
        }
        for index in (0..150).rev() {
            for stream in [3, 0, 2, 1] {
                let again = frame(&mut other, stream, index);
                assert!(again == expected[index as usize * 4 + stream], "{stream} {index}");
            }
        }
    }

    #[test]
    fn seed_and_stream_change_the_content() {
        let mut one = front_end(|_| ());
        let mut other = front_end(|config| config.seed = 1);
        let block = |front_end: &mut FrontEnd, stream| {
            (0..8).flat_map(|i| frame(front_end, stream, i).split_off(32)).collect::<Vec<u8>>()
        };
        assert!(block(&mut one, 0) != block(&mut other, 0));
        assert!(block(&mut one, 0) != block(&mut one, 1));
    }

    #[test]
    fn a_stream_that_the_map_lacks_is_an_error() {
        let config = Config::default();
        let map = ChannelMap::synthetic(&config.streams.geo_ids()[..3]).unwrap();
        let error = FrontEnd::new(&config, &map, 0).unwrap_err();
        assert_eq!((error.key, error.value.as_str()), ("streams", "3/1/0/3"));
    }

    #[test]
    fn the_configured_start_goes_before_the_time_given() {
        let front_end = front_end(|config| config.start_timestamp = Some(77));
        assert_eq!(front_end.timestamp(0), 77);
    }

    #[test]
    fn the_pulser_is_announced_in_the_header() {
        let mut front_end =
            front_end(|config| config.pulser = Some(crate::config::Pulser::default()));
        let bytes = frame(&mut front_end, 0, 0);
        assert!(wibeth::Frame::new_checked(&bytes).unwrap().wib().pulser());
    }
}
