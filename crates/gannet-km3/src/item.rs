//! What the finders hand to the trigger.

use gannet_kernels::coincidences::CalibratedHit;
use gannet_trigger::Item;
use gannet_wire::km3net::daq::SummaryFrame;
use gannet_wire::km3net::{CHANNELS, Status};
use gannet_wire::record::Record;

/// Bytes of a summary that an item holds.
const PART_LEN: usize = 12;
/// Bytes of a summary: state of the packets, status words, rates.
const SUMMARY_LEN: usize = 4 + 4 * Status::WORDS + CHANNELS;
/// Items of a summary.
pub const SUMMARY_ITEMS: usize = SUMMARY_LEN.div_ceil(PART_LEN);

/// Something that a module saw, or a part of what it says of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Km3Item {
    /// Time of the detector, in ns: since 1970, and the calibration added.
    pub time: u64,
    /// Stream of the module.
    pub module: u16,
    kind: Kind,
    /// Channel of a hit, or number of a part.
    place: u8,
    bytes: [u8; PART_LEN],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Hit,
    Summary,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// A hit that others confirm.
    Hit {
        /// Photomultiplier.
        channel: u8,
        /// Time over threshold, in ns.
        time_over_threshold: u8,
        /// Levels that it is of, a bit for each [`Level`](crate::levels::Level).
        levels: u8,
    },
    /// A part of a summary.
    Summary(Part),
}

/// A part of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    number: u8,
    bytes: [u8; PART_LEN],
}

impl Km3Item {
    /// A hit of a slice that begins at `begin`.
    #[inline]
    pub fn hit(begin: u64, module: u16, hit: CalibratedHit, levels: u8) -> Self {
        let mut bytes = [0; PART_LEN];
        (bytes[0], bytes[1]) = (hit.time_over_threshold(), levels);
        let time = begin + u64::from(hit.time());
        Self { time, module, kind: Kind::Hit, place: hit.channel(), bytes }
    }

    /// The items of a summary, which all have this time.
    pub fn summary(time: u64, module: u16, frame: &SummaryFrame) -> [Self; SUMMARY_ITEMS] {
        let mut bytes = [0; PART_LEN * SUMMARY_ITEMS];
        bytes[..4].copy_from_slice(&frame.daq_status.to_le_bytes());
        for (place, word) in bytes[4..].chunks_mut(4).zip(frame.status.0) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes[4 + 4 * Status::WORDS..SUMMARY_LEN].copy_from_slice(&frame.rates);
        let parts = bytes.as_chunks::<PART_LEN>().0;
        core::array::from_fn(|number| {
            let (place, bytes) = (number as u8, parts[number]);
            Self { time, module, kind: Kind::Summary, place, bytes }
        })
    }

    /// What it is.
    #[inline]
    pub fn what(&self) -> What {
        match self.kind {
            Kind::Hit => What::Hit {
                channel: self.place,
                time_over_threshold: self.bytes[0],
                levels: self.bytes[1],
            },
            Kind::Summary => What::Summary(Part { number: self.place, bytes: self.bytes }),
        }
    }
}

impl Part {
    /// Puts it where it belongs in a summary.
    pub fn put(&self, frame: &mut SummaryFrame) {
        let first = PART_LEN * usize::from(self.number);
        for (at, &byte) in (first..SUMMARY_LEN).zip(&self.bytes) {
            let shift = 8 * (at % 4);
            match at {
                0..4 => frame.daq_status |= u32::from(byte) << shift,
                at if at < 4 + 4 * Status::WORDS => {
                    frame.status.0[at / 4 - 1] |= u32::from(byte) << shift;
                }
                _ => frame.rates[at - 4 - 4 * Status::WORDS] = byte,
            }
        }
    }
}

/// Where the fields of an item lie, as one process gives it to another.
mod field {
    pub const TIME: usize = 0;
    pub const MODULE: usize = 8;
    pub const KIND: usize = 10;
    pub const PLACE: usize = 11;
    pub const BYTES: usize = 12;
}

impl Record for Km3Item {
    const FORMAT: &'static str = "item of a module";
    const LEN: usize = field::BYTES + PART_LEN;

    fn check(bytes: &[u8]) -> gannet_wire::Result<()> {
        let places = if bytes[field::KIND] == 0 { CHANNELS } else { SUMMARY_ITEMS };
        let limits = [("kind", bytes[field::KIND], 1), ("place", bytes[field::PLACE], places - 1)];
        for (field, got, max) in limits {
            if usize::from(got) > max {
                let (format, expected) = (Self::FORMAT, max as u64);
                return Err(gannet_wire::Error::Value { format, field, expected, got: got.into() });
            }
        }
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self {
            time: u64::from_le_bytes(*bytes[field::TIME..].first_chunk().expect("8 bytes")),
            module: u16::from_le_bytes(*bytes[field::MODULE..].first_chunk().expect("2 bytes")),
            kind: if bytes[field::KIND] == 0 { Kind::Hit } else { Kind::Summary },
            place: bytes[field::PLACE],
            bytes: *bytes[field::BYTES..].first_chunk().expect("a part"),
        }
    }

    fn emit(&self, bytes: &mut [u8]) {
        bytes[field::TIME..field::MODULE].copy_from_slice(&self.time.to_le_bytes());
        bytes[field::MODULE..field::KIND].copy_from_slice(&self.module.to_le_bytes());
        (bytes[field::KIND], bytes[field::PLACE]) = (self.kind as u8, self.place);
        bytes[field::BYTES..Self::LEN].copy_from_slice(&self.bytes);
    }
}

impl Item for Km3Item {
    /// Module, kind, channel or part, then time over threshold.
    type Place = (u16, u8, u8, u8);

    #[inline]
    fn time(&self) -> u64 {
        self.time
    }

    #[inline]
    fn place(&self) -> Self::Place {
        (self.module, self.kind as u8, self.place, self.bytes[0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_the_same_when_its_parts_are_put_together() {
        let frame = SummaryFrame {
            module: 0,
            daq_status: 0x0123_4567,
            status: Status([0x89ab_cdef, 0x8000_0001, 0xffff_0000, 7]),
            rates: core::array::from_fn(|channel| 255 - channel as u8),
        };
        let mut again = SummaryFrame::default();
        for item in Km3Item::summary(5, 3, &frame).iter().rev() {
            let What::Summary(part) = item.what() else { panic!("{item:?}") };
            part.put(&mut again);
        }
        assert_eq!(again, frame);
    }

    #[test]
    fn items_come_back_from_their_bytes() {
        let frame = SummaryFrame { daq_status: 5, ..SummaryFrame::default() };
        let hit = Km3Item::hit(10, 7, CalibratedHit::new(3, 30, 200), 5);
        for item in Km3Item::summary(1 << 40, 513, &frame).into_iter().chain([hit]) {
            let mut bytes = [0; Km3Item::LEN];
            item.emit(&mut bytes);
            assert_eq!(Km3Item::parse(&bytes), Ok(item));
            for at in [field::KIND, field::PLACE] {
                let mut wrong = bytes;
                wrong[at] = 77;
                assert!(Km3Item::parse(&wrong).is_err());
            }
        }
    }

    #[test]
    fn hits_of_one_time_are_in_the_order_of_module_channel_and_time_over_threshold() {
        let item =
            |module, channel, tot| Km3Item::hit(10, module, CalibratedHit::new(3, channel, tot), 1);
        let places = [item(1, 5, 9), item(2, 0, 3), item(2, 4, 1), item(2, 4, 2)];
        assert!(places.is_sorted_by_key(Item::place));
        assert_eq!(places[0].time, 13);
    }
}
