//! The way of trigger primitives from the receiving threads to the trigger thread.
//!
//! Primitives travel in batches whose memory goes round: a receiver fills one, hands it over about
//! every millisecond, and takes an empty one back. While the trigger does not keep up there is no
//! empty one, and the batch in hand is filled further; when that is full its primitives are dropped
//! and counted. Receiving never waits.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use gannet_measure::ledger::Account;
use gannet_wire::TriggerPrimitive;

/// Primitives that one batch holds at most.
const BATCH_PRIMITIVES: usize = 1 << 16;
/// Segments that one batch holds at most.
const BATCH_SEGMENTS: usize = 1 << 14;
/// Batches of one sender.
const BATCHES: usize = 8;
/// How long a batch is filled before it is handed over, in nanoseconds.
const FLUSH_NS: u64 = 1_000_000;

gannet_measure::drop_reasons! {
    /// Why trigger primitives did not reach the trigger.
    pub enum PrimitiveDrop {
        /// The trigger was too slow and every batch was full.
        TriggerBusy => "trigger_busy",
    }
}

/// Consecutive primitives of a batch that come from one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Index of the stream.
    pub stream: u32,
    /// Number of primitives.
    pub primitives: u32,
    /// Time up to which the stream has been searched, in ticks.
    pub searched_to: u64,
    /// When the last frame of the segment arrived, on the clock of the receivers.
    pub arrival_ns: u64,
}

/// Primitives of several streams, in the order in which they were found.
#[derive(Debug)]
pub struct Batch {
    segments: Vec<Segment>,
    primitives: Vec<TriggerPrimitive>,
}

impl Batch {
    fn new() -> Self {
        Self {
            segments: Vec::with_capacity(BATCH_SEGMENTS),
            primitives: Vec::with_capacity(BATCH_PRIMITIVES),
        }
    }

    /// Each segment with its primitives.
    pub fn segments(&self) -> impl Iterator<Item = (Segment, &[TriggerPrimitive])> {
        let mut rest = self.primitives.as_slice();
        self.segments.iter().map(move |segment| {
            let (own, others) = rest.split_at(segment.primitives as usize);
            rest = others;
            (*segment, own)
        })
    }

    fn clear(&mut self) {
        self.segments.clear();
        self.primitives.clear();
    }
}

/// Empty batches on their way back.
type Pool = Arc<Mutex<Vec<Batch>>>;

/// The receiving thread's end.
#[derive(Debug)]
pub struct PrimitiveSender {
    open: Batch,
    opened_ns: Option<u64>,
    full: SyncSender<Batch>,
    pool: Pool,
    account: Arc<Account<PrimitiveDrop>>,
}

/// The trigger thread's end; closed when every sender is gone.
#[derive(Debug)]
pub struct PrimitiveReceiver {
    full: Receiver<Batch>,
    pool: Pool,
}

/// Makes `senders` ends for receiving threads and the one end for the trigger thread.
pub fn channel(senders: usize) -> (Vec<PrimitiveSender>, PrimitiveReceiver) {
    let (full, receiver) = sync_channel(senders * BATCHES);
    let batches = (0..senders * (BATCHES - 1)).map(|_| Batch::new()).collect();
    let pool = Arc::new(Mutex::new(batches));
    let sender = || PrimitiveSender {
        open: Batch::new(),
        opened_ns: None,
        full: full.clone(),
        pool: Arc::clone(&pool),
        account: Arc::default(),
    };
    let senders = (0..senders).map(|_| sender()).collect();
    (senders, PrimitiveReceiver { full: receiver, pool })
}

impl PrimitiveSender {
    /// Ledger of primitives found: delivered to the trigger, or dropped.
    pub fn account(&self) -> Arc<Account<PrimitiveDrop>> {
        Arc::clone(&self.account)
    }

    /// Lets `find` append the primitives of one frame of a stream and say up to which tick the
    /// stream has been searched. Gives the number found.
    ///
    /// `find` must append at most [`MAX_TPS_PER_FRAME`](gannet_kernels::MAX_TPS_PER_FRAME); a
    /// batch is handed over before it could overflow.
    pub fn append(
        &mut self,
        stream: u32,
        arrival_ns: u64,
        find: impl FnOnce(&mut Vec<TriggerPrimitive>) -> u64,
    ) -> u64 {
        let before = self.open.primitives.len();
        let searched_to = find(&mut self.open.primitives);
        let found = (self.open.primitives.len() - before) as u64;
        self.account.offer(found);
        self.opened_ns.get_or_insert(arrival_ns);
        let segment = Segment { stream, primitives: found as u32, searched_to, arrival_ns };
        match self.open.segments.last_mut() {
            Some(last) if last.stream == stream => {
                last.primitives += segment.primitives;
                (last.searched_to, last.arrival_ns) = (searched_to, arrival_ns);
            }
            _ => self.open.segments.push(segment),
        }
        let tight = self.open.primitives.len() + gannet_kernels::MAX_TPS_PER_FRAME
            > BATCH_PRIMITIVES
            || self.open.segments.len() == BATCH_SEGMENTS;
        if tight && !self.hand_over() {
            self.lose();
        }
        found
    }

    /// Hands the open batch over when it has been open for long enough and there is an empty one.
    pub fn flush_due(&mut self, now_ns: u64) {
        if self.opened_ns.is_some_and(|opened| now_ns.saturating_sub(opened) >= FLUSH_NS) {
            self.hand_over();
        }
    }

    /// Hands over what is there, waiting for the trigger if need be: the end of a run.
    pub fn finish(mut self) {
        let last =
            std::mem::replace(&mut self.open, Batch { segments: vec![], primitives: vec![] });
        let count = last.primitives.len() as u64;
        match self.full.send(last) {
            Ok(()) => self.account.deliver(count),
            Err(_) => self.account.discard(PrimitiveDrop::TriggerBusy, count),
        }
    }

    /// Exchanges the open batch for an empty one, if there is one.
    fn hand_over(&mut self) -> bool {
        let empty = self.pool.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let Some(empty) = empty else { return false };
        let count = self.open.primitives.len() as u64;
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

    /// Drops the primitives of the open batch but keeps how far each stream was searched, so that
    /// the trigger does not wait for what will not come.
    fn lose(&mut self) {
        let count = self.open.primitives.len() as u64;
        self.account.discard(PrimitiveDrop::TriggerBusy, count);
        self.open.primitives.clear();
        let mut newest: Vec<Segment> = Vec::new();
        for segment in self.open.segments.drain(..).rev() {
            if newest.iter().all(|kept| kept.stream != segment.stream) {
                newest.push(Segment { primitives: 0, ..segment });
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

impl PrimitiveReceiver {
    /// Passes the next batch to `take`, waiting at most `wait` for it.
    ///
    /// # Errors
    /// When no batch came in time, or none will ever come.
    pub fn receive(&self, wait: Duration, take: impl FnOnce(&Batch)) -> Result<(), NoBatch> {
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

    fn primitive(value: u64) -> TriggerPrimitive {
        TriggerPrimitive { words: [2, value, 0] }
    }

    fn found(out: &mut Vec<TriggerPrimitive>, value: u64, searched_to: u64) -> u64 {
        out.push(primitive(value));
        searched_to
    }

    fn drain(receiver: &PrimitiveReceiver) -> (Vec<Segment>, Vec<u64>) {
        let (mut segments, mut starts) = (Vec::new(), Vec::new());
        while receiver
            .receive(Duration::ZERO, |batch| {
                for (segment, primitives) in batch.segments() {
                    segments.push(segment);
                    starts.extend(primitives.iter().map(TriggerPrimitive::time_start));
                }
            })
            .is_ok()
        {}
        (segments, starts)
    }

    #[test]
    fn segments_of_one_stream_are_joined_and_order_is_kept() {
        let (mut senders, receiver) = channel(1);
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
        let first = Segment { stream: 0, primitives: 2, searched_to: 20, arrival_ns: 2 };
        assert_eq!(segments[0], first);
        assert_eq!(segments[1].searched_to, 15);
    }

    #[test]
    fn a_trigger_that_pauses_loses_nothing_while_a_batch_has_room() {
        let (mut senders, receiver) = channel(1);
        let mut sender = senders.pop().unwrap();
        for round in 1..=1000 {
            sender.append(0, round * FLUSH_NS, |out| found(out, round, round));
            sender.flush_due((round + 1) * FLUSH_NS);
        }
        sender.finish();
        assert_eq!(drain(&receiver).1, Vec::from_iter(1..=1000));
    }

    #[test]
    fn a_trigger_that_does_not_keep_up_loses_counted_primitives_but_no_progress() {
        let (mut senders, receiver) = channel(1);
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
            40 => (0..2usize, 0..3u32, 0..=gannet_kernels::MAX_TPS_PER_FRAME as u16)
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
        fn take(&mut self, batch: &Batch) {
            for (segment, primitives) in batch.segments() {
                // A stream belongs to one sender, which its number tells.
                let key = (segment.stream as usize / 10, segment.stream % 10);
                let before = self.searched_to.insert(key, segment.searched_to);
                assert!(before.is_none_or(|before| before <= segment.searched_to), "{segment:?}");
                for primitive in primitives {
                    let start = primitive.time_start();
                    let last = self.last.insert(key, start);
                    assert!(last.is_none_or(|last| last < start), "order of {key:?}");
                    assert!(start <= segment.searched_to, "{segment:?}");
                }
                self.primitives += primitives.len() as u64;
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn whatever_the_order_of_steps_nothing_is_lost_uncounted(
            steps in prop::collection::vec(step(), 0..1200),
        ) {
            let (mut senders, receiver) = channel(2);
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
                            out.extend(starts.clone().map(primitive));
                            starts.end
                        });
                    }
                    Step::Flush { sender } => senders[sender].flush_due(tick * FLUSH_NS),
                    Step::Receive => _ = receiver.receive(Duration::ZERO, |batch| taken.take(batch)),
                }
            }
            // At the end the trigger still takes what is handed over.
            std::thread::scope(|scope| {
                let finishing = scope.spawn(|| senders.into_iter().for_each(PrimitiveSender::finish));
                while receiver.receive(Duration::from_secs(10), |batch| taken.take(batch)).is_ok() {}
                finishing.join().unwrap();
            });
            let sum = |count: fn(&Account<PrimitiveDrop>) -> u64| accounts.iter().map(|a| count(a)).sum::<u64>();
            let dropped = sum(|account| account.dropped(PrimitiveDrop::TriggerBusy));
            // Two senders have eight batches each, filled by some thirty frames; more are dropped.
            prop_assert_eq!(taken.primitives, sum(Account::delivered));
            prop_assert_eq!(taken.primitives + dropped, offered);
            prop_assert!(accounts.iter().all(|account| account.statement("primitives").closes()));
            prop_assert_eq!(&taken.searched_to, &reached, "progress is never lost");
        }
    }
}
