//! The receive list: a circular list of persistent buffers that one writer fills in order with whole
//! units, and that consumers take when each is closed.
//!
//! ```text
//!   Free --open--> Filling --close--> Ready --take--> Held --last hold goes--> Free
//!                     ^                 |
//!                     '--- overwritten -'   (only if asked for)
//! ```
//!
//! Buffers are filled strictly in turn, so a unit waits for the oldest of them, not for any. Memory is
//! made once and goes round. A buffer closes when the next unit does not fit, by the number of units, by
//! time, at a boundary of the data, or when asked; an empty one is never closed. What happens when
//! there is no free buffer is chosen by [`Overflow`], and each unit that is lost is counted.
//!
//! The ring of frames that a network lands in is another thing, a [clop](mod@crate::clop): there cells
//! are overwritten whether or not somebody reads them.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use gannet_measure::counter::Counter;
use gannet_measure::drop_reasons;
use gannet_measure::ledger::Account;

/// Memory of one buffer, of whatever kind: on the heap, part of a [`Region`](crate::Region), of a device.
pub trait Buffer: Send {
    /// Bytes that it holds.
    fn capacity(&self) -> usize;

    /// Copies a unit into it.
    ///
    /// # Panics
    /// When `offset + unit.len()` is more than it holds.
    fn store(&mut self, offset: usize, unit: &[u8]);
}

impl<T: DerefMut<Target = [u8]> + Send> Buffer for T {
    fn capacity(&self) -> usize {
        self.len()
    }

    fn store(&mut self, offset: usize, unit: &[u8]) {
        self[offset..offset + unit.len()].copy_from_slice(unit);
    }
}

/// Why a buffer was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum CloseReason {
    /// The next unit does not fit.
    #[default]
    Full,
    /// It has as many units as a buffer may have.
    Count,
    /// Its first unit has waited long enough.
    Timeout,
    /// A burst or a time slice has ended.
    Boundary,
    /// It was asked for.
    Flush,
}

/// What to do with a unit when no buffer is free for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// The unit is dropped.
    DropNewest,
    /// The oldest buffer is overwritten, if nobody has taken it yet; else the unit is dropped.
    OverwriteOldest,
    /// The unit is refused and may be offered again, for inputs that can wait.
    Backpressure,
}

drop_reasons! {
    /// Why a unit did not reach a consumer.
    pub enum UnitDrop {
        /// No buffer was free.
        NoBuffer => "no_buffer",
        /// Its buffer was overwritten before it was taken.
        Overwritten => "overwritten",
        /// It is longer than a buffer.
        TooLong => "too_long",
    }
}

/// When a buffer closes, and what happens when none is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Units at which a buffer closes, at least 1.
    pub units_max: u32,
    /// Time after its first unit at which a buffer closes, in ns.
    pub timeout_ns: u64,
    /// What happens when no buffer is free.
    pub overflow: Overflow,
}

/// What is known of a closed buffer: one cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Completion {
    /// Number of the buffer since the start; wraps.
    pub seq: u64,
    /// Place in the list.
    pub slot: u32,
    /// Bytes in it.
    pub bytes: u32,
    /// Units in it.
    pub units: u32,
    /// Why it was closed.
    pub reason: CloseReason,
    /// Whether it was overwritten before it was taken.
    pub is_lost: bool,
    /// Time of its first unit by the detector's clock.
    pub first_time: u64,
    /// Time of its last unit by the detector's clock.
    pub last_time: u64,
    /// When its first unit came, in ns.
    pub first_ns: u64,
    /// When it was closed, in ns.
    pub close_ns: u64,
    /// Units that were dropped for want of a buffer between the one before and this one.
    pub dropped_before: u32,
}

const _: () = assert!(size_of::<Completion>() == 64);

/// Why a unit was not taken in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It was dropped and counted: no buffer is free.
    #[error("no buffer is free, the unit is lost")]
    NoBuffer,
    /// It was dropped and counted: it is longer than a buffer.
    #[error("the unit is longer than a buffer and is lost")]
    TooLong,
    /// It was not counted, and may be offered again: no buffer is free.
    #[error("no buffer is free yet")]
    Wait,
}

/// Where a buffer is in its life.
#[derive(Debug)]
enum Slot<B> {
    Free(B),
    Filling,
    Ready(B),
    Held,
}

#[derive(Debug)]
struct State<B> {
    slots: Vec<Slot<B>>,
    /// Of the last buffer that was closed in each slot.
    records: Vec<Completion>,
    /// Number of the buffer that is closed next, and its slot.
    next: (u64, usize),
    /// Number of the buffer that is taken next.
    taken: u64,
    /// The writer is gone.
    is_over: bool,
}

#[derive(Debug)]
struct Shared<B> {
    state: Mutex<State<B>>,
    closed: Condvar,
    account: Arc<Account<UnitDrop>>,
    dropped_bytes: Counter,
    waits: Counter,
}

impl<B> Shared<B> {
    fn lock(&self) -> MutexGuard<'_, State<B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts units that are lost. Only the writer calls it.
    fn discard(&self, reason: UnitDrop, units: u64, bytes: usize) {
        self.account.discard(reason, units);
        self.dropped_bytes.add(bytes as u64);
    }
}

/// Makes a list of `buffers`, to be filled in this order: its writer and a first consumer.
///
/// # Panics
/// When there are no buffers, one holds 4 GiB or more, or no unit may be in one.
pub fn receive_list<B: Buffer>(buffers: Vec<B>, rules: Rules) -> (ListWriter<B>, Consumer<B>) {
    assert!(!buffers.is_empty() && rules.units_max > 0, "a list needs buffers with units");
    let capacity = buffers.iter().map(Buffer::capacity).min().unwrap_or(0);
    assert!(u32::try_from(capacity).is_ok(), "a buffer is too long");
    let state = State {
        records: vec![Completion::default(); buffers.len()],
        slots: buffers.into_iter().map(Slot::Free).collect(),
        next: (0, 0),
        taken: 0,
        is_over: false,
    };
    let shared = Arc::new(Shared {
        state: Mutex::new(state),
        closed: Condvar::new(),
        account: Arc::default(),
        dropped_bytes: Counter::default(),
        waits: Counter::default(),
    });
    let writer = ListWriter {
        shared: Arc::clone(&shared),
        rules,
        capacity,
        open: None,
        dropped: 0,
        now_ns: 0,
    };
    (writer, Consumer { shared })
}

/// The buffer that is being filled.
#[derive(Debug)]
struct Open<B> {
    buffer: B,
    record: Completion,
}

/// The end that fills buffers. When it goes, the buffer in hand is closed.
#[derive(Debug)]
pub struct ListWriter<B: Buffer> {
    shared: Arc<Shared<B>>,
    rules: Rules,
    /// Bytes that each buffer holds.
    capacity: usize,
    open: Option<Open<B>>,
    /// Units dropped for want of a buffer since the last one was opened.
    dropped: u32,
    now_ns: u64,
}

impl<B: Buffer> ListWriter<B> {
    /// Ledger of units: delivered to a consumer, or dropped.
    pub fn account(&self) -> &Arc<Account<UnitDrop>> {
        &self.shared.account
    }

    /// Bytes of the units that were dropped.
    pub fn dropped_bytes(&self) -> u64 {
        self.shared.dropped_bytes.get()
    }

    /// Times that a unit was refused and might be offered again.
    pub fn waits(&self) -> u64 {
        self.shared.waits.get()
    }

    /// Puts a unit into the buffer in hand, or into the next. `time` is that of the detector, `now_ns`
    /// a reading of the clock of [`Rules::timeout_ns`].
    ///
    /// # Errors
    /// When it is not taken in: dropped and counted, or to be offered again.
    pub fn append(&mut self, unit: &[u8], time: u64, now_ns: u64) -> Result<(), Refused> {
        self.expire(now_ns);
        if unit.len() > self.capacity {
            self.shared.account.offer(1);
            self.shared.discard(UnitDrop::TooLong, 1, unit.len());
            return Err(Refused::TooLong);
        }
        let bytes = self.open.as_ref().map_or(0, |open| open.record.bytes as usize);
        if bytes + unit.len() > self.capacity {
            self.close(CloseReason::Full, now_ns);
        }
        if self.open.is_none() {
            self.open = self.next_buffer(time, now_ns);
        }
        let Some(Open { buffer, record }) = &mut self.open else {
            return Err(self.overflow(unit.len()));
        };
        self.shared.account.offer(1);
        buffer.store(record.bytes as usize, unit);
        record.last_time = time;
        record.bytes += unit.len() as u32;
        record.units += 1;
        if record.units == self.rules.units_max {
            self.close(CloseReason::Count, now_ns);
        }
        Ok(())
    }

    /// Closes the buffer in hand if its first unit has waited long enough.
    pub fn expire(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
        let waited = |open: &Open<B>| now_ns.saturating_sub(open.record.first_ns);
        if self.open.as_ref().is_some_and(|open| waited(open) >= self.rules.timeout_ns) {
            self.close(CloseReason::Timeout, now_ns);
        }
    }

    /// Closes the buffer in hand at the end of a burst or a time slice.
    pub fn end_slice(&mut self, now_ns: u64) {
        self.close(CloseReason::Boundary, now_ns);
    }

    /// Closes the buffer in hand.
    pub fn flush(&mut self, now_ns: u64) {
        self.close(CloseReason::Flush, now_ns);
    }

    /// The next buffer, for a first unit of this time; `None` when it is not free.
    fn next_buffer(&mut self, first_time: u64, first_ns: u64) -> Option<Open<B>> {
        let mut state = self.shared.lock();
        let (seq, slot) = state.next;
        let overwrites = self.rules.overflow == Overflow::OverwriteOldest;
        let buffer = match std::mem::replace(&mut state.slots[slot], Slot::Filling) {
            Slot::Free(buffer) => buffer,
            Slot::Ready(buffer) if overwrites => {
                let lost = &mut state.records[slot];
                lost.is_lost = true;
                self.shared.discard(UnitDrop::Overwritten, lost.units.into(), lost.bytes as usize);
                buffer
            }
            taken => {
                state.slots[slot] = taken;
                return None;
            }
        };
        let record = Completion {
            seq,
            slot: slot as u32,
            first_time,
            first_ns,
            dropped_before: std::mem::take(&mut self.dropped),
            ..Completion::default()
        };
        Some(Open { buffer, record })
    }

    /// Counts a unit of `len` bytes for which there is no buffer.
    fn overflow(&mut self, len: usize) -> Refused {
        if self.rules.overflow == Overflow::Backpressure {
            self.shared.waits.add(1);
            return Refused::Wait;
        }
        self.shared.account.offer(1);
        self.shared.discard(UnitDrop::NoBuffer, 1, len);
        self.dropped = self.dropped.saturating_add(1);
        Refused::NoBuffer
    }

    fn close(&mut self, reason: CloseReason, now_ns: u64) {
        let Some(open) = self.open.take() else { return };
        let mut state = self.shared.lock();
        let (seq, slot) = state.next;
        state.slots[slot] = Slot::Ready(open.buffer);
        state.records[slot] = Completion { reason, close_ns: now_ns, ..open.record };
        state.next = (seq.wrapping_add(1), (slot + 1) % state.slots.len());
        drop(state);
        self.shared.closed.notify_one();
    }
}

impl<B: Buffer> Drop for ListWriter<B> {
    fn drop(&mut self) {
        self.close(CloseReason::Flush, self.now_ns);
        self.shared.lock().is_over = true;
        self.shared.closed.notify_all();
    }
}

/// An end that takes closed buffers. Several share the buffers; who wants all of them shares holds.
#[derive(Debug)]
pub struct Consumer<B> {
    shared: Arc<Shared<B>>,
}

impl<B> Clone for Consumer<B> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// The next in the order in which buffers were closed.
#[derive(Debug)]
pub enum Taken<B> {
    /// A buffer.
    Buffer(Hold<B>),
    /// What is known of a buffer that was overwritten.
    Lost(Completion),
}

impl<B> Consumer<B> {
    /// Takes the oldest closed buffer, if there is one. Of overwritten ones only as many are told as
    /// the list has buffers; the account has all.
    pub fn take(&self) -> Option<Taken<B>> {
        self.take_of(&mut self.shared.lock())
    }

    /// As [`take`](Self::take), but waits at most `wait` for one.
    pub fn take_within(&self, wait: Duration) -> Option<Taken<B>> {
        let state = self.shared.lock();
        let is_empty = |state: &mut State<B>| state.taken == state.next.0 && !state.is_over;
        let waited = self.shared.closed.wait_timeout_while(state, wait, is_empty);
        self.take_of(&mut waited.unwrap_or_else(PoisonError::into_inner).0)
    }

    /// Whether no buffer will come any more: the writer is gone and all were taken.
    pub fn is_finished(&self) -> bool {
        let state = self.shared.lock();
        state.is_over && state.taken == state.next.0
    }

    fn take_of(&self, state: &mut State<B>) -> Option<Taken<B>> {
        let ((next, next_slot), count) = (state.next, state.slots.len());
        let behind = (next.wrapping_sub(state.taken) as usize).min(count);
        if behind == 0 {
            return None;
        }
        state.taken = next.wrapping_sub(behind as u64 - 1);
        let slot = (next_slot + count - behind) % count;
        let completion = state.records[slot];
        match std::mem::replace(&mut state.slots[slot], Slot::Held) {
            Slot::Ready(buffer) => {
                self.shared.account.deliver(completion.units.into());
                let shared = Arc::clone(&self.shared);
                Some(Taken::Buffer(Hold(Arc::new(Held {
                    shared,
                    completion,
                    buffer: Some(buffer),
                }))))
            }
            other => {
                state.slots[slot] = other;
                Some(Taken::Lost(completion))
            }
        }
    }
}

/// A buffer that was taken. It is filled again when its last hold goes.
#[derive(Debug)]
pub struct Hold<B>(Arc<Held<B>>);

#[derive(Debug)]
struct Held<B> {
    shared: Arc<Shared<B>>,
    completion: Completion,
    buffer: Option<B>,
}

impl<B> Clone for Hold<B> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<B> Hold<B> {
    /// What is known of it.
    pub fn completion(&self) -> &Completion {
        &self.0.completion
    }
}

impl<B: Deref<Target = [u8]>> Hold<B> {
    /// The units in it, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        let bytes = self.0.buffer.as_deref().unwrap_or_default();
        &bytes[..self.0.completion.bytes as usize]
    }
}

impl<B> Drop for Held<B> {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.shared.lock().slots[self.completion.slot as usize] = Slot::Free(buffer);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
