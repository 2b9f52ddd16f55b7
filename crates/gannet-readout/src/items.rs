//! The way of what finders find from the receiving threads to the trigger thread.
//!
//! Items travel in batches whose memory goes round: a receiver fills one, hands it over when it has
//! been open for a while, and takes an empty one back. While the trigger does not keep up the last half of the
//! empty ones are taken for batches at least half full only. When there is none the batch in hand is filled
//! further, and when that is full its items are dropped and counted. Receiving never waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gannet_measure::ledger::Account;
use gannet_trigger::Item;

/// Bytes of the items that one batch holds at most, unless a few frames give more. Many small batches, of
/// which the one used last is used next, stay in the cache between the two threads.
const BATCH_BYTES: usize = 1 << 19;
/// Frames whose items a batch has room for, however many these are.
const BATCH_FRAMES: usize = 4;
/// Segments that one batch holds at most.
const BATCH_SEGMENTS: usize = 1 << 12;
/// Batches of one sender.
const BATCHES: usize = 64;
/// How long a batch is filled before it is handed over where nobody is in a hurry, in nanoseconds.
pub const FLUSH_NS: u64 = 1_000_000;

gannet_measure::drop_reasons! {
    /// Why items did not reach the trigger.
    pub enum ItemDrop {
        /// The trigger was too slow and every batch was full.
        TriggerBusy => "trigger_busy",
        /// It came from another process after the run was stopped in this one.
        AfterStop => "after_stop",
    }
}

/// Consecutive items of a batch that come from one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the stream.
    pub stream: u32,
    /// Number of items.
    pub items: u32,
    /// Time up to which the stream has been searched, in ticks.
    pub searched_to: u64,
    /// When the last frame of the segment arrived, on the clock of the receivers.
    pub arrival_ns: u64,
}

/// Items of several streams, in the order in which they were found.
#[derive(Debug)]
pub struct ItemBatch<I> {
    segments: Vec<Segment>,
    items: Vec<I>,
}

impl<I: Item> ItemBatch<I> {
    fn with_capacity(items: usize) -> Self {
        Self { segments: Vec::with_capacity(BATCH_SEGMENTS), items: Vec::with_capacity(items) }
    }

    /// The segments and the items of all of them.
    pub(crate) fn parts(&self) -> (&[Segment], &[I]) {
        (&self.segments, &self.items)
    }

    /// Each segment with its items.
    pub fn segments(&self) -> impl Iterator<Item = (Segment, &[I])> {
        let mut rest = self.items.as_slice();
        self.segments.iter().map(move |segment| {
            let (own, others) = rest.split_at(segment.items as usize);
            rest = others;
            (*segment, own)
        })
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.items.clear();
    }

    /// Most segments and items of a batch, where no frame gives more than `frame_items_max` items.
    pub(crate) fn sizes_max(frame_items_max: usize) -> (usize, usize) {
        (BATCH_SEGMENTS, batch_items::<I>(frame_items_max))
    }
}

/// Empty batches on their way back.
type Pool<I> = Arc<Mutex<Vec<ItemBatch<I>>>>;

/// The receiving thread's end.
#[derive(Debug)]
pub struct ItemSender<I> {
    open: ItemBatch<I>,
    /// Most items of one batch.
    batch_items: usize,
    /// Empty batches that are kept for items to fill them.
    reserve: usize,
    /// Most items of one frame.
    frame_items_max: usize,
    /// How long a batch is filled before it is handed over, in nanoseconds.
    flush_ns: u64,
    opened_ns: Option<u64>,
    full: SyncSender<ItemBatch<I>>,
    pool: Pool<I>,
    account: Arc<Account<ItemDrop>>,
}

/// The trigger thread's end; closed when every sender is gone.
#[derive(Debug)]
pub struct ItemReceiver<I> {
    full: Receiver<ItemBatch<I>>,
    pool: Pool<I>,
}

/// Most items of one batch, where no frame gives more than `frame_items_max`.
fn batch_items<I>(frame_items_max: usize) -> usize {
    (BATCH_BYTES / size_of::<I>()).max(BATCH_FRAMES * frame_items_max)
}

/// Makes `senders` ends for receiving threads and the one end for the trigger thread. No frame
/// gives more than `frame_items_max` items, and a batch is handed over `flush_ns` after its first
/// frame arrived.
pub fn channel<I: Item>(
    senders: usize,
    frame_items_max: usize,
    flush_ns: u64,
) -> (Vec<ItemSender<I>>, ItemReceiver<I>) {
    let (full, receiver) = sync_channel(senders * BATCHES);
    let batch_items = batch_items::<I>(frame_items_max);
    let batch = || ItemBatch::with_capacity(batch_items);
    let batches = (0..senders * (BATCHES - 1)).map(|_| batch()).collect();
    let pool = Arc::new(Mutex::new(batches));
    let sender = || ItemSender {
        open: batch(),
        batch_items,
        reserve: senders * BATCHES / 2,
        frame_items_max,
        flush_ns,
        opened_ns: None,
        full: full.clone(),
        pool: Arc::clone(&pool),
        account: Arc::default(),
    };
    let senders = (0..senders).map(|_| sender()).collect();
    (senders, ItemReceiver { full: receiver, pool })
}

impl<I: Item> ItemSender<I> {
    /// Ledger of items found: delivered to the trigger, or dropped.
    pub fn account(&self) -> Arc<Account<ItemDrop>> {
        Arc::clone(&self.account)
    }

    /// Lets `find` append the items of one frame of a stream and say up to which tick the stream
    /// has been searched. Gives the number found.
    ///
    /// A batch is handed over before the items of the next frame could overflow it.
    pub fn append(
        &mut self,
        stream: u32,
        arrival_ns: u64,
        find: impl FnOnce(&mut Vec<I>) -> u64,
    ) -> u64 {
        let before = self.open.items.len();
        let searched_to = find(&mut self.open.items);
        let found = (self.open.items.len() - before) as u64;
        self.account.offer(found);
        self.opened_ns.get_or_insert(arrival_ns);
        let segment = Segment { stream, items: found as u32, searched_to, arrival_ns };
        match self.open.segments.last_mut() {
            Some(last) if last.stream == stream => {
                last.items += segment.items;
                (last.searched_to, last.arrival_ns) = (searched_to, arrival_ns);
            }
            _ => self.open.segments.push(segment),
        }
        let tight = self.open.items.len() + self.frame_items_max > self.batch_items
            || self.open.segments.len() == BATCH_SEGMENTS;
        if tight && !self.hand_over(0) {
            self.lose();
        }
        found
    }

    /// Hands the open batch over when it has been open for long enough and there are empty ones: any, if it is
    /// half full, else more than half of them.
    pub fn flush_due(&mut self, now_ns: u64) {
        if self.opened_ns.is_some_and(|opened| now_ns.saturating_sub(opened) >= self.flush_ns) {
            let half_full = 2 * self.open.items.len() > self.batch_items
                || 2 * self.open.segments.len() > BATCH_SEGMENTS;
            self.hand_over(if half_full { 0 } else { self.reserve });
        }
    }

    /// Hands over what is there, waiting for the trigger if need be: the end of a run.
    pub fn finish(mut self) {
        let last = std::mem::replace(&mut self.open, ItemBatch { segments: vec![], items: vec![] });
        let count = last.items.len() as u64;
        match self.full.send(last) {
            Ok(()) => self.account.deliver(count),
            Err(_) => self.account.discard(ItemDrop::TriggerBusy, count),
        }
    }

    /// Exchanges the open batch for an empty one, if there are more than `reserve`.
    fn hand_over(&mut self, reserve: usize) -> bool {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        let empty = if pool.len() > reserve { pool.pop() } else { None };
        drop(pool);
        let Some(empty) = empty else { return false };
        let count = self.open.items.len() as u64;
        match self.full.try_send(std::mem::replace(&mut self.open, empty)) {
            Ok(()) => {
                self.opened_ns = None;
                self.account.deliver(count);
                true
            }
            Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => {
                self.open = batch;
                false
            }
        }
    }

    /// Drops the items of the open batch but keeps how far each stream was searched, so that
    /// the trigger does not wait for what will not come.
    fn lose(&mut self) {
        let count = self.open.items.len() as u64;
        self.account.discard(ItemDrop::TriggerBusy, count);
        self.open.items.clear();
        let mut newest: Vec<Segment> = Vec::new();
        for segment in self.open.segments.drain(..).rev() {
            if newest.iter().all(|kept| kept.stream != segment.stream) {
                newest.push(Segment { items: 0, ..segment });
            }
        }
        self.open.segments.extend(newest.into_iter().rev());
    }
}

/// Why there is no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoBatch {
    /// None came in time.
    TimedOut,
    /// Every sender is gone and everything has been handed over.
    Finished,
}

impl<I: Item> ItemReceiver<I> {
    /// Passes the next batch to `take`, waiting at most `wait` for it.
    ///
    /// # Errors
    /// When no batch came in time, or none will ever come.
    pub fn receive(&self, wait: Duration, take: impl FnOnce(&ItemBatch<I>)) -> Result<(), NoBatch> {
        let mut batch = self.full.recv_timeout(wait).map_err(|error| match error {
            RecvTimeoutError::Timeout => NoBatch::TimedOut,
            RecvTimeoutError::Disconnected => NoBatch::Finished,
        })?;
        take(&batch);
        batch.clear();
        self.pool.lock().unwrap_or_else(PoisonError::into_inner).push(batch);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    /// Most items that a frame gives.
    const FRAME_ITEMS_MAX: usize = 2112;

    #[derive(Clone, Copy, Debug)]
    struct Mark(u64);

    impl Item for Mark {
        type Place = ();

        fn time(&self) -> u64 {
            self.0
        }

        fn place(&self) {}
    }

    fn found(out: &mut Vec<Mark>, value: u64, searched_to: u64) -> u64 {
        out.push(Mark(value));
        searched_to
    }

    fn drain(receiver: &ItemReceiver<Mark>) -> (Vec<Segment>, Vec<u64>) {
        let (mut segments, mut starts) = (Vec::new(), Vec::new());
        while receiver
            .receive(Duration::ZERO, |batch| {
                for (segment, marks) in batch.segments() {
                    segments.push(segment);
                    starts.extend(marks.iter().map(Item::time));
                }
            })
            .is_ok()
        {}
        (segments, starts)
    }

    #[test]
    fn segments_of_one_stream_are_joined_and_order_is_kept() {
        let (mut senders, receiver) = channel(1, FRAME_ITEMS_MAX, FLUSH_NS);
        let mut sender = senders.pop().unwrap();
        sender.append(0, 1, |out| found(out, 1, 10));
        sender.append(0, 2, |out| found(out, 2, 20));
        sender.append(1, 2, |_| 15);
        sender.flush_due(FLUSH_NS);
        assert_eq!(drain(&receiver).0, [], "open for less than the time");
        sender.flush_due(FLUSH_NS + 1);
        let (segments, starts) = drain(&receiver);
        assert_eq!(starts, [1, 2]);
        assert_eq!(segments.len(), 2);
        let first = Segment { stream: 0, items: 2, searched_to: 20, arrival_ns: 2 };
        assert_eq!(segments[0], first);
        assert_eq!(segments[1].searched_to, 15);
    }

    #[test]
    fn a_trigger_that_pauses_loses_nothing_while_a_batch_has_room() {
        let (mut senders, receiver) = channel(1, FRAME_ITEMS_MAX, FLUSH_NS);
        let mut sender = senders.pop().unwrap();
        for round in 1..=1000 {
            sender.append(0, round * FLUSH_NS, |out| found(out, round, round));
            sender.flush_due((round + 1) * FLUSH_NS);
        }
        sender.finish();
        assert_eq!(drain(&receiver).1, Vec::from_iter(1..=1000));
    }

    #[test]
    fn a_trigger_that_pauses_finds_full_batches_of_items_that_come_slowly() {
        let (mut senders, receiver) = channel(1, FRAME_ITEMS_MAX, FLUSH_NS);
        let mut sender = senders.pop().unwrap();
        // More flushes than there are batches, and in all a quarter of what these hold.
        let (rounds, each) = (4 * BATCHES as u64, sender.batch_items as u64 / 16);
        for round in 0..rounds {
            sender.append(0, round * FLUSH_NS, |out| {
                out.extend((0..each).map(|number| Mark(round * each + number)));
                round
            });
            sender.flush_due((round + 1) * FLUSH_NS);
        }
        sender.finish();
        assert!(drain(&receiver).1.into_iter().eq(0..rounds * each));
    }

    #[test]
    fn a_trigger_that_does_not_keep_up_loses_counted_primitives_but_no_progress() {
        let (mut senders, receiver) = channel(1, FRAME_ITEMS_MAX, FLUSH_NS);
        let mut sender = senders.pop().unwrap();
        let account = sender.account();
        let rounds = (2 * BATCHES * BATCH_SEGMENTS) as u64;
        for round in 1..=rounds {
            sender.append(0, round * FLUSH_NS, |out| found(out, round, round));
            sender.append(1, round * FLUSH_NS, |_| round);
            sender.flush_due(round * FLUSH_NS);
        }
        let (_, early) = drain(&receiver);
        sender.finish();
        let (segments, late) = drain(&receiver);
        let statement = account.statement("primitives");
        assert!(statement.closes(), "{statement}");
        assert!(statement.dropped_total() > 0);
        assert_eq!((early.len() + late.len()) as u64, statement.delivered);
        for stream in 0..2 {
            let last = segments.iter().rfind(|segment| segment.stream == stream).unwrap();
            assert_eq!(last.searched_to, rounds);
        }
        assert_eq!(receiver.receive(Duration::ZERO, |_| ()), Err(NoBatch::Finished));
    }

    /// What the two ends may do, one after the other: each takes its one step in the shared state at
    /// once, so that any run of threads is one of these orders.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        /// A sender appends so many primitives of a stream.
        Append {
            sender: usize,
            stream: u32,
            primitives: u16,
        },
        Flush {
            sender: usize,
        },
        Receive,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            40 => (0..2usize, 0..3u32, 0..=FRAME_ITEMS_MAX as u16)
                .prop_map(|(sender, stream, primitives)| Step::Append { sender, stream, primitives }),
            10 => (0..2usize).prop_map(|sender| Step::Flush { sender }),
            1 => Just(Step::Receive),
        ]
    }

    /// What came out: of each stream, its primitives in their order and how far it was searched.
    #[derive(Default)]
    struct Taken {
        primitives: u64,
        last: HashMap<(usize, u32), u64>,
        searched_to: HashMap<(usize, u32), u64>,
    }

    impl Taken {
        fn take(&mut self, batch: &ItemBatch<Mark>) {
            for (segment, marks) in batch.segments() {
                // A stream belongs to one sender, which its number tells.
                let key = (segment.stream as usize / 10, segment.stream % 10);
                let before = self.searched_to.insert(key, segment.searched_to);
                assert!(before.is_none_or(|before| before <= segment.searched_to), "{segment:?}");
                for mark in marks {
                    let start = mark.time();
                    let last = self.last.insert(key, start);
                    assert!(last.is_none_or(|last| last < start), "order of {key:?}");
                    assert!(start <= segment.searched_to, "{segment:?}");
                }
                self.primitives += marks.len() as u64;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_the_order_of_steps_nothing_is_lost_uncounted(
            steps in prop::collection::vec(step(), 0..1200),
        ) {
            let (mut senders, receiver) = channel(2, FRAME_ITEMS_MAX, FLUSH_NS);
            let accounts = [senders[0].account(), senders[1].account()];
            let (mut taken, mut offered, mut reached) = (Taken::default(), 0, HashMap::new());
            for (number, step) in steps.iter().enumerate() {
                let tick = (number as u64 + 1) * 100_000;
                match *step {
                    Step::Append { sender, stream, primitives } => {
                        let own = sender as u32 * 10 + stream;
                        let starts = tick..tick + u64::from(primitives);
                        offered += u64::from(primitives);
                        reached.insert((sender, stream), starts.end);
                        senders[sender].append(own, tick, |out| {
                            out.extend(starts.clone().map(Mark));
                            starts.end
                        });
                    }
                    Step::Flush { sender } => senders[sender].flush_due(tick * FLUSH_NS),
                    Step::Receive => _ = receiver.receive(Duration::ZERO, |batch| taken.take(batch)),
                }
            }
            // At the end the trigger still takes what is handed over.
            std::thread::scope(|scope| {
                let finishing = scope.spawn(|| senders.into_iter().for_each(ItemSender::finish));
                while receiver.receive(Duration::from_secs(10), |batch| taken.take(batch)).is_ok() {}
                finishing.join().unwrap();
            });
            let sum = |count: fn(&Account<ItemDrop>) -> u64| accounts.iter().map(|a| count(a)).sum::<u64>();
            let dropped = sum(|account| account.dropped(ItemDrop::TriggerBusy));
            // Two senders have eight batches each, filled by some thirty frames; more are dropped.
            prop_assert_eq!(taken.primitives, sum(Account::delivered));
            prop_assert_eq!(taken.primitives + dropped, offered);
            prop_assert!(accounts.iter().all(|account| account.statement("primitives").closes()));
            prop_assert_eq!(&taken.searched_to, &reached, "progress is never lost");
        }
    }
}
