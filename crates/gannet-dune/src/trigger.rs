//! The trigger as the deciding thread runs it: the chain, what it adds to records, and what of it is
//! recorded beside them.

use std::mem;
use std::sync::{Arc, Mutex, PoisonError};

use gannet_log::{Chunk, Kind, Label};
use gannet_measure::ledger::Account;
use gannet_readout::items::Segment;
use gannet_readout::latency::Window;
use gannet_readout::record::RecordRequest;
use gannet_readout::trigger::{Outcome, Outline, Product, ProductDrop, Trigger};
use gannet_trigger::module_level::{BusyInterval, Decision};
use gannet_wire::TriggerPrimitive;
use gannet_wire::trigger_activity::TriggerActivityData;

use crate::activity::Activity;
use crate::time_slice::{SliceBuilder, TimeSlice};
use crate::trigger_fragments::TriggerFragments;
use crate::{TriggerChain, TriggerOutput};
use gannet_record::Origin;

/// Busy intervals that are recorded together.
const BUSY_MAX: usize = 1024;
/// Longest time that a busy interval waits for others, in nanoseconds.
const BUSY_WAIT_NS: u64 = 1_000_000_000;

/// Decides on trigger primitives, cuts them and their activities out for each record, and gives them
/// out in slices.
#[derive(Debug)]
pub struct TpcTrigger {
    chain: TriggerChain,
    out: TriggerOutput,
    fragments: TriggerFragments,
    /// Absent where primitives are not recorded.
    slices: Option<SliceBuilder>,
    busy: Vec<BusyInterval>,
    busy_since_ns: Option<u64>,
    /// Tick before which nothing starts that is still to come.
    complete_to: u64,
    recorded: RecordedAccounts,
    latest: LatestPrimitive,
}

/// Ledgers of what is recorded beside records: handed to the recorder, or dropped before.
#[derive(Clone, Debug, Default)]
pub struct RecordedAccounts {
    /// Primitives, those in the open slice included.
    pub primitives: Arc<Account<ProductDrop>>,
    /// Intervals in which the trigger was busy.
    pub busy: Arc<Account<ProductDrop>>,
}

/// A recent primitive, which any thread may look at.
#[derive(Clone, Debug, Default)]
pub struct LatestPrimitive(Arc<Mutex<Option<TriggerPrimitive>>>);

impl LatestPrimitive {
    /// The primitive.
    pub fn get(&self) -> Option<TriggerPrimitive> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, primitive: TriggerPrimitive) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(primitive);
    }
}

impl TpcTrigger {
    /// The trigger that `chain` decides for; without `slices`, primitives are not recorded.
    pub fn new(
        chain: TriggerChain,
        fragments: TriggerFragments,
        slices: Option<SliceBuilder>,
    ) -> Self {
        Self {
            chain,
            out: TriggerOutput::default(),
            fragments,
            slices,
            busy: Vec::with_capacity(BUSY_MAX),
            busy_since_ns: None,
            complete_to: 0,
            recorded: RecordedAccounts::default(),
            latest: LatestPrimitive::default(),
        }
    }

    /// The chain.
    pub fn chain(&self) -> &TriggerChain {
        &self.chain
    }

    /// What is cut out for records.
    pub fn fragments(&self) -> &TriggerFragments {
        &self.fragments
    }

    /// Ledgers of what is recorded beside records.
    pub fn recorded(&self) -> RecordedAccounts {
        self.recorded.clone()
    }

    /// Where a recent primitive is shown.
    pub fn latest(&self) -> LatestPrimitive {
        self.latest.clone()
    }

    /// Passes on what the chain gave out.
    fn pass_on(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        let mut out = mem::take(&mut self.out);
        let primitives = &out.primitives;
        primitives.ordered.iter().for_each(|tp| self.record(outcome, |slices| slices.push(*tp)));
        for late in &primitives.late {
            self.record(outcome, |slices| slices.push_beside(*late));
        }
        primitives.ordered.last().into_iter().for_each(|tp| self.latest.set(*tp));
        self.take_busy(&out.decided.busy, now_ns, outcome);
        outcome.activities.extend(out.activities.iter().map(outline));
        self.fragments.remember(&primitives.ordered, out.activities.drain(..));
        for decision in out.decided.decisions.drain(..) {
            outcome.decisions.push(request(&decision, now_ns));
            self.fragments.ask(decision, now_ns);
        }
        let add = |number, parts| outcome.added.push((number, parts));
        if out.began_anew {
            tracing::warn!("most streams went back in time; the order of primitives begins anew");
            self.fragments.end(self.complete_to, add);
            self.complete_to = 0;
            outcome.began_anew = true;
            let last = self.slices.as_mut().and_then(SliceBuilder::begin_anew);
            self.give_slice(last, outcome);
        } else {
            self.complete_to = self.chain.complete_to();
            self.fragments.answer(self.complete_to, now_ns, add);
        }
        out.clear();
        self.out = out;
    }

    /// Records a primitive, where primitives are.
    #[inline]
    fn record(
        &mut self,
        outcome: &mut Outcome<Origin>,
        push: impl FnOnce(&mut SliceBuilder) -> Option<TimeSlice>,
    ) {
        let Some(slices) = &mut self.slices else { return };
        self.recorded.primitives.offer(1);
        let finished = push(slices);
        self.give_slice(finished, outcome);
    }

    fn give_slice(&self, slice: Option<TimeSlice>, outcome: &mut Outcome<Origin>) {
        let account = || Arc::clone(&self.recorded.primitives);
        let product = |slice: TimeSlice| Product { chunk: slice.into_chunk(), account: account() };
        outcome.products.extend(slice.map(product));
    }

    fn take_busy(
        &mut self,
        intervals: &[BusyInterval],
        now_ns: u64,
        outcome: &mut Outcome<Origin>,
    ) {
        self.recorded.busy.offer(intervals.len() as u64);
        for interval in intervals {
            self.busy.push(*interval);
            if self.busy.len() == BUSY_MAX {
                self.give_busy(outcome);
            }
        }
        if !self.busy.is_empty() {
            let since_ns = *self.busy_since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= BUSY_WAIT_NS {
                self.give_busy(outcome);
            }
        }
    }

    fn give_busy(&mut self, outcome: &mut Outcome<Origin>) {
        self.busy_since_ns = None;
        if !self.busy.is_empty() {
            let account = Arc::clone(&self.recorded.busy);
            outcome.products.push(Product { chunk: busy_chunk(&self.busy), account });
            self.busy.clear();
        }
    }
}

impl Trigger for TpcTrigger {
    type Item = TriggerPrimitive;
    type Origin = Origin;
    const CAN_PAUSE: bool = true;

    fn take(&mut self, segment: &Segment, tps: &[TriggerPrimitive], now_ns: u64) {
        let stream = segment.stream as usize;
        self.chain.push(stream, tps, segment.searched_to, now_ns, &mut self.out);
    }

    fn agrees(&self, stream: usize) -> bool {
        self.chain.agrees(stream)
    }

    fn records_done(&mut self, records: usize) {
        self.chain.records_done(records, &mut self.out);
    }

    fn advance(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.chain.advance(now_ns, &mut self.out);
        self.pass_on(now_ns, outcome);
    }

    fn pause(&mut self) {
        self.chain.pause();
    }

    fn resume(&mut self) {
        self.chain.resume(&mut self.out);
    }

    fn drain(&mut self, now_ns: u64, outcome: &mut Outcome<Origin>) {
        self.chain.drain(now_ns, &mut self.out);
        self.pass_on(now_ns, outcome);
        self.fragments.end(self.complete_to, |number, parts| outcome.added.push((number, parts)));
        let last = self.slices.as_mut().and_then(SliceBuilder::finish);
        self.give_slice(last, outcome);
        self.give_busy(outcome);
    }
}

/// Where an activity lies.
fn outline(activity: &Activity) -> Outline {
    let TriggerActivityData { time_start, time_end, channel_start, channel_end, .. } =
        activity.data;
    Outline {
        begin: time_start,
        end: time_end,
        channel_first: channel_start.min(channel_end),
        channel_last: channel_start.max(channel_end),
    }
}

/// What the builder is asked for.
fn request(decision: &Decision, decided_ns: u64) -> RecordRequest {
    RecordRequest {
        trigger_number: decision.trigger_number,
        run_number: decision.run,
        trigger_timestamp: decision.timestamp,
        trigger_type: decision.trigger_type,
        window: Window { begin: decision.window_begin, end: decision.window_end },
        decided_ns,
    }
}

/// Busy times as a chunk: a JSON object a line.
fn busy_chunk(intervals: &[BusyInterval]) -> Chunk {
    let mut text = String::new();
    for BusyInterval { begin, end, cause } in intervals {
        let line = serde_json::json!({ "begin": begin, "end": end, "cause": cause.name() });
        text.push_str(&line.to_string());
        text.push('\n');
    }
    let begin = intervals.iter().map(|interval| interval.begin).min().unwrap_or(0);
    let end = intervals.iter().map(|interval| interval.end).max().unwrap_or(0);
    let label = Label::new(Kind::BUSY).times(begin, end.max(begin));
    Chunk::new(label.counts(intervals.len() as u32, 0), text.into_bytes())
}
