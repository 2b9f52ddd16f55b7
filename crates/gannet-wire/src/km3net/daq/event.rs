//! Events: the hits that made a trigger, and all hits around them.
//!
//! Source: KM3NeT/km3pipe, `io/daq.py`; KM3NeT/KM3io.jl, `daq.jl`.

use core::fmt;

use super::{
    CONTENT_AT, DataType, Header, PREAMBLE_LEN, begin_object, check_end, counted, finish_object,
    push_counted, split_object,
};
use crate::error::Result;
use crate::km3net::Hit;
use crate::layout::{check_len, put};
use crate::little_endian as le;
use crate::record::{BitNames, Record, Records};

const FORMAT: &str = "KM3NeT event";

/// Places behind the header.
mod field {
    pub const TRIGGER_COUNTER: usize = 0;
    pub const TRIGGER_MASK: usize = 8;
    pub const OVERLAYS: usize = 16;
    pub const END: usize = 20;
}

/// Bits of trigger masks, counted from the least significant.
pub mod trigger_bit {
    /// Shower trigger.
    pub const SHOWER: u32 = 1;
    /// Shower trigger of mixed hits.
    pub const MIXED_SHOWER: u32 = 2;
    /// Muon trigger.
    pub const MUON: u32 = 4;
    /// Trigger of a calibration light.
    pub const NANOBEACON: u32 = 5;
    /// There were more hits than are kept.
    pub const LIMIT_REACHED: u32 = 31;
}

/// Names of the bits, from bit 0 on.
const TRIGGERS: [&str; 6] = ["bit 0", "shower", "mixed shower", "bit 3", "muon", "nanobeacon"];

/// Triggers of a mask, see [`trigger_bit`]; printed by their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers(pub u64);

impl fmt::Display for Triggers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        BitNames { word: self.0, names: &TRIGGERS }.fmt(f)
    }
}

/// What an event tells beside its hits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventHeader {
    /// Detector, run and slice.
    pub header: Header,
    /// Number of the trigger.
    pub trigger_counter: u64,
    /// Triggers that there were, see [`trigger_bit`].
    pub trigger_mask: u64,
    /// Events that were merged into this one.
    pub overlays: u32,
}

/// A hit with its module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SnapshotHit {
    /// Identifier of the module.
    pub module: u32,
    /// The hit.
    pub hit: Hit,
}

impl Record for SnapshotHit {
    const FORMAT: &'static str = "KM3NeT hit of an event";
    const LEN: usize = 4 + Hit::LEN;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        Self { module: le::u32(bytes, 0), hit: Hit::read(&bytes[4..]) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.module.to_le_bytes());
        self.hit.emit(&mut bytes[4..]);
    }
}

/// Prints module and hit.
impl fmt::Display for SnapshotHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "module {}, {}", self.module, self.hit)
    }
}

/// A hit that made a trigger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TriggeredHit {
    /// The hit with its module.
    pub snapshot: SnapshotHit,
    /// Triggers that it made, see [`trigger_bit`].
    pub trigger_mask: u64,
}

impl Record for TriggeredHit {
    const FORMAT: &'static str = "KM3NeT triggered hit";
    const LEN: usize = SnapshotHit::LEN + 8;

    fn check(_: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read(bytes: &[u8]) -> Self {
        let snapshot = SnapshotHit::read(bytes);
        Self { snapshot, trigger_mask: le::u64(bytes, SnapshotHit::LEN) }
    }

    fn emit(&self, bytes: &mut [u8]) {
        self.snapshot.emit(bytes);
        put(bytes, SnapshotHit::LEN, self.trigger_mask.to_le_bytes());
    }
}

/// Prints module, hit and triggers.
impl fmt::Display for TriggeredHit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let triggers = Triggers(self.trigger_mask);
        write!(f, "{}, {triggers}", self.snapshot)
    }
}

/// View of an event.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    bytes: &'a [u8],
    triggered: &'a [u8],
    snapshot: &'a [u8],
}

impl<'a> Event<'a> {
    /// The event at the begin of `bytes`, and what follows it.
    ///
    /// # Errors
    /// As [`TimeSlice::new_checked`](super::TimeSlice::new_checked).
    pub fn new_checked(bytes: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let is_event = |data_type| data_type == DataType::Event;
        let (object, rest) = split_object(FORMAT, bytes, is_event)?;
        check_len(FORMAT, object, CONTENT_AT + field::END)?;
        let hits = &object[CONTENT_AT + field::END..];
        let (triggered, hits) = counted(FORMAT, hits, TriggeredHit::LEN)?;
        let (snapshot, behind) = counted(FORMAT, hits, SnapshotHit::LEN)?;
        check_end(FORMAT, behind)?;
        Ok((Self { bytes: object, triggered, snapshot }, rest))
    }

    /// What it tells beside its hits.
    pub fn header(&self) -> EventHeader {
        let content = &self.bytes[CONTENT_AT..];
        EventHeader {
            header: Header::read(&self.bytes[PREAMBLE_LEN..]),
            trigger_counter: le::u64(content, field::TRIGGER_COUNTER),
            trigger_mask: le::u64(content, field::TRIGGER_MASK),
            overlays: le::u32(content, field::OVERLAYS),
        }
    }

    /// Hits that made the triggers.
    pub fn triggered_hits(&self) -> Records<'a, TriggeredHit> {
        Records::new_checked(self.triggered).expect("the event was tested")
    }

    /// All hits around them.
    pub fn snapshot_hits(&self) -> Records<'a, SnapshotHit> {
        Records::new_checked(self.snapshot).expect("the event was tested")
    }
}

/// Prints header, triggers and numbers of hits.
impl fmt::Display for Event<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EventHeader { header, trigger_counter, trigger_mask, overlays } = self.header();
        let triggers = Triggers(trigger_mask);
        let (triggered, snapshot) = (self.triggered_hits(), self.snapshot_hits().len());
        write!(f, "event {trigger_counter}, {header}, triggers {triggers}, {overlays} overlays, ")?;
        write!(f, "{} triggered hits of {snapshot}", triggered.len())
    }
}

/// Appends an event to `out`.
pub fn emit_event(
    event: &EventHeader,
    triggered: &[TriggeredHit],
    snapshot: &[SnapshotHit],
    out: &mut Vec<u8>,
) {
    let at = begin_object(DataType::Event, &event.header, out);
    out.extend(event.trigger_counter.to_le_bytes());
    out.extend(event.trigger_mask.to_le_bytes());
    out.extend(event.overlays.to_le_bytes());
    push_counted(triggered, out);
    push_counted(snapshot, out);
    finish_object(at, out);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;

    const HIT: SnapshotHit = SnapshotHit {
        module: 808_488_895,
        hit: Hit { channel: 3, time: 0x0102_0304, time_over_threshold: 26 },
    };
    const TRIGGERED: TriggeredHit = TriggeredHit { snapshot: HIT, trigger_mask: 1 << 4 };

    fn header() -> EventHeader {
        let header = Header { detector: 29, run: 7, ..Header::default() };
        EventHeader { header, trigger_counter: 12, trigger_mask: 0b1_0010, overlays: 1 }
    }

    fn event() -> Vec<u8> {
        let mut bytes = Vec::new();
        emit_event(&header(), &[TRIGGERED], &[HIT; 2], &mut bytes);
        bytes
    }

    #[test]
    fn stored_form() {
        let bytes = event();
        assert_eq!(bytes.len(), 50 + 4 + 18 + 4 + 20);
        assert_eq!(bytes[..10], [96, 0, 0, 0, 0x11, 0x27, 0, 0, 4, 0]);
        assert_eq!(bytes[30..50], [12, 0, 0, 0, 0, 0, 0, 0, 18, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(bytes[50..64], [1, 0, 0, 0, 0xbf, 0x8f, 0x30, 0x30, 3, 1, 2, 3, 4, 26]);
        assert_eq!(bytes[64..76], [16, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
        let (event, rest) = Event::new_checked(&bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!(event.header(), header());
        assert_eq!(event.triggered_hits().collect::<Vec<_>>(), [TRIGGERED]);
        assert_eq!(event.snapshot_hits().collect::<Vec<_>>(), [HIT; 2]);
        let text = event.to_string();
        assert!(
            text.ends_with("triggers shower, muon, 1 overlays, 1 triggered hits of 2"),
            "{text}"
        );
        let text = TRIGGERED.to_string();
        assert_eq!(text, "module 808488895, channel 3 at 16909060 ns for 26 ns, muon");
    }

    #[test]
    fn malformed_counts() {
        let error_with = |at: usize, value: u8| {
            let mut bytes = event();
            bytes[at] = value;
            Event::new_checked(&bytes).unwrap_err()
        };
        assert!(matches!(error_with(50, 3), Error::Truncated { expected: 54, got: 42, .. }));
        assert!(matches!(error_with(53, 255), Error::Truncated { .. }));
        assert!(matches!(error_with(72, 1), Error::Value { field: "bytes left", got: 10, .. }));
        assert!(matches!(error_with(8, 5), Error::Version { known: "4", got: 5, .. }));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_event_comes_back(
            (trigger_counter, trigger_mask, overlays) in any::<(u64, u64, u32)>(),
            hits in prop::collection::vec(any::<(u32, u8, u32, u8, u64)>(), 0..40),
            snapshot in 0..40_usize,
        ) {
            let triggered: Vec<_> = hits.into_iter().map(|(module, channel, time, tot, trigger_mask)| {
                let hit = Hit { channel, time, time_over_threshold: tot };
                TriggeredHit { snapshot: SnapshotHit { module, hit }, trigger_mask }
            }).collect();
            let snapshot: Vec<_> = triggered.iter().take(snapshot).map(|hit| hit.snapshot).collect();
            let repr = EventHeader { trigger_counter, trigger_mask, overlays, ..header() };
            let mut bytes = Vec::new();
            emit_event(&repr, &triggered, &snapshot, &mut bytes);
            let (event, _) = Event::new_checked(&bytes).unwrap();
            prop_assert_eq!(event.header(), repr);
            prop_assert_eq!(event.triggered_hits().collect::<Vec<_>>(), triggered);
            prop_assert_eq!(event.snapshot_hits().collect::<Vec<_>>(), snapshot);
        }
    }
}
