//! Waterfall of a stream: time against channel, as far as it fits into a picture.

use schemars::JsonSchema;
use serde::Serialize;

use super::{FRAMES_MAX, NoWaveform, Picture, SampledChannel, Waveforms, bounded};

/// Most cells of a picture: columns times rows.
pub const CELLS_MAX: usize = 1 << 17;

/// What somebody wants to see of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Area {
    /// Name of the stream; the first where it is absent.
    pub stream: Option<String>,
    /// Frames, 1 to [`FRAMES_MAX`].
    pub frames: usize,
    /// First tick after them; that after the newest frame where it is absent.
    pub end: Option<u64>,
    /// Columns of the picture, at most.
    pub columns: usize,
    /// Rows of the picture, at most; with the columns, [`CELLS_MAX`] cells.
    pub rows: usize,
}

/// The channels of a stream over time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Waterfall {
    /// Name of the stream.
    pub stream: String,
    /// First tick.
    pub begin: u64,
    /// First tick after.
    pub end: u64,
    /// Ticks in a second.
    pub ticks_per_s: u64,
    /// Columns of the picture.
    pub columns: usize,
    /// First channel of each row; a row has more than one where there are fewer rows than channels.
    pub rows: Vec<u32>,
    /// Row by row, the sample of each column that is furthest from its pedestal, above it in ADC counts; absent where
    /// no frame is.
    pub values: Vec<Option<i32>>,
    /// Frames that were looked for.
    pub frames: usize,
    /// Those of them that were there.
    pub found: usize,
}

impl Waveforms {
    /// The samples of all channels of a stream that `area` asks for.
    ///
    /// # Errors
    /// Why there is nothing to see.
    pub fn waterfall(&self, area: &Area) -> Result<Waterfall, NoWaveform> {
        bounded("frames", area.frames, FRAMES_MAX)?;
        bounded("columns", area.columns, CELLS_MAX)?;
        bounded("rows", area.rows, CELLS_MAX / area.columns)?;
        let stream = self.stream(area.stream.as_deref())?;
        let sampling = self.samples.sampling(stream);
        let (window, bytes) = self.cut(stream, area.frames, area.end)?;
        let channels: Vec<_> =
            self.samples.channels().iter().filter(|it| it.stream == stream).collect();
        let rows = area.rows.min(channels.len());
        let frames: Vec<_> = bytes.chunks_exact(sampling.frame_len).collect();
        let columns = area.columns.min(area.frames * sampling.samples_per_frame);
        let mut waterfall = Waterfall {
            stream: self.streams[stream].0.clone(),
            begin: window.begin,
            end: window.end,
            ticks_per_s: sampling.ticks_per_s,
            columns,
            rows: Vec::with_capacity(rows),
            values: vec![None; columns * rows],
            frames: area.frames,
            found: frames.len(),
        };
        for (place, channel) in channels.iter().enumerate() {
            let row = place * rows / channels.len();
            if row == waterfall.rows.len() {
                waterfall.rows.push(channel.channel);
            }
            let picture = Picture::new(window, sampling, area.frames, columns);
            let values = &mut waterfall.values[row * columns..][..columns];
            for (value, own) in values.iter_mut().zip(self.swings(channel, picture, &frames)) {
                *value = [*value, own].into_iter().flatten().max_by_key(|it| it.abs());
            }
        }
        Ok(waterfall)
    }

    /// How far a channel gets from its pedestal in each column.
    fn swings(
        &self,
        channel: &SampledChannel,
        mut picture: Picture,
        frames: &[&[u8]],
    ) -> impl Iterator<Item = Option<i32>> + use<> {
        for frame in frames {
            picture.frame(|each| self.samples.unpack(channel, frame, each));
        }
        let pedestal = self.samples.levels(channel).pedestal.map(|it| it as i32);
        let Picture { least, greatest, .. } = picture;
        least.into_iter().zip(greatest).map(move |(least, greatest)| {
            let above = |sample: Option<u16>| Some(i32::from(sample?) - pedestal?);
            [above(greatest), above(least)].into_iter().flatten().max_by_key(|it| it.abs())
        })
    }

    /// The place of the stream that is called so.
    fn stream(&self, name: Option<&str>) -> Result<usize, NoWaveform> {
        let Some(name) = name else { return Ok(0) };
        self.streams.iter().position(|(own, _)| own == name).ok_or_else(|| {
            let names = self.streams.iter().map(|(own, _)| own.as_str());
            let nearest = names.min_by_key(|own| strsim::osa_distance(own, name));
            NoWaveform::UnknownStream {
                stream: name.into(),
                nearest: nearest.unwrap_or_default().into(),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Bench, TICKS};
    use super::*;

    fn area(frames: usize, columns: usize, rows: usize) -> Area {
        Area { stream: Some("A".into()), frames, end: None, columns, rows }
    }

    #[test]
    fn each_cell_is_the_sample_furthest_from_the_pedestal() {
        let mut bench = Bench::new();
        bench.put(0);
        [4, 6].into_iter().for_each(|number| bench.put(number));
        let seen = bench.waveforms.waterfall(&area(7, 7, 2)).unwrap();
        assert_eq!((seen.begin, seen.end, seen.columns), (0, 7 * TICKS, 7));
        assert_eq!((seen.frames, seen.found, &seen.rows[..]), (7, 3, &[10, 20][..]));
        // Samples count on from four times the number of their frame, and the pedestal is 7.
        let row = [Some(-7), None, None, None, Some(12), None, Some(20)];
        assert_eq!(seen.values, [row, row].concat());
    }

    #[test]
    fn channels_share_a_row_where_there_are_fewer_rows() {
        let mut bench = Bench::new();
        bench.put(1);
        let seen = bench.waveforms.waterfall(&area(1, 4, 1)).unwrap();
        assert_eq!((&seen.rows[..], seen.values.len()), (&[10][..], 4));
        let more = bench.waveforms.waterfall(&area(1, 100, 100)).unwrap();
        assert_eq!((more.columns, more.rows.len()), (4, 2), "no cell is made up");
    }

    #[test]
    fn what_cannot_be_shown_says_what_can() {
        let mut bench = Bench::new();
        let refusal = |bench: &Bench, area| bench.waveforms.waterfall(&area).unwrap_err();
        assert!(matches!(refusal(&bench, area(1, 1, 1)), NoWaveform::Nothing { .. }));
        bench.put(4);
        let unknown = refusal(&bench, Area { stream: Some("Z".into()), ..area(1, 1, 1) });
        assert_eq!(unknown, NoWaveform::UnknownStream { stream: "Z".into(), nearest: "A".into() });
        for area in [area(0, 1, 1), area(257, 1, 1), area(1, CELLS_MAX, 2), area(1, 0, 1)] {
            assert!(matches!(refusal(&bench, area), NoWaveform::TooMuch { .. }));
        }
    }
}
