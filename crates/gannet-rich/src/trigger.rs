//! The trigger as the deciding thread runs it: hits of boards merged to events, rings found in them,
//! answers to the level-0 trigger.

use std::sync::Arc;

use gannet_measure::counter::Counter;
use gannet_measure::ledger::Account;
use gannet_memory::receive_list::UnitDrop;
use gannet_readout::items::Segment;
use gannet_readout::trigger::{Outcome, Trigger};
use gannet_record::Origin;
use gannet_trigger::merge::{InOrder, MergeCounters, Merged, Merger};
use gannet_wire::na62::m2egp;
use gannet_wire::na62::pm_map::BOARDS;

use crate::answer::{AnswerCounters, Answerer};
use crate::buffers::Buffers;
use crate::event::{Event, EventBuilder, EventCounters};
use crate::item::{RINGS_MAX, RichItem, Rings, What};
use crate::primitive::{PrimitiveId, RadiusClasses};

/// What one detector's trigger is made of.
pub struct RichTrigger {
    merger: Merger<RichItem, InOrder<RichItem>>,
    merged: Merged<RichItem>,
    /// The board of each stream that brings hits.
    boards: Vec<Option<u8>>,
    builder: EventBuilder,
    buffers: Buffers,
    answerer: Answerer,
    classes: RadiusClasses,
    /// Since when and up to when data of each board are missing.
    gaps: [(u64, u64); BOARDS],
    /// An event as bytes.
    laid_out: Box<[u8; m2egp::EVENT_LEN_MAX]>,
    counters: RichCounters,
}

/// What any thread may see of a trigger.
#[derive(Clone, Debug)]
pub struct RichCounters {
    /// What the streams brought, in one order of time.
    pub merge: Arc<MergeCounters>,
    /// Events made of it.
    pub events: Arc<EventCounters>,
    /// Events that were searched, or dropped before.
    pub searched: Arc<Account<UnitDrop>>,
    /// Answers.
    pub answers: Arc<AnswerCounters>,
    /// Events by their number of rings.
    pub rings: Arc<[Counter; RINGS_MAX + 1]>,
    /// Up to where the data have come, in fine units.
    pub last: Arc<Counter>,
    /// Where they began.
    pub first: Arc<Counter>,
}

/// The stages of a trigger.
pub(crate) struct Parts {
    pub merger: Merger<RichItem, InOrder<RichItem>>,
    pub boards: Vec<Option<u8>>,
    pub builder: EventBuilder,
    pub buffers: Buffers,
    pub answerer: Answerer,
    pub classes: RadiusClasses,
}

impl RichTrigger {
    /// A trigger of these stages.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { merger, boards, builder, buffers, answerer, classes } = parts;
        let counters = RichCounters {
            merge: Arc::clone(merger.counters()),
            events: builder.counters(),
            searched: buffers.account(),
            answers: answerer.counters(),
            rings: Arc::default(),
            last: Arc::default(),
            first: Arc::default(),
        };
        Self {
            merger,
            merged: Merged::default(),
            boards,
            builder,
            buffers,
            answerer,
            classes,
            gaps: [(0, 0); BOARDS],
            laid_out: Box::new([0; m2egp::EVENT_LEN_MAX]),
            counters,
        }
    }

    /// What any thread may see of it.
    pub fn counters(&self) -> RichCounters {
        self.counters.clone()
    }

    /// Makes events of what was merged, and gives those with known rings on.
    fn pass_on(&mut self, now_ns: u64, is_end: bool) {
        let Self { merger, merged, boards, builder, buffers, gaps, laid_out, .. } = self;
        let mut searched_to = [u64::MAX; BOARDS];
        for (stream, board) in boards.iter().enumerate() {
            if let Some(board) = board {
                let to = &mut searched_to[usize::from(*board)];
                *to = merger.searched(stream).min(*to);
            }
        }
        let mut lay = |event: &mut Event, gaps: &[(u64, u64); BOARDS]| {
            let is_missing = |board: &usize| {
                let (since, until) = gaps[*board];
                searched_to[*board] <= event.time || (since..until).contains(&event.time)
            };
            event.missing = (0..BOARDS).filter(is_missing).fold(0, |mask, board| mask | 1 << board);
            let len = event.lay_out(laid_out);
            // The account of the buffers tells of those without room.
            let _has_room = buffers.append(&laid_out[..len], event.time, now_ns);
        };
        let (answerer, classes, rings) = (&mut self.answerer, &self.classes, &self.counters.rings);
        // A gap that is known when the others have gone on already: its events wait or have gone, too.
        for item in &merged.late {
            if let What::Gap { board, until } = item.what {
                gaps[usize::from(board) % BOARDS] = (item.time, until);
            }
        }
        for item in &merged.ordered {
            match &item.what {
                What::Hits(hits) => builder.take(item.time, hits, |event| lay(event, gaps)),
                What::Gap { board, until } => {
                    builder.close_before(item.time, |event| lay(event, gaps));
                    gaps[usize::from(*board) % BOARDS] = (item.time, *until);
                }
                What::Event(found) => {
                    rings[usize::from(found.count).min(RINGS_MAX)].add(1);
                    answerer.push(item.time, PrimitiveId::of(found, classes));
                }
            }
        }
        match is_end {
            true => builder.close(|event| lay(event, gaps)),
            false => builder.close_before(merger.released_to(), |event| lay(event, gaps)),
        }
        merged.ordered.clear();
        merged.late.clear();
    }

    /// Takes the rings that were found, and answers as far as all is known.
    fn answer(&mut self, now_ns: u64, is_end: bool, outcome: &mut Outcome<Origin>) {
        let (answerer, classes, rings) = (&mut self.answerer, &self.classes, &self.counters.rings);
        let mut last = None;
        let give = |time, found: &Rings| {
            rings[usize::from(found.count).min(RINGS_MAX)].add(1);
            answerer.push(time, PrimitiveId::of(found, classes));
            last = Some(time);
        };
        if is_end {
            self.buffers.drain(now_ns, give);
            return answerer.finish(now_ns, &mut outcome.answers);
        }
        self.buffers.advance(now_ns, give);
        let released_to = self.merger.released_to();
        let complete_to = match (self.buffers.is_empty(), last) {
            (true, _) => self.builder.open_since().unwrap_or(released_to).min(released_to),
            (false, Some(last)) => last,
            (false, None) => return,
        };
        self.counters.last.set(complete_to);
        if self.counters.first.get() == 0 {
            self.counters.first.set(complete_to);
        }
        answerer.advance(complete_to, now_ns, &mut outcome.answers);
    }

    /// Brings everything to its end.
    fn finish(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.pass_on(now_ns, true);
        self.answer(now_ns, true, outcome);
        self.gaps = [(0, 0); BOARDS];
    }
}

impl Trigger for RichTrigger {
    type Item = RichItem;
    type Origin = Origin;

    fn take(&mut self, segment: &Segment, items: &[RichItem], _: u64) {
        let stream = segment.stream as usize;
        self.merger.push(stream, items, segment.searched_to, &mut self.merged);
        if self.merger.agrees(stream) {
            self.answerer.observe(segment.searched_to, segment.arrival_ns);
        }
    }

    fn agrees(&self, stream: usize) -> bool {
        self.merger.agrees(stream)
    }

    fn records_done(&mut self, _: usize) {}

    fn advance(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let began_anew = self.merger.release(now_ns, &mut self.merged);
        if began_anew {
            self.finish(now_ns, outcome);
            self.answerer.begin_anew();
            outcome.began_anew = true;
        } else {
            self.pass_on(now_ns, false);
            self.answer(now_ns, false, outcome);
        }
    }

    fn drain(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.merger.drain(&mut self.merged);
        self.finish(now_ns, outcome);
    }
}

#[cfg(test)]
mod tests;
