//! The frames of one record, merged from its fragments.

use std::collections::{HashSet, VecDeque};

use gannet_emulate::replay::Packet;
use gannet_wire::daq_ethernet::CLOCK;
use gannet_wire::tpc_frame::FRAME_LEN;
use gannet_wire::{Fragment, FragmentType, GeoId, daq_ethernet};

use super::Skipped;

/// Frames after which an earlier one is forgotten: half a minute of a stream, and 25 MB.
const REMEMBERED_MIN: usize = 1 << 20;
/// No window is longer: a frame further than a minute from the middle frame of its record has a
/// damaged time stamp. In ticks.
const WINDOW_MAX: u64 = 60 * 62_500_000;

/// The frames of one record in the order of their time stamps.
#[derive(Default)]
pub(super) struct Frames {
    /// Bytes of the fragments, or of other rows of frames.
    parts: Vec<Vec<u8>>,
    order: VecDeque<Place>,
    skipped: Skipped,
    earlier: Earlier,
}

/// Where a frame lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    timestamp: u64,
    /// Time at which it is replayed: its time stamp, unless that is damaged.
    time: u64,
    part: usize,
    at: usize,
}

impl Frames {
    /// Takes the frames of a fragment, which is all of `bytes`.
    pub fn add_fragment(&mut self, bytes: Vec<u8>) {
        match Fragment::new_checked(&bytes).map(|fragment| fragment.header().fragment_type) {
            Ok(kind) => self.add_payload(kind, bytes, Fragment::HEADER_LEN, |_, _| false),
            Err(_) => self.add_damage(),
        }
    }

    /// Takes the frames of a fragment whose payload begins at byte `begin`.
    ///
    /// Those that the recording `holds_elsewhere`, by stream and time stamp, count as repeated.
    pub fn add_payload(
        &mut self,
        kind: FragmentType,
        bytes: Vec<u8>,
        begin: usize,
        holds_elsewhere: impl Fn(GeoId, u64) -> bool,
    ) {
        match kind {
            FragmentType::WibEth | FragmentType::TdeEth => {
                self.add_rows_unless(bytes, begin, holds_elsewhere);
            }
            _ => self.skipped.fragments += 1,
        }
    }

    /// Takes frames that lie back to back in `bytes`, from byte `begin` on.
    pub fn add_rows(&mut self, bytes: Vec<u8>, begin: usize) {
        self.add_rows_unless(bytes, begin, |_, _| false);
    }

    /// The same without the frames for which `holds_elsewhere`.
    fn add_rows_unless(
        &mut self,
        bytes: Vec<u8>,
        begin: usize,
        holds_elsewhere: impl Fn(GeoId, u64) -> bool,
    ) {
        let frames = bytes[begin.min(bytes.len())..].chunks_exact(FRAME_LEN);
        self.skipped.damaged += u64::from(!frames.remainder().is_empty());
        let part = self.parts.len();
        for (index, frame) in frames.enumerate() {
            let daq = daq_ethernet::Header::new_unchecked(frame);
            let (geo_id, timestamp) = (daq.geo_id(), daq.timestamp());
            if !holds_elsewhere(geo_id, timestamp) && self.earlier.is_first(geo_id, timestamp) {
                let at = begin + index * FRAME_LEN;
                self.order.push_back(Place { timestamp, time: timestamp, part, at });
            } else {
                self.skipped.repeated += 1;
            }
        }
        self.parts.push(bytes);
    }

    /// Counts a part of a record that cannot be read.
    pub fn add_damage(&mut self) {
        self.skipped.damaged += 1;
    }

    /// Brings the frames taken in order. Frames of one time keep the order of their fragments.
    pub fn sort(&mut self) {
        let places = self.order.make_contiguous();
        places.sort_by_key(|place| place.timestamp);
        let Some(middle) = places.get(places.len() / 2).map(|place| place.timestamp) else {
            return self.parts.clear();
        };
        let good = |place: &&Place| place.timestamp.abs_diff(middle) <= WINDOW_MAX;
        let first = places.iter().find(good).map_or(middle, |place| place.timestamp);
        let last = places.iter().rfind(good).map_or(middle, |place| place.timestamp);
        for place in places {
            place.time = place.timestamp.clamp(first, last);
        }
    }

    /// Goes to the next frame; false after the last.
    pub fn advance(&mut self) -> bool {
        self.order.pop_front();
        if self.order.is_empty() {
            self.parts.clear();
        }
        !self.order.is_empty()
    }

    /// Whether a frame is left.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The frame whose turn it is; without bytes when none is left.
    pub fn packet(&self) -> Packet<'_> {
        match self.order.front() {
            None => Packet { time_ns: 0, bytes: &[] },
            Some(place) => Packet {
                time_ns: CLOCK.ns(place.time),
                bytes: &self.parts[place.part][place.at..place.at + FRAME_LEN],
            },
        }
    }

    /// Forgets all frames, but not what was skipped.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.order.clear();
        self.earlier = Earlier::default();
    }

    /// What was passed over.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }
}

/// Remembers at least the last [`REMEMBERED_MIN`] frames by stream and time stamp, and at most
/// twice as many.
#[derive(Default)]
struct Earlier {
    recent: HashSet<(GeoId, u64)>,
    older: HashSet<(GeoId, u64)>,
}

impl Earlier {
    /// Whether the frame is seen for the first time.
    fn is_first(&mut self, stream: GeoId, timestamp: u64) -> bool {
        let frame = (stream, timestamp);
        if self.older.contains(&frame) || !self.recent.insert(frame) {
            return false;
        }
        if self.recent.len() >= REMEMBERED_MIN {
            self.older = std::mem::take(&mut self.recent);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(stream: u8, timestamp: u64) -> Vec<u8> {
        let mut frame = vec![stream; FRAME_LEN];
        let mut daq = daq_ethernet::Header::new_unchecked(&mut frame[..]);
        daq.set_geo_id(GeoId::new(3, 1, 0, stream.into()));
        daq.set_timestamp(timestamp);
        frame
    }

    fn rows(stream: u8, timestamps: impl IntoIterator<Item = u64>) -> Vec<u8> {
        timestamps.into_iter().flat_map(|timestamp| frame(stream, timestamp)).collect()
    }

    /// Times and streams of all frames left.
    fn drain(frames: &mut Frames) -> Vec<(u64, u8)> {
        frames.sort();
        let mut found = Vec::new();
        while !frames.is_empty() {
            let packet = frames.packet();
            found.push((packet.time_ns / 16, packet.bytes[FRAME_LEN - 1]));
            frames.advance();
        }
        found
    }

    #[test]
    fn frames_of_all_parts_come_in_the_order_of_time() {
        let mut frames = Frames::default();
        frames.add_rows(rows(1, [2000, 4000]), 0);
        frames.add_rows(rows(2, [1000, 3000, 4000]), 0);
        assert_eq!(drain(&mut frames), [(1000, 2), (2000, 1), (3000, 2), (4000, 1), (4000, 2)]);
    }

    #[test]
    fn overlapping_records_give_each_frame_once() {
        let mut frames = Frames::default();
        frames.add_rows(rows(1, [1000, 2000]), 0);
        assert_eq!(drain(&mut frames).len(), 2);
        frames.add_rows(rows(1, [2000, 3000]), 0);
        frames.add_rows(rows(2, [2000]), 0);
        assert_eq!(drain(&mut frames), [(2000, 2), (3000, 1)]);
        assert_eq!(frames.skipped(), Skipped { repeated: 1, ..Skipped::default() });
        frames.clear();
        frames.add_rows(rows(1, [1000]), 0);
        assert_eq!(drain(&mut frames).len(), 1);
    }

    #[test]
    fn a_damaged_time_stamp_is_not_waited_for() {
        let mut frames = Frames::default();
        frames.add_rows(rows(1, [5_000_000_000, 1 << 60, 5_000_002_048, 7]), 0);
        let times: Vec<u64> = drain(&mut frames).into_iter().map(|(time, _)| time).collect();
        assert_eq!(times, [5_000_000_000, 5_000_000_000, 5_000_002_048, 5_000_002_048]);
    }

    #[test]
    fn what_is_no_whole_frame_is_counted() {
        let mut frames = Frames::default();
        let mut cut = rows(1, [1000, 2000]);
        cut.pop();
        frames.add_rows(cut, 0);
        frames.add_rows(vec![1; 3], 7);
        frames.add_fragment(vec![0; 100]);
        assert_eq!(drain(&mut frames).len(), 1);
        assert_eq!(frames.skipped().damaged, 2);
    }
}
