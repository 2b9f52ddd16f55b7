//! Summary slices and time slices of all modules.

use std::collections::BTreeMap;
use std::sync::Arc;

use gannet_wire::km3net::daq::{
    DataType, FrameHeader, Header, SummaryFrame, TimeSliceWriter, emit_summary_slice,
};
use gannet_wire::km3net::{Hit, SLICE_NS};

use crate::geometry::Geometry;
use crate::item::Part;
use crate::levels::Level;
use crate::recent::Recent;

/// Slices that may be open at once: those that no module has left for good.
const OPEN_MAX: usize = 8;

/// Puts together what the modules say of a slice.
pub struct Slices {
    geometry: Arc<Geometry>,
    recent: Arc<[Arc<Recent>]>,
    levels: Vec<Level>,
    run: u32,
    /// Begin of the first slice of the run, which has number 1.
    first: Option<u64>,
    open: BTreeMap<u64, Slice>,
}

/// What came of a slice.
#[derive(Default)]
struct Slice {
    summaries: BTreeMap<u16, SummaryFrame>,
    hits: Vec<(u16, Hit, u8)>,
}

/// A slice as it is written.
pub struct Written {
    /// Its begin, in ns since 1970.
    pub begin: u64,
    /// Objects, one behind the other.
    pub bytes: Vec<u8>,
    /// How many they are.
    pub objects: u32,
    /// Modules that it has summaries of.
    pub modules: usize,
}

impl Slices {
    /// For the modules of `geometry` in a run; time slices are written of these levels.
    pub fn new(
        geometry: Arc<Geometry>,
        recent: Arc<[Arc<Recent>]>,
        levels: Vec<Level>,
        run: u32,
    ) -> Self {
        Self { geometry, recent, levels, run, first: None, open: BTreeMap::new() }
    }

    fn slice(&mut self, time: u64) -> &mut Slice {
        self.open.entry(time / SLICE_NS * SLICE_NS).or_default()
    }

    /// Takes a part of a summary of the slice that `time` is in.
    pub fn summary(&mut self, time: u64, module: u16, part: &Part) {
        let id = self.geometry.modules[usize::from(module)].id;
        let summaries = &mut self.slice(time).summaries;
        let new = SummaryFrame { module: id, ..SummaryFrame::default() };
        part.put(summaries.entry(module).or_insert(new));
    }

    /// Takes a hit at `time`, as the module sent it.
    pub fn hit(
        &mut self,
        time: u64,
        module: u16,
        channel: u8,
        time_over_threshold: u8,
        levels: u8,
    ) {
        let wanted =
            self.levels.iter().any(|level| *level != Level::L0 && levels & level.bit() > 0);
        if wanted {
            let hit = Hit { channel, time: (time % SLICE_NS) as u32, time_over_threshold };
            self.slice(time).hits.push((module, hit, levels));
        }
    }

    /// Detector, run and slice of what is at `time`.
    pub fn header(&mut self, time: u64) -> Header {
        let begin = time / SLICE_NS * SLICE_NS;
        let first = *self.first.get_or_insert(begin);
        let header = Header {
            detector: self.geometry.detector,
            run: self.run,
            frame_index: (begin.saturating_sub(first) / SLICE_NS + 1) as u32,
            white_rabbit: true,
            ..Header::default()
        };
        header.with_begin_ns(begin)
    }

    /// Gives the slices that end before `time`, of which nothing more will come.
    pub fn finish_before(&mut self, time: u64, mut give: impl FnMut(Written)) {
        while let Some((&begin, _)) = self.open.first_key_value()
            && (begin + SLICE_NS < time || self.open.len() > OPEN_MAX)
        {
            let Some((_, slice)) = self.open.pop_first() else { return };
            give(self.write(begin, slice));
        }
    }

    /// Gives what is left; another run of times may follow.
    pub fn finish(&mut self, give: impl FnMut(Written)) {
        self.finish_before(u64::MAX, give);
        self.first = None;
    }

    fn write(&mut self, begin: u64, mut slice: Slice) -> Written {
        let header = self.header(begin);
        let mut bytes = Vec::new();
        let frames: Vec<_> = slice.summaries.values().copied().collect();
        let is_locked = frames.iter().all(|frame| frame.status.white_rabbit());
        let header = Header { white_rabbit: is_locked, ..header };
        emit_summary_slice(&header, &frames, &mut bytes);
        slice.hits.sort_by_key(|(module, ..)| *module);
        for &level in &self.levels {
            let data_type = match level {
                Level::L0 => DataType::TimeSliceL0,
                Level::L1 => DataType::TimeSliceL1,
                Level::L2 => DataType::TimeSliceL2,
                Level::Sn => DataType::TimeSliceSn,
            };
            let mut writer = TimeSliceWriter::new(data_type, &header, &mut bytes);
            for (&module, summary) in &slice.summaries {
                let SummaryFrame { module: id, daq_status, status, .. } = *summary;
                let frame = FrameHeader { header, module: id, daq_status, status };
                writer.frame(&frame, &self.hits_of(begin, &slice, module, level));
            }
            writer.finish();
        }
        Written { begin, objects: 1 + self.levels.len() as u32, modules: frames.len(), bytes }
    }

    /// The hits of a module at a level, as it sent them.
    fn hits_of(&self, begin: u64, slice: &Slice, module: u16, level: Level) -> Vec<Hit> {
        if level == Level::L0 {
            let own = &self.geometry.modules[usize::from(module)];
            let mut hits = Vec::new();
            self.recent[usize::from(module)].slice(begin, |hit| {
                let time = own.sent_time(hit.time().into(), hit.channel()) as u32;
                let (channel, time_over_threshold) = (hit.channel(), hit.time_over_threshold());
                hits.push(Hit { channel, time, time_over_threshold });
            });
            return hits;
        }
        let from = slice.hits.partition_point(|(other, ..)| *other < module);
        let own = slice.hits[from..].iter().take_while(|(other, ..)| *other == module);
        own.filter(|(.., levels)| levels & level.bit() > 0).map(|(_, hit, _)| *hit).collect()
    }
}
