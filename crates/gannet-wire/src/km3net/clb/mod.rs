//! Packets of the central logic board (CLB) of an optical module: optical data and monitoring.
//!
//! ```text
//! byte  0          4          8          12         16         20         24
//!      +----------+----------+----------+----------+----------+----------+
//!      |  type    |   run    |   UDP    |   UTC    |  ticks   |  module  |
//!      | 4 chars  |          | sequence | seconds  |  (16 ns) |          |
//!      +----------+----------+----------+----------+----------+----------+
//!   24 | status words, 4 bytes each; then hits, 6 bytes each             |
//!      +-----------------------------------------------------------------+
//! ```
//!
//! Big-endian. All packets of a slice have the time of its begin; in it they are numbered from 0.
//! Optical packets in files have one status word, monitoring packets four: how many there are is
//! known from elsewhere. In a capture file each packet is preceded by its length, 32 bits,
//! little-endian.
//!
//! Source: KM3NeT/km3pipe, `io/clb.py` and `io/daq.py` (`TMCHData`).

mod monitoring;

use core::fmt;
use core::ops::RangeInclusive;

use super::{CLOCK, Hit, SLICE_NS, Status, TICK_NS, TICKS_PER_S};
use crate::big_endian as be;
use crate::error::{Error, Result};
use crate::frame_format::{FrameFormat, Heading, Rhythm, Step, StreamKey};
use crate::layout::{check_len, put};
use crate::little_endian as le;
use crate::numbered::numbered;
use crate::record::{Record, Records};

pub use monitoring::Monitoring;

/// Bytes of the header, without status words.
pub const HEADER_LEN: usize = Header::LEN;
/// Bytes of a status word.
pub const STATUS_WORD_LEN: usize = 4;
/// Status words of optical packets, unless modules are known to send more.
pub const OPTICAL_STATUS_WORDS: usize = 1;

/// Packets of a module and slice, of which none is numbered higher: far more than its hits fill. A number
/// beyond would tell of losses that nobody had.
pub const SLICE_DATAGRAMS_MAX: u32 = 1 << 16;
const OPTICAL: &str = "CLB optical packet";

mod field {
    pub const DATA_TYPE: usize = 0;
    pub const RUN: usize = 4;
    pub const UDP_SEQUENCE: usize = 8;
    pub const UTC_SECONDS: usize = 12;
    pub const TICKS: usize = 16;
    pub const MODULE: usize = 20;
    pub const END: usize = 24;
}

numbered! {
    /// What a packet holds: four letters, as a big-endian number.
    pub enum DataType: u32 {
        Optical = 0x5454_4443 => "TTDC",
        Acoustic = 0x5441_4553 => "TAES",
        Monitoring = 0x544d_4348 => "TMCH",
    }
}

/// Header of every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the packet holds.
    pub data_type: DataType,
    /// Number of the run.
    pub run: u32,
    /// Number of the packet in its slice.
    pub udp_sequence: u32,
    /// Begin of the slice: seconds since 1970.
    pub utc_seconds: u32,
    /// Begin of the slice: ticks of 16 ns in the second.
    pub ticks: u32,
    /// Identifier of the module.
    pub module: u32,
}

impl Header {
    /// Begin of the slice, in nanoseconds since 1970.
    #[inline]
    pub const fn begin_ns(&self) -> u64 {
        self.utc_seconds as u64 * CLOCK.per_s() + self.ticks as u64 * TICK_NS
    }

    /// The header with the begin of its slice set, which is cut to whole ticks.
    pub const fn with_begin_ns(self, begin_ns: u64) -> Self {
        let utc_seconds = (begin_ns / CLOCK.per_s()) as u32;
        let ticks = (begin_ns % CLOCK.per_s() / TICK_NS) as u32;
        Self { utc_seconds, ticks, ..self }
    }
}

impl Record for Header {
    const FORMAT: &'static str = "CLB header";
    const LEN: usize = field::END;

    #[inline]
    fn check(bytes: &[u8]) -> Result<()> {
        let got = be::u32(bytes, field::DATA_TYPE);
        if let DataType::Other(got) = DataType::from_number(got) {
            return Err(Error::Unknown { format: Self::FORMAT, field: "type", got: got.into() });
        }
        let ticks = be::u32(bytes, field::TICKS);
        if ticks >= TICKS_PER_S {
            let (min, max, got) = (0, u64::from(TICKS_PER_S) - 1, ticks.into());
            return Err(Error::Range { format: Self::FORMAT, field: "ticks", min, max, got });
        }
        Ok(())
    }

    #[inline]
    fn read(bytes: &[u8]) -> Self {
        Self {
            data_type: DataType::from_number(be::u32(bytes, field::DATA_TYPE)),
            run: be::u32(bytes, field::RUN),
            udp_sequence: be::u32(bytes, field::UDP_SEQUENCE),
            utc_seconds: be::u32(bytes, field::UTC_SECONDS),
            ticks: be::u32(bytes, field::TICKS),
            module: be::u32(bytes, field::MODULE),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, field::DATA_TYPE, self.data_type.number().to_be_bytes());
        put(bytes, field::RUN, self.run.to_be_bytes());
        put(bytes, field::UDP_SEQUENCE, self.udp_sequence.to_be_bytes());
        put(bytes, field::UTC_SECONDS, self.utc_seconds.to_be_bytes());
        put(bytes, field::TICKS, self.ticks.to_be_bytes());
        put(bytes, field::MODULE, self.module.to_be_bytes());
    }
}

/// Prints one field a line.
impl fmt::Display for Header {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", Self::FORMAT)?;
        writeln!(f, "  {:<22} {}", "data_type", self.data_type)?;
        writeln!(f, "  {:<22} {}", "run", self.run)?;
        writeln!(f, "  {:<22} {}", "udp_sequence", self.udp_sequence)?;
        writeln!(f, "  {:<22} {} s", "utc_seconds", self.utc_seconds)?;
        writeln!(f, "  {:<22} {} ticks of 16 ns", "ticks", self.ticks)?;
        write!(f, "  {:<22} {}", "module", self.module)
    }
}

/// The status words behind a header, as many as `words`; the others are 0.
fn read_status(bytes: &[u8], words: usize) -> Status {
    let mut status = Status::default();
    for (index, word) in status.0.iter_mut().take(words).enumerate() {
        *word = be::u32(bytes, HEADER_LEN + STATUS_WORD_LEN * index);
    }
    status
}

/// View of a packet of optical data.
#[derive(Clone, Copy, Debug)]
pub struct Optical<'a> {
    bytes: &'a [u8],
    status_words: usize,
}

impl<'a> Optical<'a> {
    /// View of a packet with so many status words.
    ///
    /// # Errors
    /// [`Error::Truncated`] when header and status words are not whole, [`Error::Remainder`] when
    /// the last hit is not; else as the header's check. [`Error::Unknown`] for another type.
    ///
    /// # Panics
    /// If there are more than [`Status::WORDS`] status words.
    #[inline]
    pub fn new_checked(packet: &'a [u8], status_words: usize) -> Result<Self> {
        assert!(status_words <= Status::WORDS, "a packet has up to 4 status words");
        let hits_at = hits_at(status_words);
        check_len(OPTICAL, packet, hits_at)?;
        Header::check(packet)?;
        let data_type = be::u32(packet, field::DATA_TYPE);
        if data_type != DataType::Optical.number() {
            return Err(Error::Unknown { format: OPTICAL, field: "type", got: data_type.into() });
        }
        let hits = packet.len() - hits_at;
        if !hits.is_multiple_of(Hit::LEN) {
            return Err(Error::Remainder { format: OPTICAL, unit: Hit::LEN, got: hits });
        }
        Ok(Self { bytes: packet, status_words })
    }

    /// The header.
    #[inline]
    pub fn header(&self) -> Header {
        Header::read(self.bytes)
    }

    /// What the module says of itself.
    #[inline]
    pub fn status(&self) -> Status {
        read_status(self.bytes, self.status_words)
    }

    /// The hits as they lie, 6 bytes each.
    #[inline]
    pub fn hit_bytes(&self) -> &'a [u8] {
        &self.bytes[hits_at(self.status_words)..]
    }

    /// The hits, in the order of the packet. Channels from [`CHANNELS`](super::CHANNELS) on, and
    /// times beyond the slice, are given out as well.
    #[inline]
    pub fn hits(&self) -> Records<'a, Hit> {
        Records::new_checked(self.hit_bytes()).expect("new_checked has tested the length")
    }
}

/// Prints header, status and number of hits; with `{:#}` the hits as well.
impl fmt::Display for Optical<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.header())?;
        writeln!(f, "  {:<22} {}", "status", self.status())?;
        write!(f, "  {:<22} {}", "hits", self.hits().len())?;
        if f.alternate() {
            self.hits().enumerate().try_for_each(|(index, hit)| write!(f, "\n{index}: {hit}"))?;
        }
        Ok(())
    }
}

/// Where the hits of an optical packet begin.
#[inline]
const fn hits_at(status_words: usize) -> usize {
    HEADER_LEN + STATUS_WORD_LEN * status_words
}

/// Bytes of an optical packet of `hits` hits.
pub const fn optical_len(status_words: usize, hits: usize) -> usize {
    hits_at(status_words) + Hit::LEN * hits
}

/// Writes an optical packet with the first `status_words` words of `status`. Returns its bytes.
///
/// # Panics
/// If `bytes` is too short, or there are more than [`Status::WORDS`] status words.
pub fn emit_optical(
    header: &Header,
    status: &Status,
    status_words: usize,
    hits: &[Hit],
    bytes: &mut [u8],
) -> usize {
    header.emit(bytes);
    let places = bytes[HEADER_LEN..hits_at(status_words)].as_chunks_mut().0;
    for (place, word) in places.iter_mut().zip(status.0) {
        *place = word.to_be_bytes();
    }
    crate::record::emit_all(hits, &mut bytes[hits_at(status_words)..]);
    optical_len(status_words, hits.len())
}

/// Bytes of what precedes a packet in a capture file.
pub const LENGTH_LEN: usize = 4;

/// What precedes a packet in a capture file.
///
/// # Panics
/// If the packet is longer than 32 bits tell.
pub fn capture_length(packet: &[u8]) -> [u8; LENGTH_LEN] {
    u32::try_from(packet.len()).expect("a packet has less than 4 GiB").to_le_bytes()
}

/// The packets of a capture file. An error is the last that comes.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    rest: &'a [u8],
}

impl<'a> Packets<'a> {
    /// The packets that fill `file`.
    pub const fn new(file: &'a [u8]) -> Self {
        Self { rest: file }
    }

    fn packet(&self) -> Result<(&'a [u8], &'a [u8])> {
        check_len("CLB capture", self.rest, LENGTH_LEN)?;
        let len = le::u32(self.rest, 0) as usize;
        let rest = &self.rest[LENGTH_LEN..];
        check_len("CLB packet of a capture", rest, len)?;
        Ok(rest.split_at(len))
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Result<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let packet = self.packet();
        self.rest = packet.map_or(&[], |(_, rest)| rest);
        Some(packet.map(|(packet, _)| packet))
    }
}

/// Optical packets as frames that a receiver takes, one stream for each module.
///
/// Time is the begin of the slice in nanoseconds since 1970; in a slice frames are numbered from 0.
#[derive(Clone, Debug)]
pub struct ClbFormat {
    /// Status words of a packet, at most [`Status::WORDS`].
    pub status_words: usize,
    /// Most bytes of a packet.
    pub len_max: usize,
    /// Length of a slice in nanoseconds.
    pub slice_ns: u64,
}

impl Default for ClbFormat {
    /// Packets of one status word in an Ethernet of 1500 bytes, slices of 100 ms.
    fn default() -> Self {
        Self { status_words: OPTICAL_STATUS_WORDS, len_max: 1472, slice_ns: SLICE_NS }
    }
}

impl FrameFormat for ClbFormat {
    fn lengths(&self) -> RangeInclusive<usize> {
        hits_at(self.status_words)..=self.len_max
    }

    fn rhythm(&self) -> Rhythm {
        let step = Step::Slices { length: self.slice_ns };
        Rhythm { clock: CLOCK, step, sequence_modulus: 1 << 31 }
    }

    #[inline]
    fn heading(&self, datagram: &[u8]) -> Result<Heading> {
        let header = Optical::new_checked(datagram, self.status_words)?.header();
        let stream = StreamKey(header.module.into());
        let (sequence, max) = (header.udp_sequence, SLICE_DATAGRAMS_MAX - 1);
        if sequence > max {
            let (min, max, got) = (0, max.into(), sequence.into());
            return Err(Error::Range { format: OPTICAL, field: "udp_sequence", min, max, got });
        }
        Ok(Heading { stream, begin: header.begin_ns(), sequence })
    }

    fn set_heading(&self, datagram: &mut [u8], heading: &Heading) {
        let module = heading.stream.0 as u32;
        let header = Header { module, udp_sequence: heading.sequence, ..Header::read(datagram) };
        header.with_begin_ns(heading.begin).emit(datagram);
    }

    fn stream_name(&self, StreamKey(module): StreamKey) -> String {
        module.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        data_type: DataType::Optical,
        run: 7,
        udp_sequence: 3,
        utc_seconds: 0x5f00_0001,
        ticks: 6_250_000,
        module: 808_488_895,
    };
    const HITS: [Hit; 2] = [
        Hit { channel: 15, time: 66_541_067, time_over_threshold: 28 },
        Hit { channel: 0, time: 66_541_070, time_over_threshold: 255 },
    ];

    fn packet(status_words: usize) -> Vec<u8> {
        let mut bytes = vec![0xa5; optical_len(status_words, HITS.len())];
        let status = Status::new(true, 0b100, true, 0);
        assert_eq!(emit_optical(&HEADER, &status, status_words, &HITS, &mut bytes), bytes.len());
        bytes
    }

    fn error_with(change: impl FnOnce(&mut Vec<u8>)) -> Error {
        let mut bytes = packet(1);
        change(&mut bytes);
        Optical::new_checked(&bytes, 1).unwrap_err()
    }

    #[test]
    fn a_number_that_no_slice_reaches_is_no_heading() {
        let format = ClbFormat::default();
        let mut bytes = packet(OPTICAL_STATUS_WORDS);
        assert_eq!(format.heading(&bytes).unwrap().sequence, 3);
        for sequence in [SLICE_DATAGRAMS_MAX, u32::MAX] {
            Header { udp_sequence: sequence, ..HEADER }.emit(&mut bytes);
            let (min, max, got) = (0, SLICE_DATAGRAMS_MAX as u64 - 1, sequence.into());
            let error = Error::Range { format: OPTICAL, field: "udp_sequence", min, max, got };
            assert_eq!(format.heading(&bytes).unwrap_err(), error);
        }
    }

    #[test]
    fn stored_form() {
        let expected = [
            b'T', b'T', b'D', b'C', 0, 0, 0, 7, 0, 0, 0, 3, 0x5f, 0, 0, 1, //
            0x00, 0x5f, 0x5e, 0x10, 0x30, 0x30, 0x8f, 0xbf, 0x80, 0, 0, 4, //
            15, 0x03, 0xf7, 0x56, 0x0b, 28, 0, 0x03, 0xf7, 0x56, 0x0e, 255,
        ];
        assert_eq!(packet(1), expected);
    }

    #[test]
    fn a_file_of_the_experiment_has_packets_of_these_lengths() {
        assert_eq!([optical_len(1, 229), optical_len(1, 141)], [1402, 874]);
    }

    #[test]
    fn the_number_of_status_words_is_known_from_elsewhere() {
        for words in 0..=Status::WORDS {
            let bytes = packet(words);
            let packet = Optical::new_checked(&bytes, words).unwrap();
            assert_eq!(packet.header(), HEADER);
            assert_eq!(packet.hits().collect::<Vec<_>>(), HITS);
            assert_eq!(packet.status().white_rabbit(), words >= 1);
            assert_eq!(packet.status().udp_trailer(), words >= 2);
        }
    }

    #[test]
    fn prints_the_header_and_on_request_every_hit() {
        let bytes = packet(1);
        let packet = Optical::new_checked(&bytes, 1).unwrap();
        let text = packet.to_string();
        assert!(text.contains("\n  data_type              TTDC\n"), "{text}");
        assert!(text.ends_with("\n  hits                   2"), "{text}");
        let text = format!("{packet:#}");
        assert!(text.ends_with("1: channel 0 at 66541070 ns for 255 ns"), "{text}");
    }

    #[test]
    fn malformed_type() {
        let error = |format, got| Error::Unknown { format, field: "type", got };
        assert_eq!(error_with(|bytes| bytes[0] = b'U'), error("CLB header", 0x5554_4443));
        let monitoring = |bytes: &mut Vec<u8>| bytes[..4].copy_from_slice(b"TMCH");
        assert_eq!(error_with(monitoring), error("CLB optical packet", 0x544d_4348));
    }

    #[test]
    fn malformed_time() {
        let (min, max, got) = (0, 62_499_999, 62_500_000);
        let error = Error::Range { format: "CLB header", field: "ticks", min, max, got };
        let second = |bytes: &mut Vec<u8>| put(bytes, 16, 62_500_000_u32.to_be_bytes());
        assert_eq!(error_with(second), error);
    }

    #[test]
    fn malformed_length() {
        let error = Error::Remainder { format: "CLB optical packet", unit: 6, got: 11 };
        assert_eq!(error_with(|bytes| bytes.truncate(39)), error);
        let error = Error::Truncated { format: "CLB optical packet", expected: 28, got: 27 };
        assert_eq!(error_with(|bytes| bytes.truncate(27)), error);
    }

    #[test]
    fn packets_of_a_capture_follow_their_lengths() {
        let packet = packet(1);
        let mut file = Vec::new();
        for _ in 0..2 {
            file.extend(capture_length(&packet));
            file.extend(&packet);
        }
        assert_eq!(file[..4], [40, 0, 0, 0]);
        assert_eq!(Packets::new(&file).collect::<Vec<_>>(), [Ok(&packet[..]); 2]);
        file[44..48].fill(0xff);
        let last = Packets::new(&file).last().unwrap().unwrap_err();
        assert!(matches!(last, Error::Truncated { expected: 0xffff_ffff, got: 40, .. }), "{last}");
        assert_eq!(Packets::new(&file).count(), 2);
    }

    #[test]
    fn a_heading_tells_slice_and_module() {
        let format = ClbFormat::default();
        let stream = StreamKey(808_488_895);
        let begin = 0x5f00_0001 * 1_000_000_000 + 100_000_000;
        assert_eq!(format.heading(&packet(1)), Ok(Heading { stream, begin, sequence: 3 }));
        assert_eq!(format.stream_name(stream), "808488895");
    }

    proptest! {
        #[test]
        fn a_heading_that_is_set_is_read_back(
            (module, seconds, ticks) in (any::<u32>(), any::<u32>(), 0..62_500_000_u64),
            sequence in 0..SLICE_DATAGRAMS_MAX,
        ) {
            let begin = u64::from(seconds) * 1_000_000_000 + ticks * 16;
            let heading = Heading { stream: StreamKey(module.into()), begin, sequence };
            let (format, mut bytes) = (ClbFormat::default(), packet(1));
            format.set_heading(&mut bytes, &heading);
            prop_assert_eq!(format.heading(&bytes), Ok(heading));
        }
    }
}
