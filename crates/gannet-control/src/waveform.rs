//! Waveforms: the samples of one channel for somebody who looks, out of the latency buffers.
//!
//! A look takes nothing from anybody: it has its own reader of each stream, copies the frames it wants, and
//! unpacks them outside. A frame that is overwritten under its eyes is a gap, as one is that never came.

mod spectrum;
mod waterfall;

use std::sync::{Arc, Mutex, PoisonError};

use gannet_readout::latency::{Extent, StreamBuffer, Window};
use schemars::JsonSchema;
use serde::Serialize;

pub use spectrum::{SEGMENT_MAX, Spectrum};
pub use waterfall::{Area, CELLS_MAX, Waterfall};

/// Most frames of a look.
pub const FRAMES_MAX: usize = 256;
/// Most columns of a picture.
pub const COLUMNS_MAX: usize = 4096;

/// A channel whose samples can be looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct SampledChannel {
    /// Number of the channel, in the detector.
    pub channel: u32,
    /// Its stream, counted over all sources.
    #[serde(skip)]
    pub stream: usize,
    /// Its place in the frames of the stream.
    #[serde(skip)]
    pub place: usize,
    /// Plane that it is in, where there are some.
    pub plane: u8,
}

/// How the samples of a stream lie in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampling {
    /// Samples of a channel in a frame.
    pub samples_per_frame: usize,
    /// Ticks from one frame to the next.
    pub ticks_per_frame: u64,
    /// Bytes of a frame.
    pub frame_len: usize,
    /// Ticks in a second.
    pub ticks_per_s: u64,
}

/// What the search for primitives makes of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Levels {
    /// Pedestal, ADC counts; absent before the first frame.
    pub pedestal: Option<u64>,
    /// How far above it a sample belongs to a hit, ADC counts; absent where something else than the sample
    /// is compared.
    pub threshold: Option<u64>,
}

/// What a detector knows of the samples in its frames.
pub trait Samples: Send + Sync {
    /// The channels, by their numbers.
    fn channels(&self) -> &[SampledChannel];

    /// How the samples of a stream lie in time.
    fn sampling(&self, stream: usize) -> Sampling;

    /// The levels of a channel now.
    fn levels(&self, channel: &SampledChannel) -> Levels;

    /// Gives the samples of a channel to `each` in their order, and returns the first tick of the frame.
    fn unpack(&self, channel: &SampledChannel, frame: &[u8], each: &mut dyn FnMut(u16)) -> u64;
}

/// What somebody wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Number of the channel.
    pub channel: u32,
    /// Frames, 1 to [`FRAMES_MAX`].
    pub frames: usize,
    /// First tick after them; that after the newest frame where it is absent.
    pub end: Option<u64>,
    /// Columns of the picture, 1 to [`COLUMNS_MAX`].
    pub columns: usize,
}

/// Samples of a channel, least and greatest of each column of a picture.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waveform {
    /// Number of the channel.
    pub channel: u32,
    /// Name of its stream.
    pub stream: String,
    /// Plane that it is in, where there are some.
    pub plane: u8,
    /// First tick.
    pub begin: u64,
    /// First tick after.
    pub end: u64,
    /// Ticks in a second.
    pub ticks_per_s: u64,
    /// Least sample of each column, ADC counts; absent where no frame is.
    pub least: Vec<Option<u16>>,
    /// Greatest sample of each column, ADC counts.
    pub greatest: Vec<Option<u16>>,
    /// Pedestal, ADC counts.
    pub pedestal: Option<u64>,
    /// How far above it a sample belongs to a hit, ADC counts.
    pub threshold: Option<u64>,
    /// Frames that were looked for.
    pub frames: usize,
    /// Those of them that were there.
    pub found: usize,
}

/// Why there is nothing to see.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoWaveform {
    /// There is no such channel.
    #[error("there is no channel {channel}; the nearest is {nearest}")]
    UnknownChannel {
        /// What was asked for.
        channel: u32,
        /// The nearest that there is.
        nearest: u32,
    },
    /// There is no such stream.
    #[error("there is no stream {stream}; the nearest is {nearest}")]
    UnknownStream {
        /// What was asked for.
        stream: String,
        /// The nearest that there is.
        nearest: String,
    },
    /// Too much was asked for.
    #[error("{what} is {asked}; it can be 1 to {most}")]
    TooMuch {
        /// Of what.
        what: &'static str,
        /// What was asked for.
        asked: usize,
        /// The most that there is.
        most: usize,
    },
    /// No frame of the stream has come.
    #[error("no frame of {stream} has come")]
    Nothing {
        /// The stream.
        stream: String,
    },
    /// The buffer does not have that time.
    #[error("the buffer of {stream} has the ticks {oldest} to {end}")]
    NotHeld {
        /// The stream.
        stream: String,
        /// Its first tick.
        oldest: u64,
        /// First tick after what it has.
        end: u64,
        /// Whether what was asked for has been overwritten.
        is_gone: bool,
    },
}

/// Looks at the samples of all streams of a run.
pub struct Waveforms {
    samples: Arc<dyn Samples>,
    streams: Vec<(String, Mutex<StreamBuffer>)>,
}

impl Waveforms {
    /// Waveforms out of the buffers of these streams, in the order that `samples` counts them in.
    pub fn new(samples: Arc<dyn Samples>, streams: Vec<(String, StreamBuffer)>) -> Self {
        let locked = |(name, buffer)| (name, Mutex::new(buffer));
        Self { samples, streams: streams.into_iter().map(locked).collect() }
    }

    /// The channels by stream: name of the stream, and its channels by their numbers.
    pub fn channels(&self) -> Vec<(&str, Vec<&SampledChannel>)> {
        let of = |stream| self.samples.channels().iter().filter(move |c| c.stream == stream);
        let streams = self.streams.iter().enumerate();
        streams.map(|(number, (name, _))| (name.as_str(), of(number).collect())).collect()
    }

    /// The samples that `look` asks for.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn look(&self, look: &Look) -> Result<Waveform, NoWaveform> {
        let Look { frames, columns, .. } = *look;
        bounded("frames", frames, FRAMES_MAX)?;
        bounded("columns", columns, COLUMNS_MAX)?;
        let channel = self.channel(look.channel)?;
        let stream = &self.streams[channel.stream].0;
        let sampling = self.samples.sampling(channel.stream);
        let (window, bytes) = self.cut(channel.stream, frames, look.end)?;
        let mut picture = Picture::new(window, sampling, frames, columns);
        let frames_found = bytes.chunks_exact(sampling.frame_len);
        let found = frames_found.len();
        for frame in frames_found {
            picture.frame(|each| self.samples.unpack(channel, frame, each));
        }
        let Levels { pedestal, threshold } = self.samples.levels(channel);
        Ok(Waveform {
            channel: channel.channel,
            stream: stream.clone(),
            plane: channel.plane,
            begin: window.begin,
            end: window.end,
            ticks_per_s: sampling.ticks_per_s,
            least: picture.least,
            greatest: picture.greatest,
            pedestal,
            threshold,
            frames,
            found,
        })
    }

    /// The window of so many frames before `end` and those of its frames that are there.
    fn cut(
        &self,
        stream: usize,
        frames: usize,
        end: Option<u64>,
    ) -> Result<(Window, Vec<u8>), NoWaveform> {
        let (name, buffer) = &self.streams[stream];
        let sampling = self.samples.sampling(stream);
        let mut buffer = buffer.lock().unwrap_or_else(PoisonError::into_inner);
        let nothing = || NoWaveform::Nothing { stream: name.clone() };
        let extent = buffer.extent().ok_or_else(nothing)?;
        let window = window(frames, end, sampling, extent).map_err(|is_gone| {
            let end = extent.newest.saturating_add(sampling.ticks_per_frame);
            NoWaveform::NotHeld { stream: name.clone(), oldest: extent.oldest, end, is_gone }
        })?;
        let mut bytes = Vec::new();
        buffer.cut(window, &mut bytes);
        Ok((window, bytes))
    }

    fn channel(&self, number: u32) -> Result<&SampledChannel, NoWaveform> {
        let channels = self.samples.channels();
        let nearest = channels.iter().min_by_key(|it| it.channel.abs_diff(number));
        match nearest {
            Some(found) if found.channel == number => Ok(found),
            _ => Err(NoWaveform::UnknownChannel {
                channel: number,
                nearest: nearest.map_or(0, |nearest| nearest.channel),
            }),
        }
    }
}

/// Refuses numbers that are not 1 to `most`.
fn bounded(what: &'static str, asked: usize, most: usize) -> Result<(), NoWaveform> {
    match (1..=most).contains(&asked) {
        true => Ok(()),
        false => Err(NoWaveform::TooMuch { what, asked, most }),
    }
}

/// The window that is looked at, or whether it has been overwritten.
fn window(
    frames: usize,
    end: Option<u64>,
    sampling: Sampling,
    extent: Extent,
) -> Result<Window, bool> {
    let held_to = extent.newest.saturating_add(sampling.ticks_per_frame);
    let end = end.unwrap_or(held_to);
    let begin = end.saturating_sub(frames as u64 * sampling.ticks_per_frame);
    match () {
        () if end <= extent.oldest => Err(true),
        () if begin >= held_to => Err(false),
        () => Ok(Window { begin, end }),
    }
}

/// Samples by columns.
struct Picture {
    window: Window,
    sampling: Sampling,
    /// Samples of the whole window.
    samples: u64,
    least: Vec<Option<u16>>,
    greatest: Vec<Option<u16>>,
}

impl Picture {
    /// A picture with so many columns, or one for each sample where these are fewer.
    fn new(window: Window, sampling: Sampling, frames: usize, columns: usize) -> Self {
        let samples = frames * sampling.samples_per_frame;
        let empty = vec![None; columns.min(samples)];
        Self { window, sampling, samples: samples as u64, least: empty.clone(), greatest: empty }
    }

    /// Draws what `unpack` gives of a frame, whose first tick it returns.
    fn frame(&mut self, unpack: impl FnOnce(&mut dyn FnMut(u16)) -> u64) {
        let mut values = Vec::with_capacity(self.sampling.samples_per_frame);
        let frame_begin = unpack(&mut |value| values.push(value));
        // In parts of a sample, of which a tick has as many as a frame has samples.
        let per_tick = self.sampling.samples_per_frame as i128;
        let per_sample = i128::from(self.sampling.ticks_per_frame);
        let first = (i128::from(frame_begin) - i128::from(self.window.begin)) * per_tick;
        let columns = self.least.len() as u64;
        for (place, value) in (0..).zip(values) {
            let sample = u64::try_from((first + place * per_sample).div_euclid(per_sample));
            let Some(sample) = sample.ok().filter(|sample| *sample < self.samples) else {
                continue;
            };
            let column = (sample * columns / self.samples) as usize;
            let (least, greatest) = (&mut self.least[column], &mut self.greatest[column]);
            *least = Some(least.map_or(value, |least| least.min(value)));
            *greatest = Some(greatest.map_or(value, |greatest| greatest.max(value)));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use gannet_memory::{Geometry, Producer, clop};
    use gannet_readout::latency::{IndexWriter, index};
    use gannet_wire::Step;

    use super::*;

    const SAMPLES: usize = 4;
    pub const TICKS: u64 = 25;
    const LEN: usize = 8 + SAMPLES;

    /// Frames of a time stamp and four samples of one channel.
    struct Bytes([SampledChannel; 2]);

    impl Samples for Bytes {
        fn channels(&self) -> &[SampledChannel] {
            &self.0
        }

        fn sampling(&self, _: usize) -> Sampling {
            let (samples_per_frame, ticks_per_frame) = (SAMPLES, TICKS);
            Sampling { samples_per_frame, ticks_per_frame, frame_len: LEN, ticks_per_s: 1000 }
        }

        fn levels(&self, _: &SampledChannel) -> Levels {
            Levels { pedestal: Some(7), threshold: None }
        }

        fn unpack(&self, _: &SampledChannel, frame: &[u8], each: &mut dyn FnMut(u16)) -> u64 {
            let (time, samples) = frame.split_at(8);
            samples.iter().for_each(|sample| each((*sample).into()));
            u64::from_le_bytes(time.try_into().unwrap())
        }
    }

    /// A stream in a buffer of eight frames.
    pub struct Bench {
        producer: Producer,
        index: IndexWriter,
        pub waveforms: Waveforms,
    }

    impl Bench {
        pub fn new() -> Self {
            let (producer, reader) = clop(Geometry { cell_bytes: LEN, cells: 8 }).unwrap();
            let (mut index, [buffer]) = index(8, Step::Fixed(TICKS));
            index.attach(reader);
            let channel = |channel| SampledChannel { channel, stream: 0, place: 0, plane: 2 };
            let samples = Arc::new(Bytes([channel(10), channel(20)]));
            let waveforms = Waveforms::new(samples, vec![("A".into(), buffer)]);
            Self { producer, index, waveforms }
        }

        /// Frame `number`, whose samples count on from four times its number.
        pub fn put(&mut self, number: u64) {
            let first = number as u8 * SAMPLES as u8;
            let mut frame = (number * TICKS).to_le_bytes().to_vec();
            frame.extend((0..SAMPLES as u8).map(|sample| first + sample));
            let cell = self.producer.land(&frame);
            self.index.insert(number * TICKS, cell, LEN, false);
        }

        fn look(&self, frames: usize, end: Option<u64>, columns: usize) -> Waveform {
            self.waveforms.look(&Look { channel: 10, frames, end, columns }).unwrap()
        }
    }

    fn some(values: impl IntoIterator<Item = u16>) -> Vec<Option<u16>> {
        values.into_iter().map(Some).collect()
    }

    #[test]
    fn the_newest_frames_are_shown_sample_by_sample() {
        let mut bench = Bench::new();
        (4..8).for_each(|number| bench.put(number));
        let seen = bench.look(2, None, 100);
        assert_eq!((seen.begin, seen.end), (6 * TICKS, 8 * TICKS));
        assert_eq!((&seen.least, &seen.greatest), (&some(24..32), &some(24..32)));
        assert_eq!((seen.pedestal, seen.threshold, seen.found), (Some(7), None, 2));
    }

    #[test]
    fn many_samples_are_a_least_and_a_greatest_a_column() {
        let mut bench = Bench::new();
        (4..8).for_each(|number| bench.put(number));
        let seen = bench.look(4, None, 2);
        assert_eq!((seen.least, seen.greatest), (some([16, 24]), some([23, 31])));
    }

    #[test]
    fn a_frame_that_never_came_is_a_gap() {
        let mut bench = Bench::new();
        [4, 6].into_iter().for_each(|number| bench.put(number));
        let seen = bench.look(3, None, 3);
        assert_eq!(seen.least, [Some(16), None, Some(24)]);
        assert_eq!((seen.frames, seen.found), (3, 2));
    }

    #[test]
    fn a_window_of_the_past_is_shown_while_it_is_held() {
        let mut bench = Bench::new();
        (4..9).for_each(|number| bench.put(number));
        assert_eq!(bench.look(1, Some(5 * TICKS), 4).least, some(16..20));
        // In the middle of frames: those that overlap it, as far as they do.
        let seen = bench.look(1, Some(5 * TICKS + 13), 4);
        assert_eq!(seen.least.iter().flatten().count(), 4, "{seen:?}");
        (9..20).for_each(|number| bench.put(number));
        let gone = bench.waveforms.look(&Look {
            channel: 10,
            frames: 1,
            end: Some(5 * TICKS),
            columns: 4,
        });
        let Err(NoWaveform::NotHeld { oldest, end, is_gone: true, .. }) = gone else {
            panic!("{gone:?}")
        };
        assert!(oldest > 5 * TICKS && end == 20 * TICKS, "{oldest} {end}");
    }

    #[test]
    fn what_cannot_be_shown_says_what_can() {
        let mut bench = Bench::new();
        let look = Look { channel: 10, frames: 1, end: None, columns: 1 };
        let refusal = |bench: &Bench, look| bench.waveforms.look(&look).unwrap_err();
        assert_eq!(refusal(&bench, look), NoWaveform::Nothing { stream: "A".into() });
        bench.put(4);
        let unknown = refusal(&bench, Look { channel: 16, ..look });
        assert_eq!(unknown, NoWaveform::UnknownChannel { channel: 16, nearest: 20 });
        for look in [Look { frames: 0, ..look }, Look { frames: 257, ..look }] {
            assert!(matches!(refusal(&bench, look), NoWaveform::TooMuch { most: 256, .. }));
        }
        let ahead = refusal(&bench, Look { end: Some(1 << 40), ..look });
        assert!(matches!(ahead, NoWaveform::NotHeld { is_gone: false, .. }), "{ahead:?}");
        // A window as long as time itself begins where time does.
        let first = bench.waveforms.look(&Look { end: Some(101), frames: 256, ..look }).unwrap();
        assert_eq!((first.begin, first.found), (0, 1));
    }
}
