//! The bounded queue between those who offer chunks and the recorder thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use gannet_measure::ledger::Statement;

use super::account::{Accounts, Tally};
use super::format::{HEADER_BYTES, Label};
use super::writer::check_chunk;

gannet_measure::drop_reasons! {
    /// Why the recorder did not keep a chunk.
    pub enum ChunkDrop {
        /// The log never takes such a chunk: reserved kind, times reversed, or too long.
        Refused => "refused",
        /// The queue was full while the disk was full or down to its reserve.
        DiskFull => "disk_full",
        /// The queue was full while the directory was not there.
        DirectoryMissing => "directory_missing",
        /// No file may be as large as it would have to be with the chunk in it (`ulimit -f`).
        FileLimit => "file_limit",
        /// The queue was full while writing failed for another cause.
        WriteError => "write_error",
        /// The recorder had been stopped.
        Stopped => "stopped",
        /// It was written, and its file was removed or replaced before the file was finished.
        FileRemoved => "file_removed",
        /// It was written, and somebody truncated its file before that was finished.
        FileTruncated => "file_truncated",
        /// It was written, and the disk did not keep it: its file cannot be flushed, and it cannot be
        /// read back.
        NotKept => "not_kept",
        /// The run had ended, and the disk took nothing for as long as the end may wait for it.
        Deadline => "deadline",
        /// The run had ended, and whoever ended it would not wait for the disk.
        Abandoned => "abandoned",
        /// Nothing of the run is to be recorded.
        NotRecorded => "not_recorded",
    }
}

/// Most chunks that wait at one time.
pub const QUEUE_CHUNKS_MAX: usize = 65_536;

/// A chunk on its way to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// What the payload is.
    pub label: Label,
    /// The payload, in parts that are written one after the other.
    pub parts: Vec<Vec<u8>>,
}

impl Chunk {
    /// A chunk with its payload in one part.
    pub fn new(label: Label, payload: Vec<u8>) -> Self {
        Self { label, parts: vec![payload] }
    }

    /// Size of the payload in bytes.
    pub fn payload_len(&self) -> usize {
        self.parts.iter().map(Vec::len).sum()
    }

    /// Memory that the chunk is counted with, in bytes: its payload, and a header each for the
    /// chunk and for every part.
    fn memory_bytes(&self) -> u64 {
        (self.payload_len() + HEADER_BYTES * (1 + self.parts.len())) as u64
    }
}

/// What became of an offered chunk.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Offer {
    /// It will be written; this is its number in the run. It is safe once
    /// [`acknowledged`](super::RecorderHandle::acknowledged) is above the number.
    Accepted(u64),
    /// It was dropped, and counted in the recorder's account.
    Dropped(ChunkDrop),
    /// The queue is full because the disk is slow. The chunk is back, and the recorder has not
    /// counted it: whoever offered it waits, or drops it and counts that.
    Busy(Chunk),
}

/// What the thread gets from the queue.
pub(super) enum Pop {
    /// A chunk.
    Chunk(Chunk),
    /// There is a chunk, but it does not fit.
    NoRoom,
    /// The time is over.
    Timeout,
    /// The queue is closed and empty.
    Closed,
}

/// The queue and the recorder's account, which is kept under the lock of the queue.
pub(super) struct Queue {
    inner: Mutex<Inner>,
    wake: Condvar,
    bytes_max: u64,
}

struct Inner {
    chunks: VecDeque<Chunk>,
    bytes: u64,
    accepted: u64,
    /// Why no chunk is taken any more.
    closed: Option<ChunkDrop>,
    outage: Option<ChunkDrop>,
    accounts: Accounts,
    /// The account is final: what the disk still takes comes too late.
    written_off: bool,
}

impl Inner {
    fn give_up(&mut self, reason: ChunkDrop) -> Tally {
        self.closed.get_or_insert(reason);
        self.chunks.clear();
        self.bytes = 0;
        self.accounts.give_up(reason)
    }
}

impl Queue {
    /// An empty queue for `bytes_max` bytes.
    pub fn new(bytes_max: u64) -> Self {
        let inner = Inner {
            chunks: VecDeque::with_capacity(QUEUE_CHUNKS_MAX),
            bytes: 0,
            accepted: 0,
            closed: None,
            outage: None,
            accounts: Accounts::default(),
            written_off: false,
        };
        Self { inner: Mutex::new(inner), wake: Condvar::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code panics while it holds the lock, and the state is whole at each moment.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a chunk if there is room; never waits for the disk.
    pub fn offer(&self, chunk: Chunk) -> Offer {
        let bytes = chunk.memory_bytes();
        let fits_at_all = bytes <= self.bytes_max;
        let sound = fits_at_all && check_chunk(&chunk.label, chunk.payload_len()).is_ok();
        let tally = Tally::of(&chunk.label);
        let mut inner = self.lock();
        let reason = if let Some(reason) = inner.closed {
            reason
        } else if !sound {
            ChunkDrop::Refused
        } else if inner.bytes + bytes <= self.bytes_max && inner.chunks.len() < QUEUE_CHUNKS_MAX {
            let number = inner.accepted;
            inner.accepted += 1;
            inner.bytes += bytes;
            inner.chunks.push_back(chunk);
            inner.accounts.accept(&tally);
            self.wake.notify_one();
            return Offer::Accepted(number);
        } else {
            match inner.outage {
                Some(reason) => reason,
                None => return Offer::Busy(chunk),
            }
        };
        inner.accounts.refuse(&tally, reason);
        Offer::Dropped(reason)
    }

    /// Waits until `until` for a chunk for which `fits` holds.
    pub fn pop(&self, until: Instant, fits: impl Fn(&Chunk) -> bool) -> Pop {
        let mut inner = self.lock();
        while inner.chunks.is_empty() {
            if inner.closed.is_some() {
                return Pop::Closed;
            }
            let wait = until.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Pop::Timeout;
            }
            let woken = self.wake.wait_timeout(inner, wait);
            inner = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
        match inner.chunks.pop_front_if(|chunk| fits(chunk)) {
            Some(chunk) => {
                inner.bytes -= chunk.memory_bytes();
                Pop::Chunk(chunk)
            }
            None => Pop::NoRoom,
        }
    }

    /// Tells those who offer why a full queue does not empty, or that it does again.
    pub fn set_outage(&self, outage: Option<ChunkDrop>) {
        self.lock().outage = outage;
    }

    /// Counts accepted chunks as safe; false when they were written off before.
    pub fn deliver(&self, tally: &Tally) -> bool {
        let mut inner = self.lock();
        if !inner.written_off {
            inner.accounts.deliver(tally);
        }
        !inner.written_off
    }

    /// Whether all that was not safe has been written off.
    pub fn is_written_off(&self) -> bool {
        self.lock().written_off
    }

    /// Counts chunks that were safe as gone, for `reason`.
    pub fn lose(&self, tally: &Tally, reason: ChunkDrop) {
        let mut inner = self.lock();
        if !inner.written_off {
            inner.accounts.lose(tally, reason);
        }
    }

    /// Counts chunks that were given up for `reason` and are in a file after all.
    pub fn regain(&self, tally: &Tally, reason: ChunkDrop) {
        let mut inner = self.lock();
        if !inner.written_off {
            inner.accounts.regain(tally, reason);
        }
    }

    /// Counts the chunk that is written last, past the queue.
    pub fn accept_last(&self, tally: &Tally) {
        let mut inner = self.lock();
        if !inner.written_off {
            inner.accounts.accept(tally);
        }
    }

    /// Takes no more chunks, for `reason`; the first reason stays.
    pub fn close(&self, reason: ChunkDrop) {
        self.lock().closed.get_or_insert(reason);
        self.wake.notify_all();
    }

    /// Whether the queue takes no more chunks.
    pub fn is_closed(&self) -> bool {
        self.lock().closed.is_some()
    }

    /// Drops every chunk that was accepted and is not safe, and returns what they held.
    pub fn give_up(&self, reason: ChunkDrop) -> Tally {
        self.lock().give_up(reason)
    }

    /// The same, while the recorder thread is stuck: from now on the account does not change.
    pub fn write_off(&self, reason: ChunkDrop) -> Tally {
        let mut inner = self.lock();
        inner.written_off = true;
        inner.give_up(reason)
    }

    /// Chunks and bytes that wait now.
    pub fn fill(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.chunks.len() as u64, inner.bytes)
    }

    /// Most bytes that may wait.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// The account of each item.
    pub fn statements(&self) -> Vec<Statement> {
        self.lock().accounts.statements()
    }

    /// The account over chunks.
    #[cfg(test)]
    pub fn account(&self) -> Statement {
        self.lock().accounts.statement(crate::Item::Chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Item, Kind};

    fn chunk(bytes: usize) -> Chunk {
        Chunk::new(Label::new(Kind::TP_SLICE), vec![0; bytes])
    }

    #[test]
    fn is_bounded_by_bytes_and_hands_back_what_does_not_fit() {
        let queue = Queue::new(10_000);
        assert_eq!(queue.offer(chunk(5000)), Offer::Accepted(0));
        assert_eq!(queue.offer(chunk(5000)), Offer::Busy(chunk(5000)));
        assert_eq!(queue.offer(chunk(4000)), Offer::Accepted(1));
        assert!(queue.fill().1 <= 10_000);
        assert!(matches!(queue.pop(Instant::now(), |_| true), Pop::Chunk(_)));
        assert_eq!(queue.offer(chunk(5000)), Offer::Accepted(2));
        assert_eq!(queue.account().offered, 3, "Busy is no offer");
    }

    #[test]
    fn is_bounded_by_number() {
        let queue = Queue::new(1 << 40);
        for number in 0..QUEUE_CHUNKS_MAX as u64 {
            assert_eq!(queue.offer(chunk(0)), Offer::Accepted(number));
        }
        assert_eq!(queue.offer(chunk(0)), Offer::Busy(chunk(0)));
    }

    #[test]
    fn a_full_queue_drops_with_the_reason_of_the_outage() {
        let queue = Queue::new(1000);
        queue.set_outage(Some(ChunkDrop::DiskFull));
        assert_eq!(queue.offer(chunk(500)), Offer::Accepted(0));
        assert_eq!(queue.offer(chunk(500)), Offer::Dropped(ChunkDrop::DiskFull));
        queue.set_outage(None);
        assert_eq!(queue.offer(chunk(500)), Offer::Busy(chunk(500)));
        assert_eq!(queue.give_up(ChunkDrop::WriteError).get(Item::Chunk), 1);
        assert!(queue.account().closes());
    }

    #[test]
    fn what_the_log_never_takes_is_refused() {
        let queue = Queue::new(1000);
        let refused = Offer::Dropped(ChunkDrop::Refused);
        assert_eq!(queue.offer(chunk(1000)), refused, "larger than the whole queue");
        let own = Chunk::new(Label::new(Kind::END_OF_FILE), vec![]);
        assert_eq!(queue.offer(own), refused);
        let reversed = Chunk::new(Label::new(Kind::BUSY).times(2, 1), vec![]);
        assert_eq!(queue.offer(reversed), refused);
        assert!(queue.account().closes());
    }

    #[test]
    fn a_chunk_that_was_waited_for_must_fit_too() {
        let queue = Queue::new(1000);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                let until = Instant::now() + std::time::Duration::from_secs(30);
                matches!(queue.pop(until, |_| false), Pop::NoRoom)
            });
            std::thread::sleep(std::time::Duration::from_millis(50));
            assert_eq!(queue.offer(chunk(1)), Offer::Accepted(0));
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn is_emptied_after_it_was_closed() {
        let queue = Queue::new(1000);
        let _ = queue.offer(chunk(1));
        queue.close(ChunkDrop::Stopped);
        assert_eq!(queue.offer(chunk(1)), Offer::Dropped(ChunkDrop::Stopped));
        assert!(matches!(queue.pop(Instant::now(), |_| false), Pop::NoRoom));
        assert!(matches!(queue.pop(Instant::now(), |_| true), Pop::Chunk(_)));
        assert!(matches!(queue.pop(Instant::now(), |_| true), Pop::Closed));
    }
}
