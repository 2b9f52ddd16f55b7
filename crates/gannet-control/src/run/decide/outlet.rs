//! What the deciding thread records itself: slices of primitives, and busy times.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use gannet_dune::time_slice::SliceBuilder;
use gannet_log::{Chunk, Kind, Label, Offer, RecorderHandle};
use gannet_measure::ledger::Account;
use gannet_trigger::module_level::BusyInterval;
use gannet_wire::TriggerPrimitive;

/// Chunks that wait for room in the recorder's queue.
const WAITING_MAX: usize = 64;
/// Busy intervals that are recorded together.
const BUSY_MAX: usize = 1024;
/// Longest time that a busy interval waits for others, in nanoseconds.
const BUSY_WAIT_NS: u64 = 1_000_000_000;
/// Pause between two attempts at the end of a run.
const RETRY: Duration = Duration::from_millis(1);

gannet_measure::drop_reasons! {
    /// Why a primitive or a busy time was not handed to the recorder.
    pub enum OutletDrop {
        /// The recorder was too slow for all that came before.
        RecorderBusy => "recorder_busy",
    }
}

/// Makes chunks and hands them to the recorder without ever waiting for it.
pub(in crate::run) struct Outlet {
    recorder: RecorderHandle,
    slices: Option<SliceBuilder>,
    busy: Vec<BusyInterval>,
    busy_since_ns: Option<u64>,
    waiting: VecDeque<Chunk>,
    accounts: OutletAccounts,
}

/// Ledgers of what the outlet records: handed to the recorder, or dropped before.
#[derive(Clone, Debug, Default)]
pub(in crate::run) struct OutletAccounts {
    /// Primitives, those in the open slice included.
    pub primitives: Arc<Account<OutletDrop>>,
    /// Intervals in which the trigger was busy.
    pub busy: Arc<Account<OutletDrop>>,
}

impl OutletAccounts {
    /// The account that the items of a chunk belong to.
    fn of(&self, chunk: &Chunk) -> &Account<OutletDrop> {
        if chunk.label.kind == Kind::TP_SLICE { &self.primitives } else { &self.busy }
    }
}

impl Outlet {
    /// An outlet to `recorder`; without `slices`, primitives are not recorded.
    pub(in crate::run) fn new(recorder: RecorderHandle, slices: Option<SliceBuilder>) -> Self {
        Self {
            recorder,
            slices,
            busy: Vec::with_capacity(BUSY_MAX),
            busy_since_ns: None,
            waiting: VecDeque::with_capacity(WAITING_MAX),
            accounts: OutletAccounts::default(),
        }
    }

    /// Ledgers of primitives and busy times.
    pub(in crate::run) fn accounts(&self) -> OutletAccounts {
        self.accounts.clone()
    }

    /// Takes a primitive.
    pub(super) fn primitive(&mut self, primitive: TriggerPrimitive) {
        let Some(slices) = &mut self.slices else { return };
        self.accounts.primitives.offer(1);
        let slice = slices.push(primitive);
        slice.into_iter().for_each(|slice| self.push(slice.into_chunk()));
    }

    /// Takes a primitive that is not part of the order of time.
    pub(super) fn primitive_beside(&mut self, primitive: TriggerPrimitive) {
        let Some(slices) = &mut self.slices else { return };
        self.accounts.primitives.offer(1);
        let slice = slices.push_beside(primitive);
        slice.into_iter().for_each(|slice| self.push(slice.into_chunk()));
    }

    /// Lets slices go on from another time.
    pub(super) fn begin_anew(&mut self) {
        let slice = self.slices.as_mut().and_then(SliceBuilder::begin_anew);
        slice.into_iter().for_each(|slice| self.push(slice.into_chunk()));
    }

    /// Takes busy times.
    pub(super) fn busy(&mut self, intervals: &[BusyInterval]) {
        self.accounts.busy.offer(intervals.len() as u64);
        for interval in intervals {
            self.busy.push(*interval);
            if self.busy.len() == BUSY_MAX {
                self.record_busy();
            }
        }
    }

    /// Hands over what waited, and busy times that have waited long enough.
    pub(super) fn retry(&mut self, now_ns: u64) {
        if !self.busy.is_empty() {
            let since_ns = *self.busy_since_ns.get_or_insert(now_ns);
            if now_ns.saturating_sub(since_ns) >= BUSY_WAIT_NS {
                self.record_busy();
            }
        }
        self.hand_over();
    }

    /// Hands over all that is left, waiting for the recorder if need be.
    pub(super) fn finish(&mut self) {
        let last = self.slices.as_mut().and_then(SliceBuilder::finish);
        last.into_iter().for_each(|slice| self.push(slice.into_chunk()));
        self.record_busy();
        while !self.hand_over() {
            thread::sleep(RETRY);
        }
    }

    fn record_busy(&mut self) {
        self.busy_since_ns = None;
        if !self.busy.is_empty() {
            let chunk = busy_chunk(&self.busy);
            self.busy.clear();
            self.push(chunk);
        }
    }

    fn push(&mut self, chunk: Chunk) {
        self.hand_over();
        if self.waiting.len() == WAITING_MAX {
            let items = u64::from(chunk.label.items);
            self.accounts.of(&chunk).discard(OutletDrop::RecorderBusy, items);
        } else {
            self.waiting.push_back(chunk);
        }
    }

    /// Hands over in order until the recorder has no room; true when nothing is left.
    fn hand_over(&mut self) -> bool {
        while let Some(chunk) = self.waiting.pop_front() {
            let account = self.accounts.of(&chunk);
            let items = u64::from(chunk.label.items);
            if let Offer::Busy(back) = self.recorder.offer(chunk) {
                self.waiting.push_front(back);
                return false;
            }
            // From here on the recorder's own account says what becomes of them.
            account.deliver(items);
        }
        true
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
