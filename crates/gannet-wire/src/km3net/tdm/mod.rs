//! TDM (time division multiplex) line of a KM3NeT-Italy tower: one floor to shore, a frame every
//! 125 us on 800 Mbit/s. The experiment's frame is not public; this one is ours.
//!
//! ```text
//! byte  0       1       2                 6       7       8
//!      +-------+-------+-----------------+-------+-------+
//!      | K28.5 | K28.1 |  frame counter  | floor | flags |
//!      +-------+-------+-----------------+-------+-------+
//!    8 | optical modules 0 to 5, 1500 bytes each         |
//! 9008 | hydrophones 0 and 1, 96 bytes each              |
//! 9200 | instruments, 64 bytes                           |
//! 9264 | slow control, 256 bytes                         |
//! 9520 | CRC-32 of bytes 2 to 9519                       |
//! 9524 | K28.5 to the end                                |
//! 10000+-------------------------------------------------+
//! ```
//!
//! Big-endian. A frame is 10,000 symbols of [8b10b](code): all but the first two and the idle ones at
//! the end are data. A slot begins with the number of its bytes in use, 16 bits. A hit of an optical
//! module is its time in the frame in ticks of 5 ns, 16 bits, flags, the number of its samples, 8 bits
//! each, and the samples. The CRC is that of IEEE 802.3.
//!
//! Source: NaNet3, arXiv:1406.3568, for rates, floor and what it sends; the layout is ours.

pub mod code;
mod receiver;

use core::fmt;
use core::ops::Range;

use code::{Disparity, K28_1, K28_5, Symbol, encode};

use crate::error::{Error, Result};
use crate::layout::{array, check_len, put};
use crate::record::check_value;

pub use crate::crc32::crc32;
pub use receiver::{Counts, Lock, Receiver};

/// Symbols of a frame.
pub const FRAME_SYMBOLS: usize = 10_000;
/// Symbols of a frame that are no idle ones, those of its begin included.
pub const FRAME_LEN: usize = CRC_AT + 4;
/// Optical modules of a floor.
pub const MODULES: usize = 6;
/// Bits of the line in a second.
pub const LINE_BITS_PER_S: u64 = 800_000_000;

const FORMAT: &str = "TDM frame";
/// Bytes of the number that a slot begins with.
const USED_LEN: usize = 2;
const MODULES_AT: usize = 8;
const MODULE_LEN: usize = 1500;
const HYDROPHONES_AT: usize = MODULES_AT + MODULES * MODULE_LEN;
const HYDROPHONE_LEN: usize = 96;
const INSTRUMENTS_AT: usize = HYDROPHONES_AT + 2 * HYDROPHONE_LEN;
const INSTRUMENTS_LEN: usize = 64;
const SLOW_CONTROL_AT: usize = INSTRUMENTS_AT + INSTRUMENTS_LEN;
const SLOW_CONTROL_LEN: usize = 256;
const CRC_AT: usize = SLOW_CONTROL_AT + SLOW_CONTROL_LEN;

mod field {
    pub const START: usize = 0;
    pub const COUNTER: usize = 2;
    pub const FLOOR: usize = 6;
    pub const FLAGS: usize = 7;
}

/// The bytes of the two control symbols that begin a frame.
const START: [u8; 2] = [0xbc, 0x3c];

/// A part of a frame that belongs to one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// An optical module, 0 to 5.
    Module(u8),
    /// A hydrophone, 0 or 1.
    Hydrophone(u8),
    /// The instruments of the floor.
    Instruments,
    /// Slow control.
    SlowControl,
}

impl Slot {
    /// Every slot, in the order of a frame.
    pub const ALL: [Self; 10] = [
        Self::Module(0),
        Self::Module(1),
        Self::Module(2),
        Self::Module(3),
        Self::Module(4),
        Self::Module(5),
        Self::Hydrophone(0),
        Self::Hydrophone(1),
        Self::Instruments,
        Self::SlowControl,
    ];

    /// Its bytes in a frame.
    ///
    /// # Panics
    /// If there is no such module or hydrophone.
    const fn range(self) -> Range<usize> {
        let (at, len) = match self {
            Self::Module(module) => {
                assert!((module as usize) < MODULES, "a floor has six modules");
                (MODULES_AT + module as usize * MODULE_LEN, MODULE_LEN)
            }
            Self::Hydrophone(hydrophone) => {
                assert!(hydrophone < 2, "a floor has two hydrophones");
                (HYDROPHONES_AT + hydrophone as usize * HYDROPHONE_LEN, HYDROPHONE_LEN)
            }
            Self::Instruments => (INSTRUMENTS_AT, INSTRUMENTS_LEN),
            Self::SlowControl => (SLOW_CONTROL_AT, SLOW_CONTROL_LEN),
        };
        at..at + len
    }

    /// Most bytes that it carries.
    pub const fn capacity(self) -> usize {
        let Range { start, end } = self.range();
        end - start - USED_LEN
    }
}

/// View of the bytes of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Frame<T> {
    buffer: T,
}

impl<T: AsRef<[u8]>> Frame<T> {
    /// View of the first bytes of `buffer`, with start, check sum and slots tested.
    ///
    /// # Errors
    /// [`Error::Truncated`] when the buffer is too short, [`Error::Value`] for a wrong start or check
    /// sum, [`Error::Range`] for a slot that uses more than it has.
    pub fn new_checked(buffer: T) -> Result<Self> {
        let frame = Self::new_unverified(buffer)?;
        let bytes = frame.buffer.as_ref();
        check_value(FORMAT, "check sum", check_sum(bytes).into(), stored_sum(bytes).into())?;
        Ok(frame)
    }

    /// The same whatever the check sum says, for who looks into damaged frames.
    ///
    /// # Errors
    /// As [`new_checked`](Self::new_checked), but for the check sum.
    pub fn new_unverified(buffer: T) -> Result<Self> {
        let bytes = buffer.as_ref();
        check_len(FORMAT, bytes, FRAME_LEN)?;
        let start = u16::from_be_bytes(array(bytes, field::START));
        check_value(FORMAT, "start", u16::from_be_bytes(START).into(), start.into())?;
        let frame = Self { buffer };
        for slot in Slot::ALL {
            let (min, max, got) = (0, slot.capacity() as u64, frame.used(slot) as u64);
            if got > max {
                return Err(Error::Range { format: FORMAT, field: "bytes in use", min, max, got });
            }
        }
        Ok(frame)
    }

    /// Whether the check sum is that of the bytes before it.
    pub fn verify_check_sum(&self) -> bool {
        let bytes = self.buffer.as_ref();
        check_sum(bytes) == stored_sum(bytes)
    }

    /// Number of the frame on its line.
    pub fn counter(&self) -> u32 {
        u32::from_be_bytes(array(self.buffer.as_ref(), field::COUNTER))
    }

    /// Floor that sends it.
    pub fn floor(&self) -> u8 {
        self.buffer.as_ref()[field::FLOOR]
    }

    /// Flags, 0 unless the sender sets them.
    pub fn flags(&self) -> u8 {
        self.buffer.as_ref()[field::FLAGS]
    }

    fn used(&self, slot: Slot) -> usize {
        u16::from_be_bytes(array(self.buffer.as_ref(), slot.range().start)).into()
    }

    /// What a slot carries.
    ///
    /// # Panics
    /// If there is no such module or hydrophone.
    pub fn slot(&self, slot: Slot) -> &[u8] {
        &self.buffer.as_ref()[slot.range()][USED_LEN..][..self.used(slot)]
    }

    /// The hits of an optical module. An error is the last that comes.
    ///
    /// # Panics
    /// If there is no such module.
    pub fn hits(&self, module: u8) -> Hits<'_> {
        Hits { rest: self.slot(Slot::Module(module)) }
    }
}

fn stored_sum(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(array(bytes, CRC_AT))
}

/// The CRC of all that it stands for.
fn check_sum(bytes: &[u8]) -> u32 {
    crc32(&bytes[field::COUNTER..CRC_AT])
}

/// Prints counter, floor, flags, the bytes in use of each slot, and whether the check sum is right.
impl<T: AsRef<[u8]>> fmt::Display for Frame<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{FORMAT}")?;
        writeln!(f, "  {:<22} {}", "counter", self.counter())?;
        writeln!(f, "  {:<22} {}", "floor", self.floor())?;
        writeln!(f, "  {:<22} {:#04x}", "flags", self.flags())?;
        write!(f, "  {:<22}", "bytes in use")?;
        Slot::ALL.iter().try_for_each(|&slot| write!(f, " {}", self.used(slot)))?;
        let is_right = if self.verify_check_sum() { "right" } else { "wrong" };
        write!(f, "\n  {:<22} {is_right}", "check sum")
    }
}

/// A pulse in an optical module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Hit<'a> {
    /// Time in the frame, in ticks of 5 ns.
    pub time: u16,
    /// Flags of the module.
    pub flags: u8,
    /// Its shape, in samples of 5 ns.
    pub samples: &'a [u8],
}

/// Prints time, flags and number of samples.
impl fmt::Display for Hit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { time, flags, samples } = self;
        write!(f, "hit at {time} ticks of 5 ns, flags {flags:#04x}, {} samples", samples.len())
    }
}

/// The hits of an optical module one after the other.
#[derive(Clone, Debug)]
pub struct Hits<'a> {
    rest: &'a [u8],
}

impl<'a> Hits<'a> {
    const HEADER_LEN: usize = 4;

    fn hit(&self) -> Result<(Hit<'a>, &'a [u8])> {
        check_len("TDM hit", self.rest, Self::HEADER_LEN)?;
        let (header, rest) = self.rest.split_at(Self::HEADER_LEN);
        let len = usize::from(header[3]);
        check_len("TDM hit", rest, len)?;
        let (samples, rest) = rest.split_at(len);
        let time = u16::from_be_bytes(array(header, 0));
        Ok((Hit { time, flags: header[2], samples }, rest))
    }
}

impl<'a> Iterator for Hits<'a> {
    type Item = Result<Hit<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let hit = self.hit();
        self.rest = hit.map_or(&[], |(_, rest)| rest);
        Some(hit.map(|(hit, _)| hit))
    }
}

/// A frame as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repr {
    /// Number of the frame on its line.
    pub counter: u32,
    /// Floor that sends it.
    pub floor: u8,
    /// Flags.
    pub flags: u8,
    /// What each slot carries, in the order of [`Slot::ALL`].
    pub slots: [Vec<u8>; Slot::ALL.len()],
}

impl Repr {
    /// The fields of a frame.
    pub fn parse<T: AsRef<[u8]>>(frame: &Frame<T>) -> Self {
        let slots = Slot::ALL.map(|slot| frame.slot(slot).to_vec());
        Self { counter: frame.counter(), floor: frame.floor(), flags: frame.flags(), slots }
    }

    /// Bytes that `emit` writes.
    pub const fn buffer_len(&self) -> usize {
        FRAME_LEN
    }

    /// Writes the frame, zeros where slots are not in use.
    ///
    /// # Panics
    /// If `bytes` is too short, or a slot carries more than its [capacity](Slot::capacity).
    pub fn emit(&self, bytes: &mut [u8]) {
        let bytes = &mut bytes[..FRAME_LEN];
        bytes.fill(0);
        put(bytes, field::START, START);
        put(bytes, field::COUNTER, self.counter.to_be_bytes());
        bytes[field::FLOOR] = self.floor;
        bytes[field::FLAGS] = self.flags;
        for (slot, carried) in Slot::ALL.into_iter().zip(&self.slots) {
            assert!(carried.len() <= slot.capacity(), "{slot:?} has no place for so much");
            let place = &mut bytes[slot.range()];
            put(place, 0, (carried.len() as u16).to_be_bytes());
            place[USED_LEN..][..carried.len()].copy_from_slice(carried);
        }
        put(bytes, CRC_AT, check_sum(bytes).to_be_bytes());
    }
}

/// Appends a hit to what a module carries.
///
/// # Panics
/// If it has more than 255 samples.
pub fn push_hit(hit: &Hit<'_>, carried: &mut Vec<u8>) {
    let samples = u8::try_from(hit.samples.len()).expect("a hit has at most 255 samples");
    carried.extend(hit.time.to_be_bytes());
    carried.extend([hit.flags, samples]);
    carried.extend(hit.samples);
}

/// Codes the bytes of a frame and the idle symbols behind it: [`FRAME_SYMBOLS`] symbols, on a line of
/// this disparity.
///
/// # Panics
/// If `frame` is shorter than [`FRAME_LEN`].
pub fn encode_frame(frame: &[u8], disparity: &mut Disparity, mut symbol: impl FnMut(u16)) {
    let data = frame[START.len()..FRAME_LEN].iter().map(|&byte| Symbol::Data(byte));
    let idle = core::iter::repeat_n(K28_5, FRAME_SYMBOLS - FRAME_LEN);
    for each in [K28_5, K28_1].into_iter().chain(data).chain(idle) {
        let (bits, next) = encode(each, *disparity);
        *disparity = next;
        symbol(bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repr() -> Repr {
        let mut repr = Repr { counter: 0x0102_0304, floor: 13, flags: 1, ..Repr::default() };
        push_hit(&Hit { time: 24_999, flags: 2, samples: &[9, 200, 60] }, &mut repr.slots[5]);
        push_hit(&Hit { time: 0, flags: 0, samples: &[] }, &mut repr.slots[5]);
        repr.slots[9] = b"hv=1".to_vec();
        repr
    }

    fn frame() -> Vec<u8> {
        let mut bytes = vec![0xa5; FRAME_LEN];
        repr().emit(&mut bytes);
        bytes
    }

    #[test]
    fn stored_form() {
        let bytes = frame();
        assert_eq!(bytes.len(), 9524);
        assert_eq!(bytes[..8], [0xbc, 0x3c, 1, 2, 3, 4, 13, 1]);
        let hits = [0, 11, 0x61, 0xa7, 2, 3, 9, 200, 60, 0, 0, 0, 0];
        assert_eq!(bytes[8 + 5 * 1500..][..13], hits);
        assert_eq!(bytes[9264..9270], [0, 4, b'h', b'v', b'=', b'1']);
        assert_eq!(bytes[9520..], crc32(&bytes[2..9520]).to_be_bytes());
    }

    #[test]
    fn a_frame_lasts_125_us() {
        let bits = (FRAME_SYMBOLS * code::SYMBOL_BITS as usize) as u64;
        assert_eq!(bits * 1_000_000 / LINE_BITS_PER_S, 125);
        let mut symbols = 0;
        encode_frame(&frame(), &mut Disparity::default(), |_| symbols += 1);
        assert_eq!(symbols, FRAME_SYMBOLS);
    }

    #[test]
    fn hits_are_read_up_to_the_first_bad_one() {
        let mut repr = repr();
        repr.slots[5].extend([1, 2, 3, 200]);
        let mut bytes = vec![0; FRAME_LEN];
        repr.emit(&mut bytes);
        let frame = Frame::new_checked(bytes).unwrap();
        let hits: Vec<_> = frame.hits(5).collect();
        assert_eq!(hits[0], Ok(Hit { time: 24_999, flags: 2, samples: &[9, 200, 60] }));
        let truncated = Error::Truncated { format: "TDM hit", expected: 200, got: 0 };
        assert_eq!((hits.len(), hits[2]), (3, Err(truncated)));
        assert_eq!(frame.hits(0).count(), 0);
    }

    #[test]
    fn malformed_frames() {
        let error_with = |at: usize, value: u8, is_summed: bool| {
            let mut bytes = frame();
            bytes[at] = value;
            if is_summed {
                let sum = check_sum(&bytes);
                put(&mut bytes, CRC_AT, sum.to_be_bytes());
            }
            Frame::new_checked(bytes).unwrap_err()
        };
        assert!(matches!(error_with(1, 0xbc, false), Error::Value { field: "start", .. }));
        assert!(matches!(error_with(700, 1, false), Error::Value { field: "check sum", .. }));
        assert!(matches!(error_with(8, 6, true), Error::Range { max: 1498, got: 1536, .. }));
        let error = Frame::new_checked(&frame()[..9523]).unwrap_err();
        assert_eq!(error, Error::Truncated { format: FORMAT, expected: 9524, got: 9523 });
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn every_frame_comes_back(
            (counter, floor, flags) in any::<(u32, u8, u8)>(),
            fills in prop::array::uniform10(0.0..=1.0_f64),
            seed: u64,
        ) {
            let slots = core::array::from_fn(|index| {
                let len = (Slot::ALL[index].capacity() as f64 * fills[index]) as usize;
                crate::noise::bytes(seed ^ index as u64, len)
            });
            let repr = Repr { counter, floor, flags, slots };
            let mut bytes = vec![0xa5; FRAME_LEN];
            repr.emit(&mut bytes);
            prop_assert_eq!(Repr::parse(&Frame::new_checked(bytes).unwrap()), repr);
        }
    }
}
