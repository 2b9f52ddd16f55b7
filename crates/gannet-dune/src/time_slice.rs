//! Time slices: the stream of trigger primitives cut into files at fixed intervals of time.

use gannet_wire::fragment_type::FragmentType;
use gannet_wire::geo_id::DAQ_DETECTOR;
use gannet_wire::record::Record;
use gannet_wire::source_id::{SourceId, Subsystem};
use gannet_wire::time_slice::TimeSliceHeader;
use gannet_wire::{TriggerPrimitive, fragment};

use crate::trigger_fragments::TriggerFragments;
use gannet_log::{Chunk, Kind, Label};
use gannet_record::Fragment;

/// All primitives that start within one interval, and late ones that missed theirs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimeSlice {
    /// Header.
    pub header: TimeSliceHeader,
    /// The primitives, in the order of start time and channel.
    pub fragment: Fragment,
    /// Number of primitives.
    pub primitives: usize,
}

impl TimeSlice {
    /// The slice as a chunk of the log: header, then the fragment with its header.
    pub fn into_chunk(self) -> Chunk {
        let mut header = vec![0; TimeSliceHeader::LEN];
        self.header.emit(&mut header);
        let mut fragment_header = vec![0; fragment::Repr::LEN];
        self.fragment.header.emit(&mut fragment_header);
        let window = &self.fragment.header;
        let label = Label::new(Kind::TP_SLICE)
            .times(window.window_begin, window.window_end)
            .counts(self.primitives as u32, 0);
        Chunk { label, parts: vec![header, fragment_header, self.fragment.payload] }
    }
}

/// Gathers primitives into slices; a state machine without clock or thread.
#[derive(Debug)]
pub struct SliceBuilder {
    run_number: u32,
    slice_ticks: u64,
    primitives_max: usize,
    next_number: u64,
    window_begin: Option<u64>,
    primitives: Vec<TriggerPrimitive>,
}

impl SliceBuilder {
    /// The source that the primitives of slices name as theirs.
    pub const SOURCE: SourceId = TriggerFragments::PRIMITIVES;
    /// The source that slices name as their builder. Files find the parts of a slice by their
    /// source, so it differs from that of the primitives.
    pub const BUILDER: SourceId = SourceId::new(Subsystem::TrBuilder, 0);

    /// Slices of `slice_ticks` ticks, cut short when one holds `primitives_max` primitives.
    ///
    /// # Panics
    /// When either number is zero.
    pub fn new(run_number: u32, slice_ticks: u64, primitives_max: usize) -> Self {
        assert!(slice_ticks > 0 && primitives_max > 0, "a slice needs room");
        Self {
            run_number,
            slice_ticks,
            primitives_max,
            next_number: 1,
            window_begin: None,
            primitives: Vec::with_capacity(primitives_max),
        }
    }

    /// Adds a primitive; gives the slice that is complete before it, if there is one.
    ///
    /// A primitive that starts before the open slice is late and goes into the open one, so that
    /// none is lost.
    pub fn push(&mut self, primitive: TriggerPrimitive) -> Option<TimeSlice> {
        let start = primitive.time_start();
        let begin = *self.window_begin.get_or_insert(start - start % self.slice_ticks);
        let over = start >= begin.saturating_add(self.slice_ticks)
            || self.primitives.len() == self.primitives_max;
        let finished = if over { self.finish() } else { None };
        if over {
            self.window_begin = Some(begin.max(start - start % self.slice_ticks));
        }
        self.primitives.push(primitive);
        finished
    }

    /// Adds a primitive that is not part of the order to the open slice, whatever its time; gives
    /// the slice that was full, if one was.
    pub fn push_beside(&mut self, primitive: TriggerPrimitive) -> Option<TimeSlice> {
        let full = self.primitives.len() == self.primitives_max;
        let finished = if full { self.finish() } else { None };
        self.primitives.push(primitive);
        finished
    }

    /// Closes the open slice, if it holds anything, and lets the next begin at any time.
    pub fn begin_anew(&mut self) -> Option<TimeSlice> {
        let finished = self.finish();
        self.window_begin = None;
        finished
    }

    /// Closes the open slice, if it holds anything.
    pub fn finish(&mut self) -> Option<TimeSlice> {
        let first = self.primitives.first()?.time_start();
        let begin = self.window_begin.unwrap_or(first - first % self.slice_ticks);
        self.primitives.sort_unstable_by_key(TriggerPrimitive::time_order);
        let count = self.primitives.len();
        let payload =
            self.primitives.iter().flat_map(|primitive| primitive.to_le_bytes()).collect();
        self.primitives.clear();
        let number = self.next_number;
        self.next_number += 1;
        Some(TimeSlice {
            header: TimeSliceHeader {
                number,
                run_number: self.run_number,
                source_id: Self::BUILDER,
            },
            fragment: self.fragment(number, begin, payload),
            primitives: count,
        })
    }

    fn fragment(&self, number: u64, begin: u64, payload: Vec<u8>) -> Fragment {
        let header = fragment::Repr {
            version: fragment::Version::V5,
            size: (fragment::Repr::LEN + payload.len()) as u64,
            trigger_number: number,
            trigger_timestamp: begin,
            window_begin: begin,
            window_end: begin.saturating_add(self.slice_ticks),
            run_number: self.run_number,
            error_bits: 0,
            fragment_type: FragmentType::TriggerPrimitive,
            sequence_number: 0,
            detector_id: DAQ_DETECTOR,
            source_id: Self::SOURCE,
        };
        Fragment { header, payload }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn primitive(channel: u64, time_start: u64) -> TriggerPrimitive {
        TriggerPrimitive { words: [2 | channel << 24, time_start, 0] }
    }

    fn starts(slice: &TimeSlice) -> Vec<u64> {
        let bytes = slice.fragment.payload.chunks_exact(TriggerPrimitive::LEN);
        bytes.map(|tp| u64::from_le_bytes(tp[8..16].try_into().unwrap())).collect()
    }

    #[test]
    fn a_slice_closes_when_time_passes_its_end() {
        let mut builder = SliceBuilder::new(7, 1000, 100);
        assert_eq!(builder.push(primitive(2, 1500)), None);
        assert_eq!(builder.push(primitive(1, 1500)), None);
        let slice = builder.push(primitive(1, 2000)).unwrap();
        assert_eq!((slice.header.number, slice.header.run_number), (1, 7));
        assert_eq!(slice.fragment.header.window_begin, 1000);
        assert_eq!(slice.fragment.header.window_end, 2000);
        assert_eq!((starts(&slice), slice.primitives), (vec![1500, 1500], 2));
        assert_eq!(slice.fragment.payload[3], 1, "channel 1 comes first");
        assert_eq!(slice.fragment.header.size as usize, 72 + 48);
        assert_eq!(slice.fragment.header.detector_id, DAQ_DETECTOR);
        assert_eq!(starts(&builder.finish().unwrap()), [2000]);
        assert_eq!(builder.finish(), None);
    }

    #[test]
    fn a_late_primitive_goes_into_the_open_slice() {
        let mut builder = SliceBuilder::new(7, 1000, 100);
        builder.push(primitive(1, 5000));
        assert_eq!(builder.push(primitive(1, 100)), None);
        assert_eq!(starts(&builder.finish().unwrap()), [100, 5000]);
    }

    #[test]
    fn a_primitive_beside_the_order_moves_no_slice() {
        let mut builder = SliceBuilder::new(7, 1000, 100);
        assert_eq!(builder.push_beside(primitive(1, 1 << 60)), None);
        assert_eq!(builder.push(primitive(1, 5000)), None);
        assert_eq!(builder.push_beside(primitive(1, 1 << 61)), None);
        let slice = builder.push(primitive(1, 6000)).unwrap();
        assert_eq!(slice.fragment.header.window_begin, 5000);
        assert_eq!(starts(&slice), [5000, 1 << 60, 1 << 61]);
        assert_eq!(starts(&builder.begin_anew().unwrap()), [6000]);
        assert_eq!(builder.push_beside(primitive(1, 100)), None);
        assert_eq!(starts(&builder.finish().unwrap()), [100], "it is not lost without a slice");
    }

    #[test]
    fn slices_go_on_from_the_past_when_time_begins_anew() {
        let mut builder = SliceBuilder::new(7, 1000, 100);
        builder.push(primitive(1, 5000));
        assert_eq!(starts(&builder.begin_anew().unwrap()), [5000]);
        assert_eq!(builder.push(primitive(1, 100)), None);
        let slice = builder.push(primitive(1, 1000)).unwrap();
        assert_eq!((slice.fragment.header.window_begin, starts(&slice)), (0, vec![100]));
    }

    #[test]
    fn a_full_slice_is_cut_and_none_is_lost() {
        let mut builder = SliceBuilder::new(7, 1000, 3);
        let slices: Vec<_> = (0..10).filter_map(|i| builder.push(primitive(i, 10 + i))).collect();
        let last = builder.finish().unwrap();
        assert_eq!(slices.iter().chain([&last]).map(|slice| slice.primitives).sum::<usize>(), 10);
        assert!(slices.iter().all(|slice| slice.primitives == 3));
    }
}
