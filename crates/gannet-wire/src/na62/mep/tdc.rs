//! Words of a TDC board: the edges of the pulses of its channels about an event.
//!
//! ```text
//! board   31        24 23      16 15         8 7          0
//!        +------------+----------+------------+------------+
//!        |   format   |  sub-id  |trigger type| FPGA flags |
//!        +------------+----------+------------+------------+
//! FPGA   |error flags | FPGA id  |  frames    | not empty  |
//!        +------------+----------+------------+------------+
//! frame  | words, this one too   |  time stamp, low 16     |
//!        +------+----+---+-------+-------------------------+
//! word   |  id  |chip|   channel |  time (97.46 ps)        |
//!        | 31:28|27:24   23:19   |  18:0                   |
//!        +------+----+-----------+-------------------------+
//! error  | words, this one too   |  of frame 1 |of frame 0 |
//!        +-----------------------+-------------+-----------+
//! ```
//!
//! Each bit of the FPGA flags stands for a block: its header, the frames that are not empty, and
//! behind them, if bit 0 of its error flags is set, an error header with its words. A word of id 4 is a
//! leading edge, of id 5 a trailing one. A trigger type with bit 7 set is a special trigger: nothing of
//! what follows is read.
//!
//! Source: NA62/na62-trigger-algorithms, `common/decoding/TrbFragmentDecoder.cpp`.

use core::fmt;

use crate::error::{Error, Result};
use crate::layout::check_len;
use crate::little_endian as le;
use crate::na62::Time;
use crate::record::check_value;

/// Channels of a board.
pub const BOARD_CHANNELS: u16 = 512;
/// Bit of the trigger type of a special trigger.
pub const SPECIAL_TRIGGER: u8 = 1 << 7;

const FORMAT: &str = "TDC board";
const WORD_LEN: usize = 4;
/// FPGAs of a board.
const FPGAS: u32 = 4;
const LEADING: u32 = 4;
const TRAILING: u32 = 5;

/// First word of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Board {
    /// A bit for each FPGA block that follows, 4 at most.
    pub fpga_flags: u8,
    /// Level-0 trigger type; with [`SPECIAL_TRIGGER`] no edges follow.
    pub trigger_type: u8,
    /// Board of the source.
    pub sub_id: u8,
    /// Version of the layout.
    pub format: u8,
}

impl Board {
    /// Whether it is of a special trigger.
    pub const fn is_special(&self) -> bool {
        self.trigger_type & SPECIAL_TRIGGER != 0
    }
}

/// Prints the fields on one line.
impl fmt::Display for Board {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { fpga_flags, trigger_type, sub_id, format } = self;
        write!(f, "TDC board {sub_id}, trigger type {trigger_type:#04x}, ")?;
        write!(f, "FPGAs {fpga_flags:#06b}, format {format}")
    }
}

/// An edge of a pulse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Edge {
    /// Channel of the detector: 512 a board, 128 an FPGA, 32 a chip.
    pub channel: u16,
    /// Whether the pulse begins here.
    pub is_leading: bool,
    /// When.
    pub time: Time,
}

/// Prints channel, kind and time.
impl fmt::Display for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_leading { "leading" } else { "trailing" };
        write!(f, "channel {}, {kind} edge at {}", self.channel, self.time)
    }
}

/// View of the payload of a TDC board.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'a> {
    board: Board,
    words: &'a [u8],
}

impl<'a> Payload<'a> {
    /// View of a payload, all of whose words are tested unless it is of a special trigger.
    ///
    /// # Errors
    /// [`Error::Truncated`] where a count leads beyond the end, [`Error::Value`] where words are left,
    /// [`Error::Range`] for flags of no or more than 4 FPGAs, or a frame without its own header,
    /// [`Error::Unknown`] for a word that is no edge, [`Error::Remainder`] for a part of a word.
    pub fn new_checked(payload: &'a [u8]) -> Result<Self> {
        check_len(FORMAT, payload, WORD_LEN)?;
        if !payload.len().is_multiple_of(WORD_LEN) {
            let got = payload.len();
            return Err(Error::Remainder { format: FORMAT, unit: WORD_LEN, got });
        }
        let [fpga_flags, trigger_type, sub_id, format] = le::u32(payload, 0).to_le_bytes();
        let board = Board { fpga_flags, trigger_type, sub_id, format };
        let payload = Self { board, words: &payload[WORD_LEN..] };
        if !board.is_special() {
            let (min, max, got) = (1, (1 << FPGAS) - 1, fpga_flags.into());
            if !(min..=max).contains(&got) {
                return Err(Error::Range { format: FORMAT, field: "FPGA flags", min, max, got });
            }
            let mut edges = payload.walk(0);
            while edges.next_edge()?.is_some() {}
            check_value(FORMAT, "bytes left", 0, edges.rest.len() as u64)?;
        }
        Ok(payload)
    }

    /// The first word.
    pub const fn board(&self) -> Board {
        self.board
    }

    /// The edges, with times completed from the time stamp of the event; none of a special trigger.
    pub fn edges(&self, timestamp: u32) -> impl Iterator<Item = Edge> + use<'a> {
        let mut walk = self.walk(timestamp);
        core::iter::from_fn(move || walk.next_edge().ok().flatten())
    }

    fn walk(&self, timestamp: u32) -> Walk<'a> {
        let blocks = if self.board.is_special() { 0 } else { self.board.fpga_flags.count_ones() };
        Walk {
            rest: self.words,
            timestamp,
            sub_id: self.board.sub_id,
            blocks,
            fpga: 0,
            has_errors: false,
            frames: 0,
            words: 0,
            frame_begin: 0,
        }
    }
}

/// The way through the words of a payload.
#[derive(Clone, Copy, Debug)]
struct Walk<'a> {
    rest: &'a [u8],
    timestamp: u32,
    sub_id: u8,
    /// Blocks after the present one.
    blocks: u32,
    fpga: u8,
    /// Whether an error header is behind the frames.
    has_errors: bool,
    /// Frames after the present one.
    frames: u8,
    /// Words left of the frame.
    words: u16,
    /// From where the words of the frame count time, in ticks.
    frame_begin: u32,
}

impl Walk<'_> {
    fn word(&mut self) -> Result<u32> {
        check_len(FORMAT, self.rest, WORD_LEN)?;
        let word = le::u32(self.rest, 0);
        self.rest = &self.rest[WORD_LEN..];
        Ok(word)
    }

    /// A count of words that includes the one that it stands in, less that one.
    fn words_behind(word: u32) -> Result<u16> {
        let words = (word >> 16) as u16;
        let (field, min, max) = ("words", 1, u16::MAX.into());
        words.checked_sub(1).ok_or(Error::Range { format: FORMAT, field, min, max, got: 0 })
    }

    fn next_edge(&mut self) -> Result<Option<Edge>> {
        while self.words == 0 {
            if self.frames > 0 {
                self.frames -= 1;
                let header = self.word()?;
                self.words = Self::words_behind(header)?;
                self.frame_begin = frame_begin(self.timestamp, header as u16);
            } else if self.has_errors {
                self.has_errors = false;
                let len = WORD_LEN * usize::from(Self::words_behind(self.word()?)?);
                check_len(FORMAT, self.rest, len)?;
                self.rest = &self.rest[len..];
            } else if self.blocks > 0 {
                self.blocks -= 1;
                let [frames, _, fpga, errors] = self.word()?.to_le_bytes();
                (self.frames, self.fpga, self.has_errors) = (frames, fpga, errors & 1 == 1);
            } else {
                return Ok(None);
            }
        }
        self.words -= 1;
        let word = self.word()?;
        let is_leading = match word >> 28 {
            LEADING => true,
            TRAILING => false,
            got => return Err(Error::Unknown { format: FORMAT, field: "word", got: got.into() }),
        };
        let (chip, in_chip) = ((word >> 24 & 3) as u16, (word >> 19 & 0x1f) as u16);
        let channel = u16::from(self.sub_id)
            .wrapping_mul(BOARD_CHANNELS)
            .wrapping_add((4 * u16::from(self.fpga) + chip) * 32 + in_chip);
        let units = (u64::from(self.frame_begin) << 8) + u64::from(word & 0x7_ffff);
        Ok(Some(Edge { channel, is_leading, time: Time::from_fine_units(units) }))
    }
}

/// From where the words of a frame count time: its 16 bits completed from the time stamp of the
/// event, which may lie on the other side of a wrap, and without what the words count themselves.
const fn frame_begin(event: u32, frame: u16) -> u32 {
    let whole = event & !0xffff | frame as u32;
    let whole = match (event >> 12 & 0xf, frame >> 12) {
        (0xf, 0) => whole.wrapping_add(0x1_0000),
        (0, 0xf) => whole.wrapping_sub(0x1_0000),
        _ => whole,
    };
    whole & !0x7ff
}

/// The word of an edge: chip 0 to 3, channel 0 to 31 of the chip, and its time in units of 97.46 ps
/// from the last multiple of 2048 ticks before its frame on, 19 bits.
pub const fn edge_word(is_leading: bool, chip: u8, channel: u8, time: u32) -> u32 {
    let id = if is_leading { LEADING } else { TRAILING };
    id << 28 | (chip as u32 & 3) << 24 | (channel as u32 & 0x1f) << 19 | time & 0x7_ffff
}

/// The frames of one FPGA, as [`emit`] writes them.
#[derive(Clone, Copy, Debug)]
pub struct Block<'a> {
    /// FPGA, 0 to 3.
    pub fpga: u8,
    /// Low 16 bits of the time stamp of each frame, and its [words](edge_word).
    pub frames: &'a [(u16, &'a [u32])],
}

/// Appends the payload of a board, of whose FPGA flags those of the blocks are set.
///
/// # Panics
/// If an FPGA has more than 255 frames, or a frame more than 65,534 words.
pub fn emit(board: &Board, blocks: &[Block<'_>], out: &mut Vec<u8>) {
    let fpga_flags = blocks.iter().fold(0, |flags, block| flags | 1 << block.fpga);
    out.extend([fpga_flags, board.trigger_type, board.sub_id, board.format]);
    for block in blocks {
        let frames = u8::try_from(block.frames.len()).expect("an FPGA has at most 255 frames");
        out.extend([frames, frames, block.fpga, 0]);
        for (timestamp, words) in block.frames {
            let count = u16::try_from(words.len() + 1).expect("a frame has at most 65,534 words");
            out.extend(timestamp.to_le_bytes());
            out.extend(count.to_le_bytes());
            out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BOARD: Board = Board { fpga_flags: 0b101, trigger_type: 1, sub_id: 2, format: 4 };

    fn payload() -> Vec<u8> {
        let words = [edge_word(true, 3, 31, 0x4_0001), edge_word(false, 3, 31, 0x4_0100)];
        let frames = [(0x0801, &words[..]), (0x0900, &words[..1])];
        let mut bytes = Vec::new();
        let blocks = [Block { fpga: 0, frames: &frames[..1] }, Block { fpga: 2, frames: &frames }];
        emit(&BOARD, &blocks, &mut bytes);
        bytes
    }

    fn error_with(at: usize, value: u8) -> Error {
        let mut bytes = payload();
        bytes[at] = value;
        Payload::new_checked(&bytes).unwrap_err()
    }

    #[test]
    fn stored_form() {
        let bytes = payload();
        assert_eq!(bytes[..12], [0b101, 1, 2, 4, 1, 1, 0, 0, 0x01, 0x08, 3, 0]);
        assert_eq!(bytes[12..20], [0x01, 0, 0xfc, 0x43, 0x00, 0x01, 0xfc, 0x53]);
        assert_eq!(bytes[20..24], [2, 2, 2, 0]);
    }

    #[test]
    fn edges_have_whole_channels_and_times() {
        let bytes = payload();
        let payload = Payload::new_checked(&bytes).unwrap();
        assert_eq!(payload.board(), BOARD);
        let edges: Vec<_> = payload.edges(0x0007_0900).collect();
        assert_eq!(edges.len(), 5);
        let begin = 0x0007_0800 << 8;
        let time = Time::from_fine_units(begin + 0x4_0001);
        assert_eq!(edges[0], Edge { channel: 2 * 512 + 127, is_leading: true, time });
        assert_eq!((edges[1].is_leading, edges[2].channel), (false, 2 * 512 + 383));
        assert_eq!(edges[0].to_string(), "channel 1151, leading edge at 461824 ticks 1/256");
    }

    #[test]
    fn the_time_of_a_frame_is_completed_over_a_wrap() {
        assert_eq!(frame_begin(0x0001_fff0, 0x0010), 0x0002_0000);
        assert_eq!(frame_begin(0x0002_0010, 0xfff0), 0x0001_f800);
        assert_eq!(frame_begin(0x0002_0810, 0x0fff), 0x0002_0800);
    }

    #[test]
    fn error_words_of_a_block_are_skipped() {
        let mut bytes = payload();
        bytes[7] = 1;
        let errors = [1, 0, 2, 0, 0xff, 0xff, 0xff, 0xff];
        bytes.splice(20..20, errors);
        assert_eq!(Payload::new_checked(&bytes).unwrap().edges(0).count(), 5);
    }

    #[test]
    fn a_special_trigger_has_no_edges() {
        let payload = Payload::new_checked(&[0, 0xa3, 2, 4, 1, 2, 3, 4]).unwrap();
        assert!(payload.board().is_special());
        assert_eq!(payload.edges(0).count(), 0);
    }

    #[test]
    fn malformed_counts() {
        assert!(matches!(error_with(0, 0), Error::Range { field: "FPGA flags", got: 0, .. }));
        assert!(matches!(error_with(0, 0x10), Error::Range { field: "FPGA flags", got: 16, .. }));
        assert!(matches!(error_with(0, 1), Error::Value { field: "bytes left", .. }));
        assert!(matches!(error_with(0, 7), Error::Truncated { got: 0, .. }));
        assert!(matches!(error_with(10, 0), Error::Range { field: "words", got: 0, .. }));
        assert!(matches!(error_with(11, 1), Error::Unknown { .. } | Error::Truncated { .. }));
    }

    #[test]
    fn malformed_word() {
        let error = Error::Unknown { format: FORMAT, field: "word", got: 6 };
        assert_eq!(error_with(15, 0x63), error);
    }

    proptest! {
        #[test]
        fn any_words_are_read_or_refused(mut words in prop::collection::vec(any::<u32>(), 1..40), event: u32) {
            words[0] = words[0] & !0x80f0 | 1;
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            if let Ok(payload) = Payload::new_checked(&bytes) {
                prop_assert!(payload.edges(event).count() < words.len());
            }
        }

        #[test]
        fn an_edge_comes_back((leading, chip, channel, time) in (any::<bool>(), 0..4_u8, 0..32_u8, 0..1_u32 << 19)) {
            let words = [edge_word(leading, chip, channel, time)];
            let mut bytes = Vec::new();
            emit(&BOARD, &[Block { fpga: 1, frames: &[(0, &words)] }], &mut bytes);
            let edge = Payload::new_checked(&bytes).unwrap().edges(0).next().unwrap();
            let expected = Edge {
                channel: 2 * 512 + 128 + 32 * u16::from(chip) + u16::from(channel),
                is_leading: leading,
                time: Time::from_fine_units(time.into()),
            };
            prop_assert_eq!(edge, expected);
        }
    }
}
