//! The trigger as the deciding thread runs it: hits of boards merged to events, rings found in them,
//! answers to the level-0 trigger.

use std::sync::Arc;

use gannet_kernels::rings::RINGS_MAX;
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
use crate::decide::{DecisionCounters, Decisions};
use crate::event::{EventBuilder, EventCounters, Missing};
use crate::item::{RichItem, What};
use crate::primitive::PrimitiveId;

/// Merges what the streams bring, and hands it on.
pub struct RichTrigger {
    merger: Merger<RichItem, InOrder<RichItem>>,
    /// What the merger gives out beside its releases.
    merged: Merged<RichItem>,
    /// The board of each stream that brings hits.
    boards: Vec<Option<u8>>,
    events: Events,
    counters: RichCounters,
}

/// Makes events of items in the order of time, and answers of their rings.
struct Events {
    builder: EventBuilder,
    buffers: Buffers,
    answered: Answered,
    missing: Missing,
    /// An event as bytes.
    laid_out: Box<[u8; m2egp::EVENT_LEN_MAX]>,
}

/// What is told of events, and to whom.
struct Answered {
    answerer: Answerer,
    decisions: Option<Decisions>,
    rings: Arc<[Counter; RINGS_MAX + 1]>,
}

impl Answered {
    /// Takes an event, no earlier than those before.
    #[inline]
    fn event(&mut self, time: u64, id: PrimitiveId) {
        self.rings[usize::from(id.rings()).min(RINGS_MAX)].add(1);
        self.answerer.push(time, id);
        if let Some(decisions) = &mut self.decisions {
            decisions.push(time, id);
        }
    }
}

impl Events {
    /// Takes an item, no earlier than those before.
    #[inline]
    fn take(&mut self, item: &RichItem, now_ns: u64) {
        match item.what() {
            What::Hits(hits) => {
                self.close_before(item.time, now_ns);
                self.builder.take(item.time, hits);
            }
            What::Gap { board, until } => {
                self.close_before(item.time, now_ns);
                self.missing.gaps[usize::from(board) % BOARDS] = (item.time, until);
            }
            What::Event(id) => self.answered.event(item.time, id),
            What::Primitive { source, id } => {
                if let Some(decisions) = &mut self.answered.decisions {
                    decisions.push_of(source, item.time, id);
                }
            }
        }
    }

    /// Lays the open event into a buffer if hits of `time`, or later ones, are not of it.
    #[inline]
    fn close_before(&mut self, time: u64, now_ns: u64) {
        if self.builder.is_over(time) {
            self.close(now_ns);
        }
    }

    /// Lays the open event into a buffer.
    fn close(&mut self, now_ns: u64) {
        let missing = &self.missing;
        let Some(event) = self.builder.close(|time| missing.at(time)) else { return };
        let len = event.lay_out(&mut self.laid_out);
        // The account of the buffers tells of those without room.
        let _has_room = self.buffers.append(&self.laid_out[..len], event.time, now_ns);
    }
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
    /// Decisions, where any are taken.
    pub decisions: Option<DecisionCounters>,
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
    pub decisions: Option<Decisions>,
}

impl RichTrigger {
    /// A trigger of these stages.
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { merger, boards, builder, buffers, answerer, decisions } = parts;
        let counters = RichCounters {
            merge: Arc::clone(merger.counters()),
            events: builder.counters(),
            searched: buffers.account(),
            answers: answerer.counters(),
            rings: Arc::default(),
            decisions: decisions.as_ref().map(Decisions::counters),
            last: Arc::default(),
            first: Arc::default(),
        };
        let events = Events {
            builder,
            buffers,
            answered: Answered { answerer, decisions, rings: Arc::clone(&counters.rings) },
            missing: Missing::default(),
            laid_out: Box::new([0; m2egp::EVENT_LEN_MAX]),
        };
        Self { merger, merged: Merged::default(), boards, events, counters }
    }

    /// What any thread may see of it.
    pub fn counters(&self) -> RichCounters {
        self.counters.clone()
    }

    /// Notes up to where each board was searched.
    fn note_searched(&mut self) {
        let mut searched_to = [u64::MAX; BOARDS];
        for (stream, board) in self.boards.iter().enumerate() {
            if let Some(board) = board {
                let to = &mut searched_to[usize::from(*board)];
                *to = self.merger.searched(stream).min(*to);
            }
        }
        self.events.missing.searched_to = searched_to;
    }

    /// Takes what the merger gave out beside its releases.
    fn take_merged(&mut self, now_ns: u64) {
        let Self { merged, events, .. } = self;
        // A gap that is known when the others have gone on already: its events wait or have gone, too.
        for item in merged.late.drain(..) {
            if let What::Gap { board, until } = item.what() {
                events.missing.gaps[usize::from(board) % BOARDS] = (item.time, until);
            }
        }
        merged.ordered.drain(..).for_each(|item| events.take(&item, now_ns));
    }

    /// Takes the rings that were found, and answers as far as all is known.
    fn answer(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let Events { builder, buffers, answered, .. } = &mut self.events;
        let mut last = None;
        buffers.advance(now_ns, |time, id| {
            answered.event(time, id);
            last = Some(time);
        });
        let released_to = self.merger.released_to();
        let complete_to = match (buffers.is_empty(), last) {
            (true, _) => builder.open_since().unwrap_or(released_to).min(released_to),
            (false, Some(last)) => last,
            (false, None) => return,
        };
        self.counters.last.set(complete_to);
        if self.counters.first.get() == 0 {
            self.counters.first.set(complete_to);
        }
        answered.answerer.advance(complete_to, now_ns, &mut outcome.answers);
        if let Some(decisions) = &mut answered.decisions {
            decisions.advance(complete_to, now_ns, outcome);
        }
    }

    /// Brings everything to its end.
    fn finish(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.take_merged(now_ns);
        self.events.close(now_ns);
        let Events { buffers, answered, missing, .. } = &mut self.events;
        buffers.drain(now_ns, |time, id| answered.event(time, id));
        answered.answerer.finish(now_ns, &mut outcome.answers);
        if let Some(decisions) = &mut answered.decisions {
            decisions.finish(now_ns, outcome);
        }
        *missing = Missing::default();
    }
}

impl Trigger for RichTrigger {
    type Item = RichItem;
    type Origin = Origin;

    fn take(&mut self, segment: &Segment, items: &[RichItem], _: u64) {
        let stream = segment.stream as usize;
        self.merger.push(stream, items, segment.searched_to, &mut self.merged);
        if self.merger.agrees(stream) {
            self.events.answered.answerer.observe(segment.searched_to, segment.arrival_ns);
        }
    }

    fn agrees(&self, stream: usize) -> bool {
        self.merger.agrees(stream)
    }

    fn records_done(&mut self, records: usize) {
        if let Some(decisions) = &mut self.events.answered.decisions {
            decisions.records_done(records);
        }
    }

    fn advance(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let looked = self.merger.look(now_ns);
        if !looked.began_anew() {
            self.note_searched();
        }
        self.take_merged(now_ns);
        let Self { merger, merged, events, .. } = self;
        merger.release_each(&looked, &mut merged.late, |item| events.take(item, now_ns));
        if looked.began_anew() {
            self.finish(now_ns, outcome);
            self.events.answered.answerer.begin_anew();
            outcome.began_anew = true;
        } else {
            events.close_before(merger.released_to(), now_ns);
            self.answer(now_ns, outcome);
        }
    }

    fn drain(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.note_searched();
        self.merger.drain(&mut self.merged);
        self.finish(now_ns, outcome);
    }
}

#[cfg(test)]
mod tests;
