//! Decisions of the level-0 trigger: primitives of the RICH and of other sources matched, and records asked for.

use std::collections::VecDeque;
use std::sync::Arc;

use gannet_measure::drop_reasons;
use gannet_measure::ledger::Account;
use gannet_readout::latency::Window;
use gannet_readout::record::RecordRequest;
use gannet_readout::trigger::Outcome;
use gannet_record::Origin;
use gannet_wire::na62::{FRAME_FINE_BITS, Source};

use crate::matching::{MASKS_MAX, MatchCounters, Matcher, Rules, Trigger};
use crate::primitive::PrimitiveId;

drop_reasons! {
    /// Why a trigger did not become a decision.
    pub enum TriggerDrop {
        /// As many records as may be were in flight.
        Busy => "busy",
    }
}

/// What is read out, and how much at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readout {
    /// Number of the run.
    pub run_number: u32,
    /// Fine units before the time of a trigger that are read out.
    pub before: u64,
    /// Fine units behind it.
    pub after: u64,
    /// Decisions that may wait for their records.
    pub in_flight_max: usize,
}

/// Figures of the decisions, which any thread may read.
#[derive(Clone, Debug)]
pub struct DecisionCounters {
    /// What was matched.
    pub matched: Arc<MatchCounters>,
    /// Triggers, and what became of them.
    pub triggers: Arc<Account<TriggerDrop>>,
}

/// Time, place of the source in the rules, identifier.
type Primitive = (u64, usize, u16);

/// Decides.
#[derive(Debug)]
pub(crate) struct Decisions {
    matcher: Matcher,
    /// Place of the source as which the RICH enters, if it is one.
    own: Option<usize>,
    /// Primitives of the RICH in the order of time.
    of_own: VecDeque<Primitive>,
    /// Those of other sources.
    of_others: VecDeque<Primitive>,
    found: Vec<Trigger>,
    readout: Readout,
    in_flight: usize,
    /// Number of the last decision.
    number: u64,
    triggers: Arc<Account<TriggerDrop>>,
}

impl Decisions {
    /// Decides by these rules, where the RICH is `own`.
    pub fn new(rules: Rules, own: Source, readout: Readout) -> Self {
        let matcher = Matcher::new(rules);
        Self {
            own: matcher.place(own),
            matcher,
            of_own: VecDeque::new(),
            of_others: VecDeque::new(),
            found: Vec::new(),
            readout,
            in_flight: 0,
            number: 0,
            triggers: Arc::default(),
        }
    }

    /// What any thread may see of it.
    pub fn counters(&self) -> DecisionCounters {
        DecisionCounters { matched: self.matcher.counters(), triggers: Arc::clone(&self.triggers) }
    }

    /// Takes what is told of an event, no earlier than those before.
    #[inline]
    pub fn push(&mut self, time: u64, PrimitiveId(id): PrimitiveId) {
        if let Some(place) = self.own {
            self.of_own.push_back((time, place, id));
        }
    }

    /// Takes a primitive of another source, no earlier than those of other sources before.
    pub fn push_of(&mut self, source: u8, time: u64, id: u16) {
        if let Some(place) = self.matcher.place(Source::from_number(source)) {
            self.of_others.push_back((time, place, id));
        }
    }

    /// Takes note that so many records were finished.
    pub fn records_done(&mut self, records: usize) {
        self.in_flight = self.in_flight.saturating_sub(records);
    }

    /// Decides as far as nothing earlier than `complete_to` will come, at `now_ns`.
    pub fn advance(&mut self, complete_to: u64, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let next = |queue: &VecDeque<Primitive>| {
            queue.front().map(|primitive| primitive.0).filter(|time| *time < complete_to)
        };
        loop {
            let queue = match (next(&self.of_own), next(&self.of_others)) {
                (None, None) => break,
                (Some(own), Some(other)) if own < other => &mut self.of_own,
                (Some(_), None) => &mut self.of_own,
                (_, Some(_)) => &mut self.of_others,
            };
            if let Some((time, place, id)) = queue.pop_front() {
                self.matcher.push(place, time, id, &mut self.found);
            }
        }
        self.matcher.advance(complete_to, &mut self.found);
        self.give_out(now_ns, outcome);
    }

    /// Decides on all that is there, at the end of a run or when time begins anew.
    pub fn finish(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.advance(u64::MAX, now_ns, outcome);
        self.matcher.finish(&mut self.found);
        self.give_out(now_ns, outcome);
    }

    fn give_out(&mut self, decided_ns: u64, outcome: &mut Outcome<Origin>) {
        for Trigger { time, masks, is_calibration } in self.found.drain(..) {
            self.triggers.offer(1);
            if self.in_flight >= self.readout.in_flight_max {
                self.triggers.discard(TriggerDrop::Busy, 1);
                continue;
            }
            self.triggers.deliver(1);
            self.in_flight += 1;
            self.number += 1;
            let Readout { run_number, before, after, .. } = self.readout;
            // Datagrams begin with a frame, and the one before may have events of it.
            let frame = time.saturating_sub(before) >> FRAME_FINE_BITS << FRAME_FINE_BITS;
            let window = Window { begin: frame.saturating_sub(1), end: time + after };
            outcome.decisions.push(RecordRequest {
                trigger_number: self.number,
                run_number,
                trigger_timestamp: time,
                trigger_type: u64::from(masks) | u64::from(is_calibration) << MASKS_MAX,
                window,
                decided_ns,
            });
            outcome.added.push((self.number, Vec::new()));
        }
    }
}
