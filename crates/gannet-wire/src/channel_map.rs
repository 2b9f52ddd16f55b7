//! Channel maps: which wire of the detector each channel of a stream reads.
//!
//! DUNE keeps them as text tables, one channel a line, columns separated by white space:
//!
//! ```text
//! 13 columns, horizontal drift:
//!   offlchan crate APAname wib link femb_on_link cebchan plane chan_in_plane femb asic asicchan wibframechan
//! 12 columns, vertical drift:
//!   offlchan detid detelement crate slot stream streamchan plane chan_in_plane femb asic asicchan
//! ```
//!
//! In the first form `wib` is slot + 1, `link` is bit 6 of the stream number, and `wibframechan`
//! (0 to 255) is 64 times the low two bits of the stream number plus the channel in the stream.
//! Planes 0 and 1 are induction, plane 2 is collection.
//!
//! Source: DUNE-DAQ/detchannelmaps `config/` (`PD2HDChannelMap`, `VDColdboxChannelMap`).

use std::collections::BTreeMap;

use crate::adc14::CHANNELS;
use crate::geo_id::GeoId;

/// Most streams a map may hold; a map of the whole DUNE far detector module has 6000.
pub const STREAMS_MAX: usize = 16_384;

/// Planes of one detector module: 0 and 1 induction, 2 collection.
pub const PLANES: usize = 3;

/// The collection plane.
pub const COLLECTION: u8 = 2;

/// Detector number (HD_TPC) of the streams of a 13-column map, which does not state it.
const HD_TPC: u16 = 3;

/// Largest offline channel number that a trigger primitive can carry (24 bits, all ones is invalid).
const OFFLINE_MAX: u64 = 0xff_fffe;

/// Streams, wires and module size of the synthetic detector: those of one anode plane assembly.
const MODULE_STREAMS: usize = 40;
const MODULE_CHANNELS: usize = MODULE_STREAMS * CHANNELS;
/// Channels of each plane in one stream of the synthetic detector: 40 streams give 800, 800, 960.
const PLANE_SHARE: [usize; PLANES] = [20, 20, 24];

/// Why a text is not a channel map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelMapError {
    /// A line has neither 12 nor 13 columns, or not as many as the first line.
    #[error("channel map line {line}: {got} columns, expected {expected}")]
    Columns {
        /// Line number, from 1.
        line: usize,
        /// Columns of the first line, or `12 or 13`.
        expected: &'static str,
        /// Columns found.
        got: usize,
    },
    /// A column is not a number in its range.
    #[error("channel map line {line}: {column} must be a number from {min} to {max}")]
    Number {
        /// Line number, from 1.
        line: usize,
        /// Name of the column.
        column: &'static str,
        /// Smallest value allowed.
        min: u64,
        /// Largest value allowed.
        max: u64,
    },
    /// Two lines describe the same channel of the same stream.
    #[error("channel map line {line}: channel {channel} of stream {geo} is described twice")]
    Twice {
        /// Line number of the second description, from 1; 0 when the map is not made from text.
        line: usize,
        /// Stream.
        geo: GeoId,
        /// Channel in the stream.
        channel: usize,
    },
    /// There are more streams than [`STREAMS_MAX`].
    #[error("channel map: more than {STREAMS_MAX} streams")]
    TooManyStreams,
    /// The text describes no channel at all.
    #[error("channel map: no channel is described; expected lines of 12 or 13 columns")]
    Empty,
}

/// The wires that the 64 channels of one stream read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamChannels {
    /// Offline channel number of each channel, or [`StreamChannels::UNCONNECTED`].
    pub offline: [u32; CHANNELS],
    /// Plane of each channel: 0 or 1 induction, 2 collection; 0 where unconnected.
    pub plane: [u8; CHANNELS],
}

impl StreamChannels {
    /// Offline number of a channel that reads no wire: the invalid channel of a trigger primitive.
    pub const UNCONNECTED: u32 = 0xff_ffff;

    /// 64 channels that read no wire.
    const NONE: Self = Self { offline: [Self::UNCONNECTED; CHANNELS], plane: [0; CHANNELS] };

    /// True if `channel` (0 to 63) reads a wire.
    ///
    /// # Panics
    /// If `channel` is 64 or more.
    pub fn is_connected(&self, channel: usize) -> bool {
        self.offline[channel] != Self::UNCONNECTED
    }
}

/// For every stream the wires that its channels read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelMap {
    streams: BTreeMap<GeoId, StreamChannels>,
}

impl ChannelMap {
    /// Reads a text table of 12 or 13 columns; blank lines and lines that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`ChannelMapError`], with the line number and what was expected there.
    pub fn parse(text: &str) -> Result<Self, ChannelMapError> {
        let mut map = Self::default();
        let mut columns = None;
        for (number, line) in text.lines().enumerate() {
            let row = Row::split(number + 1, line);
            if row.is_blank() {
                continue;
            }
            let (geo, channel, offline, plane) = match *columns.get_or_insert(row.count) {
                13 => row.horizontal_drift()?,
                12 => row.vertical_drift()?,
                _ => return Err(row.wrong_columns("12 or 13")),
            };
            map.insert(row.line, geo, channel, offline, plane)?;
        }
        if map.streams.is_empty() { Err(ChannelMapError::Empty) } else { Ok(map) }
    }

    /// The map of a synthetic detector whose `streams` fill one module of 2560 wires after the other.
    ///
    /// As in a DUNE anode plane assembly a module has 800, 800 and 960 wires in planes 0, 1 and 2,
    /// numbered in this order, and is read by 40 streams. Each stream reads 20, 20 and 24
    /// neighbouring wires, so that the wires of neighbouring streams are neighbours too.
    ///
    /// # Errors
    /// If `streams` is longer than [`STREAMS_MAX`] or names a stream twice.
    pub fn synthetic(streams: &[GeoId]) -> Result<Self, ChannelMapError> {
        let mut map = Self::default();
        for (index, geo) in streams.iter().enumerate() {
            let module = index / MODULE_STREAMS * MODULE_CHANNELS;
            let position = index % MODULE_STREAMS;
            let (mut first_channel, mut first_wire) = (0, module);
            for (plane, share) in PLANE_SHARE.into_iter().enumerate() {
                for wire in 0..share {
                    let offline = (first_wire + position * share + wire) as u32;
                    map.insert(0, *geo, first_channel + wire, offline, plane as u8)?;
                }
                first_channel += share;
                first_wire += share * MODULE_STREAMS;
            }
        }
        Ok(map)
    }

    /// The map of a detector without planes, whose `streams` have 64 channels each, numbered one after
    /// the other: channel 3 of the second stream is 67.
    ///
    /// # Errors
    /// As [`synthetic`](Self::synthetic).
    pub fn numbered(streams: &[GeoId]) -> Result<Self, ChannelMapError> {
        let mut map = Self::default();
        for (index, geo) in streams.iter().enumerate() {
            for channel in 0..CHANNELS {
                map.insert(0, *geo, channel, (index * CHANNELS + channel) as u32, 0)?;
            }
        }
        Ok(map)
    }

    /// The wires of one stream.
    pub fn stream(&self, geo: GeoId) -> Option<&StreamChannels> {
        self.streams.get(&geo)
    }

    /// All streams in the order of their identifiers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (GeoId, &StreamChannels)> {
        self.streams.iter().map(|(geo, channels)| (*geo, channels))
    }

    /// Number of streams.
    pub fn len(&self) -> usize {
        self.streams.len()
    }

    /// True if no stream is described.
    pub fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Adds one channel, described in line `line`.
    fn insert(
        &mut self,
        line: usize,
        geo: GeoId,
        channel: usize,
        offline: u32,
        plane: u8,
    ) -> Result<(), ChannelMapError> {
        if self.streams.len() == STREAMS_MAX && !self.streams.contains_key(&geo) {
            return Err(ChannelMapError::TooManyStreams);
        }
        let entry = self.streams.entry(geo).or_insert(StreamChannels::NONE);
        if entry.is_connected(channel) {
            return Err(ChannelMapError::Twice { line, geo, channel });
        }
        entry.offline[channel] = offline;
        entry.plane[channel] = plane;
        Ok(())
    }
}

/// Most columns that a line may have.
const COLUMNS_MAX: usize = 13;

/// One line of a table.
struct Row<'a> {
    line: usize,
    cells: [&'a str; COLUMNS_MAX],
    count: usize,
}

/// Stream, channel in the stream, offline channel, plane.
type Described = (GeoId, usize, u32, u8);

impl<'a> Row<'a> {
    fn split(line: usize, text: &'a str) -> Self {
        let mut row = Self { line, cells: [""; COLUMNS_MAX], count: 0 };
        for cell in text.split_ascii_whitespace() {
            if let Some(place) = row.cells.get_mut(row.count) {
                *place = cell;
            }
            row.count += 1;
        }
        row
    }

    fn is_blank(&self) -> bool {
        self.count == 0 || self.cells[0].starts_with('#')
    }

    fn wrong_columns(&self, expected: &'static str) -> ChannelMapError {
        ChannelMapError::Columns { line: self.line, expected, got: self.count }
    }

    /// The number in column `index`, which is called `column`.
    fn number(
        &self,
        index: usize,
        column: &'static str,
        min: u64,
        max: u64,
    ) -> Result<u64, ChannelMapError> {
        match self.cells[index].parse::<u64>() {
            Ok(value) if (min..=max).contains(&value) => Ok(value),
            _ => Err(ChannelMapError::Number { line: self.line, column, min, max }),
        }
    }

    fn horizontal_drift(&self) -> Result<Described, ChannelMapError> {
        if self.count != 13 {
            return Err(self.wrong_columns("13"));
        }
        let offline = self.number(0, "offlchan", 0, OFFLINE_MAX)? as u32;
        let crate_id = self.number(1, "crate", 0, 1023)? as u16;
        let slot = self.number(3, "wib", 1, 16)? as u16 - 1;
        let link = self.number(4, "link", 0, 3)? as u16;
        // A test of the form only: an early vertical-drift table has 13 columns too, and the
        // number of a stream here.
        self.number(5, "femb_on_link", 0, 1)?;
        let plane = self.number(7, "plane", 0, 2)? as u8;
        let frame_channel = self.number(12, "wibframechan", 0, 255)? as usize;
        let stream = link << 6 | (frame_channel / CHANNELS) as u16;
        let geo = GeoId::new(HD_TPC, crate_id, slot, stream);
        Ok((geo, frame_channel % CHANNELS, offline, plane))
    }

    fn vertical_drift(&self) -> Result<Described, ChannelMapError> {
        if self.count != 12 {
            return Err(self.wrong_columns("12"));
        }
        let offline = self.number(0, "offlchan", 0, OFFLINE_MAX)? as u32;
        let detector = self.number(1, "detid", 0, 63)? as u16;
        let crate_id = self.number(3, "crate", 0, 1023)? as u16;
        let slot = self.number(4, "slot", 0, 15)? as u16;
        let stream = self.number(5, "stream", 0, 255)? as u16;
        let channel = self.number(6, "streamchan", 0, CHANNELS as u64 - 1)? as usize;
        let plane = self.number(7, "plane", 0, 2)? as u8;
        Ok((GeoId::new(detector, crate_id, slot, stream), channel, offline, plane))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The 13-column table of `map`.
    fn horizontal_text(map: &ChannelMap) -> String {
        let mut text = String::from("# offlchan crate APAname ...\n\n");
        for (geo, channels) in map.iter() {
            for channel in 0..CHANNELS {
                text += &format!(
                    "{} {} APA_P02SU {} {} 0 7 {} 3 1 2 4 {}\n",
                    channels.offline[channel],
                    geo.crate_id,
                    geo.slot + 1,
                    geo.stream >> 6,
                    channels.plane[channel],
                    usize::from(geo.stream & 3) * CHANNELS + channel,
                );
            }
        }
        text
    }

    fn hermes_streams(count: u16) -> Vec<GeoId> {
        (0..count).map(|i| GeoId::new(3, 1, i / 8, ((i % 8 / 4) << 6) | (i % 4))).collect()
    }

    #[test]
    fn a_synthetic_module_has_the_wires_of_an_anode_plane_assembly() {
        let map = ChannelMap::synthetic(&hermes_streams(40)).unwrap();
        let mut wires: Vec<(u32, u8)> = map
            .iter()
            .flat_map(|(_, stream)| stream.offline.into_iter().zip(stream.plane))
            .collect();
        wires.sort_unstable();
        assert_eq!(wires.len(), 2560);
        for (number, (offline, plane)) in wires.into_iter().enumerate() {
            assert_eq!(offline as usize, number);
            assert_eq!(plane, [0, 1, 2][usize::from(number >= 800) + usize::from(number >= 1600)]);
        }
    }

    #[test]
    fn the_second_module_begins_after_the_first() {
        let map = ChannelMap::synthetic(&hermes_streams(41)).unwrap();
        let last = map.stream(GeoId::new(3, 1, 5, 0)).unwrap();
        assert_eq!((last.offline[0], last.offline[20], last.offline[40]), (2560, 3360, 4160));
    }

    #[test]
    fn a_horizontal_drift_table_is_read() {
        let map = ChannelMap::synthetic(&hermes_streams(16)).unwrap();
        assert_eq!(ChannelMap::parse(&horizontal_text(&map)).unwrap(), map);
        let one = ChannelMap::parse("2047 2 APA_P01NL 3 1 0 7 2 3 1 2 4 130").unwrap();
        let stream = one.stream(GeoId::new(3, 2, 2, 66)).unwrap();
        assert_eq!((stream.offline[2], stream.plane[2]), (2047, COLLECTION));
        assert!(stream.is_connected(2) && !stream.is_connected(3));
    }

    #[test]
    fn a_vertical_drift_table_is_read() {
        let map = ChannelMap::parse("3071 11 CRP4 5 9 0 63 1 200 1 0 0\n").unwrap();
        assert_eq!(map.len(), 1);
        let stream = map.stream(GeoId::new(11, 5, 9, 0)).unwrap();
        assert_eq!((stream.offline[63], stream.plane[63]), (3071, 1));
        assert_eq!(map.stream(GeoId::new(10, 5, 9, 0)), None);
    }

    #[test]
    fn malformed_tables_are_refused_with_the_line() {
        let good = "0 1 APA 1 0 0 0 0 0 1 0 0 0";
        for (text, message) in [
            ("", "channel map: no channel is described; expected lines of 12 or 13 columns"),
            ("# nothing\n\n", "no channel"),
            ("1 2 3", "line 1: 3 columns, expected 12 or 13"),
            (&format!("{good}\n1 11 CRP4 5 9 0 0 1 0 1 0 0"), "line 2: 12 columns, expected 13"),
            (&format!("{good} 14"), "line 1: 14 columns"),
            (
                &format!("\n{good}\n{good}"),
                "line 3: channel 0 of stream 3/1/0/0 is described twice",
            ),
            ("x 1 APA 1 0 0 0 0 0 1 0 0 0", "line 1: offlchan must be a number"),
            ("0 1 APA 0 0 0 0 0 0 1 0 0 0", "line 1: wib must be a number from 1 to 16"),
            ("0 1 APA 1 0 0 0 3 0 1 0 0 0", "line 1: plane must be a number from 0 to 2"),
            ("0 1 APA 1 0 0 0 0 0 1 0 0 256", "line 1: wibframechan"),
            ("794 10 BottomCRP4 1 0 64 48 0 794 6 3 0 48", "line 1: femb_on_link"),
            ("-1 1 APA 1 0 0 0 0 0 1 0 0 0", "line 1: offlchan"),
        ] {
            let error = ChannelMap::parse(text).unwrap_err().to_string();
            assert!(error.contains(message), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_stream_named_twice_is_refused() {
        let geo = GeoId::new(3, 1, 0, 0);
        assert_eq!(
            ChannelMap::synthetic(&[geo, geo]),
            Err(ChannelMapError::Twice { line: 0, geo, channel: 0 })
        );
    }
}
