//! What the finders hand to the trigger.

use std::fmt;

use gannet_trigger::Item;
use gannet_wire::na62::pm_map::BOARDS;
use gannet_wire::record::Record;

use crate::primitive::PrimitiveId;

/// Channels that one item holds; more of a board take several.
pub const HITS_MAX: usize = 10;

/// Something at a time, in half a line of the cache: these are what the deciding thread moves most.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct RichItem {
    /// Detector time in fine units, which goes on where the 40 bits of the formats wrap.
    pub time: u64,
    kind: Kind,
    board: u8,
    /// Which part of the hits of this board and time it is.
    part: u8,
    /// How many of `words` are channels of hits.
    count: u8,
    words: [u16; HITS_MAX],
}

const _: () = assert!(size_of::<RichItem>() == 32);

/// In the order in which items of one time are given out.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Kind {
    Gap,
    Hits,
    Event,
    Primitive,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// Data of a board are missing from here on.
    Gap {
        /// The board, 0 to 3.
        board: u8,
        /// Time from which they are there again.
        until: u64,
    },
    /// Hits of one board at one time, or a part of them.
    Hits(Hits<'a>),
    /// An event whose rings were found where it landed.
    Event(PrimitiveId),
    /// What another source saw.
    Primitive {
        /// Number of the source.
        source: u8,
        /// What it saw.
        id: u16,
    },
}

/// Hits of one board at one time, or a part of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hits<'a> {
    /// The board, 0 to 3.
    pub board: u8,
    count: u8,
    words: &'a [u16; HITS_MAX],
}

impl<'a> Hits<'a> {
    /// Their channels in the detector, 0 to 2047.
    #[inline]
    pub fn channels(&self) -> &'a [u16] {
        &self.words[..usize::from(self.count)]
    }

    /// The same, with words that mean nothing behind them: to be copied in one go.
    #[inline]
    pub fn padded(&self) -> &'a [u16; HITS_MAX] {
        self.words
    }
}

impl RichItem {
    /// Data of `board` are missing from `time` on, until `until`.
    pub fn gap(time: u64, board: u8, until: u64) -> Self {
        let mut words = [0; HITS_MAX];
        let until = [0, 16, 32, 48].map(|shift| (until >> shift) as u16);
        words[..until.len()].copy_from_slice(&until);
        Self { time, kind: Kind::Gap, board, part: 0, count: 0, words }
    }

    /// The first `count` of `channels` saw light at `time`, all on `board`.
    ///
    /// # Panics
    /// If there are not so many.
    #[inline]
    pub fn hits(time: u64, board: u8, part: u8, count: u8, channels: [u16; HITS_MAX]) -> Self {
        assert!(usize::from(count) <= HITS_MAX);
        Self { time, kind: Kind::Hits, board, part, count, words: channels }
    }

    /// An event whose rings were found.
    #[inline]
    pub fn event(time: u64, id: PrimitiveId) -> Self {
        let mut words = [0; HITS_MAX];
        words[0] = id.0;
        Self { time, kind: Kind::Event, board: 0, part: 0, count: 0, words }
    }

    /// What another source saw.
    pub fn primitive(time: u64, source: u8, id: u16) -> Self {
        let mut words = [0; HITS_MAX];
        words[0] = id;
        Self { time, kind: Kind::Primitive, board: source, part: 0, count: 0, words }
    }

    /// What it is.
    #[inline]
    pub fn what(&self) -> What<'_> {
        match self.kind {
            Kind::Gap => {
                let [a, b, c, d, ..] = self.words.map(u64::from);
                What::Gap { board: self.board, until: a | b << 16 | c << 32 | d << 48 }
            }
            Kind::Hits => {
                What::Hits(Hits { board: self.board, count: self.count, words: &self.words })
            }
            Kind::Event => What::Event(PrimitiveId(self.words[0])),
            Kind::Primitive => What::Primitive { source: self.board, id: self.words[0] },
        }
    }
}

impl fmt::Debug for RichItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RichItem").field("time", &self.time).field("what", &self.what()).finish()
    }
}

/// Where the fields of an item lie, as one process gives it to another.
mod field {
    pub const TIME: usize = 0;
    pub const KIND: usize = 8;
    pub const BOARD: usize = 9;
    pub const PART: usize = 10;
    pub const COUNT: usize = 11;
    pub const WORDS: usize = 12;
}

impl Kind {
    const ALL: [Self; 4] = [Self::Gap, Self::Hits, Self::Event, Self::Primitive];
}

impl Record for RichItem {
    const FORMAT: &'static str = "item of the RICH";
    const LEN: usize = field::WORDS + 2 * HITS_MAX;

    fn check(bytes: &[u8]) -> gannet_wire::Result<()> {
        let [kind, board, count] = [field::KIND, field::BOARD, field::COUNT].map(|at| bytes[at]);
        let is_of_board = usize::from(kind) < 2;
        let limits = [
            ("kind", kind, Kind::ALL.len() - 1),
            ("board", if is_of_board { board } else { 0 }, BOARDS - 1),
            ("count", count, HITS_MAX),
        ];
        for (field, got, max) in limits {
            if usize::from(got) > max {
                let (format, expected) = (Self::FORMAT, max as u64);
                return Err(gannet_wire::Error::Value { format, field, expected, got: got.into() });
            }
        }
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let words = bytes[field::WORDS..Self::LEN].as_chunks::<2>().0;
        Self {
            time: u64::from_le_bytes(*bytes[field::TIME..].first_chunk().expect("8 bytes")),
            kind: Kind::ALL[usize::from(bytes[field::KIND])],
            board: bytes[field::BOARD],
            part: bytes[field::PART],
            count: bytes[field::COUNT],
            words: core::array::from_fn(|word| u16::from_le_bytes(words[word])),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[field::TIME..field::KIND].copy_from_slice(&self.time.to_le_bytes());
        bytes[field::KIND..field::WORDS].copy_from_slice(&[
            self.kind as u8,
            self.board,
            self.part,
            self.count,
        ]);
        let words = bytes[field::WORDS..Self::LEN].as_chunks_mut::<2>().0;
        words.iter_mut().zip(self.words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
    }
}

impl Item for RichItem {
    /// Kind, then board, then part.
    type Place = (u8, u8, u8);

    #[inline]
    fn time(&self) -> u64 {
        self.time
    }

    #[inline]
    fn place(&self) -> Self::Place {
        (self.kind as u8, self.board, self.part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_from_their_bytes() {
        let channels = [1, 2, 3, 4, 5, 6, 7, 8, 2047, 0];
        for item in [
            RichItem::gap(5, 3, u64::MAX - 1),
            RichItem::hits(1 << 50, 2, 9, 10, channels),
            RichItem::event(7, PrimitiveId(0x1234)),
            RichItem::primitive(8, 200, 77),
        ] {
            let mut bytes = [1; RichItem::LEN];
            item.emit(&mut bytes);
            assert_eq!(RichItem::parse(&bytes), Ok(item));
        }
    }

    #[test]
    fn what_no_item_has_is_refused() {
        let mut good = [0; RichItem::LEN];
        RichItem::hits(5, 2, 0, 10, [0; HITS_MAX]).emit(&mut good);
        for (at, value) in [(field::KIND, 4), (field::BOARD, 4), (field::COUNT, 11)] {
            let mut bytes = good;
            bytes[at] = value;
            assert!(RichItem::parse(&bytes).is_err(), "{at}");
        }
    }
}
